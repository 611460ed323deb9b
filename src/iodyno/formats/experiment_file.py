"""The experiment file: YAML in, `iodyno.core.experiment.Experiment` out, or one error with every mistake.

>>> experiment = parse_experiment('''
... name: cost
... hosts: {client: {access: local}, server: {access: local}}
... workload: {kind: stream, sender: client, receiver: server}
... factors: {size: [1KiB, 64KiB]}
... ''')
>>> experiment.factors[0].levels, experiment.windows.measured_ns
((1024, 65536), 10000000000)
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.formats import yaml_document
from iodyno.formats.experiment_model import experiment_schema
from iodyno.formats.experiment_sections import Reading
from iodyno.formats.mistakes import error

__all__ = ["experiment_schema", "experiment_text", "parse_experiment", "read_experiment"]


def read_experiment(
    path: str | os.PathLike[str], *, quick: bool = False, environment: Mapping[str, str] | None = None
) -> Experiment:
    """The experiment in the file; with `quick`, in its quick form.

    `environment` (default: that of the process) gives the values of `${NAME}`. Raises ExperimentError.
    """
    file = pathlib.Path(path)
    advice = "name an experiment file, such as one of studies/, or make one with `iodyno init`"
    try:
        if not file.is_file() and file.exists():
            kind = "a folder" if file.is_dir() else "no regular file"
            raise ExperimentError(
                f"found {kind}, allowed: an experiment file", where=str(path), advice=advice
            )
        with file.open("rb") as opened:
            raw = opened.read(yaml_document.MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ExperimentError(f"cannot be read: {reason}", where=str(path), advice=advice) from None
    return parse_experiment(raw, file=str(path), quick=quick, environment=environment)


def parse_experiment(
    text: str | bytes,
    *,
    file: str = "experiment.yaml",
    quick: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Experiment:
    """The experiment in the text, which errors call `file`. See `read_experiment`."""
    try:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
        decoded = yaml_document.decode(raw)
        top, mistakes = yaml_document.read(decoded, os.environ if environment is None else environment)
    except yaml_document.NotYamlError as problem:
        raise error(file, [problem.mistake]) from None
    reading = Reading(top, mistakes)
    experiment = reading.experiment(decoded, quick=quick)
    if experiment is None or reading.mistakes:
        raise error(file, reading.mistakes, "`iodyno schema` prints every key with what it may hold")
    return experiment


def experiment_text(mapping: Mapping[str, Any]) -> str:
    """The mapping as an experiment file, for experiments that are made in memory.

    Values are str, int, float, bool, None, list and dict. Every text is quoted, and read back as it was.
    """
    return "".join(f"{key}: {_flow(value)}\n" for key, value in mapping.items())


_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        # JSON and YAML read a text in double quotes alike, but for what YAML calls unprintable.
        quoted = json.dumps(value.replace("${", "$${"), ensure_ascii=False)
        return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)
    return json.dumps(value)
