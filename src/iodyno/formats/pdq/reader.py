"""Carries out a script that calls PDQ, and says what it solved."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from iodyno.core.errors import ExperimentError
from iodyno.core.network import Network
from iodyno.formats.pdq.calls import Answers, Model, Run
from iodyno.formats.pdq.expressions import State
from iodyno.formats.pdq.statements import Statements
from iodyno.formats.pdq.tokens import ScriptError, language_of, tokens
from iodyno.formats.yaml_document import MAX_BYTES


def is_pdq(text: str) -> bool:
    """Whether the text calls PDQ: Init, and a Create or Solve, as calls."""
    begins = re.search(r"(?:\bpdq::|\bpdq\.|\bPDQ_|^\s*)Init\s*\(", text, re.MULTILINE)
    return begins is not None or re.search(r"(?:\bpdq::|\bpdq\.|\bPDQ_)\w+\s*\(", text) is not None


def run_script(
    text: str, solver: Callable[[Network], Answers], *, arguments: Sequence[str] = (), file: str = "script"
) -> list[Run]:
    """What the script solved, one entry a call of Solve, in their order.

    Raises ExperimentError, with the line, for what is no call of PDQ, assignment, arithmetic or loop, and for
    what `solver` refuses.
    """
    if len(text) > MAX_BYTES:
        raise ExperimentError(f"found {len(text)} characters, allowed: {MAX_BYTES} (1 MiB)", where=file)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        language = language_of(text)
        statements = Statements(tokens(text, language), language).script()
        state = State(Model(solver), list(arguments))
        for statement in statements:
            statement(state)
    except ScriptError as problem:
        raise ExperimentError(problem.what, where=f"{file}:{problem.line}", advice=problem.advice) from None
    if not state.model.runs:
        raise ExperimentError("the script never calls Solve, needed: one call", where=file)
    return state.model.runs
