"""docs/reference/reference.md is what the code says: `IODYNO_UPDATE=1 pytest tests/docs/test_reference_page.py` writes it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from iodyno.cli.main import PIPE_CLOSED
from iodyno.core import errors, quantity
from iodyno.core.outcome import BYSTANDER, OF_BYSTANDER, OUTCOMES
from iodyno.core.outcome_kind import OutcomeKind
from iodyno.core.parameter import Parameter
from iodyno.core.warnings import MEANINGS, WarningCode
from iodyno.core.workload import (
    CONNECT_REQUEST_RESPONSE,
    REQUEST_RESPONSE,
    STREAM,
    Workload,
)
from iodyno.formats.design_section import DesignSection
from iodyno.formats.experiment_model import (
    HOST_SECTIONS,
    LimitsSection,
    SearchSection,
    TopSection,
    WindowsSection,
)
from iodyno.formats.section_values import Section
from iodyno.loads.base.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "reference.md"
VARIABLES = {
    "NAME": "any name: what stands for `${NAME}` in a value of an experiment or network file, and for a variable of a profile, a"
    " personality or a job file; `${NAME:-otherwise}` has another value where it is not set, `$${` is a plain `${`",
    "IODYNO_AGENT": "the agent's program, instead of the one that came with the lab",
    "IODYNO_WATCH_TOKEN": "the token of the page of `iodyno watch`, 16 characters or more, instead of a fresh one each time",
    "NO_COLOR": "set to anything: `iodyno heatmap` prints no colours",
}


def page() -> str:
    network = (STREAM, REQUEST_RESPONSE, CONNECT_REQUEST_RESPONSE)
    parts = [
        "# Reference",
        "Made from the code by `tests/docs/test_reference_page.py`, which fails where this page is not what the code says.\n"
        "Sizes take `KiB`, `kB`, `k`, ...; durations need their unit; rates take `/s`, `k/s`, `M/s`; shares `5%` or `0.05`.",
        "## An experiment file",
        table(("key", "what it may be", "left out", "meaning"), section_rows(TopSection)),
        "## Hosts",
        table(("key", "access", "what it may be", "meaning"), host_rows()),
        "## Workloads on a network",
        f"`kind`: {', '.join(f'`{w.name}`' for w in network)}, from `sender` to `receiver`, one host or several each;\n"
        "`between`: `all` of them, or `pairs` ([several hosts](../guides/many-hosts.md)). Where no kind is named, all have"
        " the key.",
        table(("key", "what it may be", "left out", "meaning"), parameter_rows(network)),
        "## The workload `disk`",
        "`hosts`: who does it; `each`: settings of one of them.",
        table(("key", "what it may be", "left out", "meaning"), parameter_rows((WORKLOADS["disk"],))),
        "## The workloads `files` and `script`",
        "`files`: `hosts`, `program` a personality of Filebench. `script`: `profile`, `sender`,\n"
        "`receiver`; of the keys of a network it has `path`, `link_*` and `*_quota`.\n"
        "Variables of personality or profile are keys, too.",
        table(("key", "what it may be", "left out", "meaning"), parameter_rows((WORKLOADS["files"],))),
        *(
            part
            for name, section in (
                ("windows", WindowsSection),
                ("limits", LimitsSection),
                ("design", DesignSection),
                ("search", SearchSection),
            )
            for part in (
                f"## `{name}`",
                table(("key", "what it may be", "left out", "meaning"), section_rows(section)),
            )
        ),
        "## Outcomes",
        "`HOST.` stands for the name of a host. For those of a bystander `bystander.` stands before, of several `bystander-1.`"
        " and so on: " + ", ".join(f"`{name}`" for name in OF_BYSTANDER) + ".",
        table(("outcome", "unit", "better", "meaning"), outcome_rows()),
        "## Warnings",
        "A warning stands beside a number and never removes one; a trial that is void is kept and does not count.",
        table(("code", "what it says", "what to do"), warning_rows()),
        "## Exit codes of `iodyno`",
        table(("code", "meaning"), exit_rows()),
        "## Environment variables",
        table(
            ("variable", "meaning"),
            [(f"`${name}`" if name == "NAME" else f"`{name}`", text) for name, text in VARIABLES.items()],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def section_rows(section: type[Section]) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, field in section.model_fields.items():
        left_out = "needed" if field.is_required() else shown(field)
        rows.append((f"`{name}`", allowed(field), left_out, str(field.description)))
    return rows


def allowed(field: FieldInfo) -> str:
    for mark in field.metadata:
        if getattr(mark, "allowed", ""):
            return str(mark.allowed)
        words = getattr(mark, "schema", {}).get("enum")
        if words:
            return ", ".join(f"`{word}`" for word in words)
    return ""


def shown(field: FieldInfo) -> str:
    """A default as people write it: the unit is that of the range."""
    value, of = field.default, allowed(field)
    if value is None or value == "" or value == [] or value == ():
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.3g}" if "%" not in of else f"{100 * value:.3g}%"
    if isinstance(value, int) and re.search(r"\d(s|ms) to ", of):
        return quantity.show("duration", value)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def host_rows() -> list[tuple[str, str, str, str]]:
    of: dict[str, list[str]] = {}
    fields: dict[str, FieldInfo] = {}
    for access, section in HOST_SECTIONS.items():
        for name, field in section.model_fields.items():
            of.setdefault(name, []).append(access)
            fields.setdefault(name, field)
    everywhere = len(HOST_SECTIONS)
    rows = []
    for name, field in fields.items():
        if name == "access":
            rows.append(
                (
                    f"`{name}`",
                    "all",
                    ", ".join(f"`{a}`" for a in HOST_SECTIONS),
                    "How the lab reaches the host.",
                )
            )
            continue
        accesses = "all" if len(of[name]) == everywhere else ", ".join(of[name])
        rows.append((f"`{name}`", accesses, allowed(field), str(field.description)))
    return rows


def parameter_rows(workloads: tuple[Workload, ...]) -> list[tuple[str, str, str, str]]:
    names = dict.fromkeys(p.name for w in workloads for p in w.parameters)
    return [
        row(name, {w.name: p for w in workloads if (p := w.parameter(name))}, len(workloads))
        for name in names
    ]


def row(name: str, of: Mapping[str, Parameter], workloads: int) -> tuple[str, str, str, str]:
    defaults = {kind: "" if p.default is None else p.show(p.default) for kind, p in of.items()}
    first = next(iter(of.values()))
    if len(set(defaults.values())) == 1:
        default = next(iter(defaults.values()))
    else:
        by_value: dict[str, list[str]] = {}
        for kind, value in defaults.items():
            by_value.setdefault(value, []).append(kind)
        default = "; ".join(f"{value} ({', '.join(kinds)})" for value, kinds in by_value.items())
    helps = dict.fromkeys(p.help for p in of.values())
    kinds = "" if len(of) == workloads else f" Of {', '.join(f'`{kind}`' for kind in of)}."
    return f"`{name}`", may_be(first), default, " ".join(helps) + kinds


def may_be(parameter: Parameter) -> str:
    if parameter.kind == "switch":
        return "on, off"
    if parameter.kind in ("word", "text", "path"):
        words = ", ".join(f"`{word}`" for word in parameter.words)
        return words + (f", `{parameter.like}`" if parameter.like else "") or f"a {parameter.kind}"
    low = parameter.show(parameter.low)
    if parameter.high == 2**62:
        return f"from {low}"
    return f"{low} to {parameter.show(parameter.high)}"


def outcome_rows() -> list[tuple[str, str, str, str]]:
    def named(kind: OutcomeKind) -> str:
        if kind.per_host and kind.of_trial:
            return f"`{kind.name}`, `HOST.{kind.name}`"
        return f"`HOST.{kind.name}`" if kind.per_host else f"`{kind.name}`"

    return [(named(k), k.unit, "" if k.better == "none" else k.better, k.help) for k in OUTCOMES.values()]


def warning_rows() -> list[tuple[str, str, str]]:
    return [(f"`{code}`", *MEANINGS[code]) for code in WarningCode]


def exit_rows() -> list[tuple[str, str]]:
    kinds: list[Any] = [
        errors.ExperimentError,
        errors.AccessError,
        errors.PreflightError,
        errors.TrialError,
        errors.StoreError,
    ]
    said = [(str(kind.exit_code), str(kind.__doc__).splitlines()[0].split(" `")[0]) for kind in kinds]
    return [
        ("0", "Done."),
        ("1", "A defect of iodyno: please report it."),
        *said,
        ("130", "Stopped with Ctrl-C; `iodyno run FILE --resume CAMPAIGN` goes on."),
        (str(PIPE_CLOSED), "Who read the output went away, as `head` does."),
    ]


def test_the_page_is_what_the_code_says() -> None:
    if os.environ.get("IODYNO_UPDATE"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_warning_has_a_meaning_and_an_advice() -> None:
    assert set(MEANINGS) == set(WarningCode)
    assert all(meaning and advice for meaning, advice in MEANINGS.values())


def test_every_variable_that_the_lab_reads_is_named() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r"\"(IODYNO_[A-Z_]+)\"", code)) <= set(VARIABLES)
    assert all(f'"{name}"' in code for name in VARIABLES if name != "NAME")


def test_every_outcome_of_a_bystander_is_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{BYSTANDER}." in text
    assert all(f"`{name}`" in text for name in OF_BYSTANDER)
