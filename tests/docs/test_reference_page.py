"""docs/reference/reference.md is what the code says: `IODYNO_UPDATE=1 pytest tests/docs/test_reference_page.py` writes it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from iodyno.cli.main import DEFECT, PIPE_CLOSED
from iodyno.core import errors, quantity
from iodyno.core.outcome import OF_BYSTANDER, OUTCOMES
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
    PlacementSection,
    SearchSection,
    TopSection,
    WindowsSection,
)
from iodyno.formats.metrics_section import SourceSection, ValueSection
from iodyno.formats.section_values import Section
from iodyno.loads.base.workloads import WORKLOADS
from iodyno.loads.disk.core.outcomes import ONLY_OF_DISKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "reference.md"
VARIABLES = {
    "NAME": "any name: what stands for `${NAME}` in a value of an experiment or network file, and for a variable of a profile, a"
    " personality or a job file; `${NAME:-otherwise}` has another value where it is not set, `$${` is a plain `${`",
    "IODYNO_EXEC": "programs that `access: exec` and `metrics` may run",
    "IODYNO_AGENT": "the agent's program, instead of the one that came with iodyno; `iodyno-heat` lies beside it",
    "IODYNO_WATCH_TOKEN": "the token of the page of `iodyno watch`, 16 characters or more, instead of a fresh one each time",
    "NO_COLOR": "set to anything: `iodyno heatmap` prints no colours",
}


def page() -> str:
    network = (STREAM, REQUEST_RESPONSE, CONNECT_REQUEST_RESPONSE)
    on_network, disk, files = (
        parameter_rows(workloads) for workloads in (network, (WORKLOADS["disk"],), (WORKLOADS["files"],))
    )
    parts = [
        "# Reference",
        "Made from the code by `tests/docs/test_reference_page.py`, which fails where this page is not what the code says.\n"
        "Sizes take `KiB`, `kB`, `k`, ...; durations need their unit; rates take `/s`, `k/s`, `M/s`; shares `5%` or `0.05`.\n"
        "The value of a key that is left out is bold, or in brackets.",
        "## An experiment file",
        entries(section_rows(TopSection)),
        "## Hosts",
        entries(host_rows()),
        "## Workloads on a network",
        f"`kind`: {', '.join(f'`{w.name}`' for w in network)}, from `sender` to `receiver`, one host or several each;\n"
        "`between`: `all` of them, or `pairs` ([several hosts](../guides/many-hosts.md)). Where no kind is named, all have"
        " the key.",
        entries(on_network),
        "## The workload `disk`",
        "`hosts`: who does it; `each`: settings of one of them. As on a network: "
        + alike(disk, on_network)
        + ".",
        entries([row for row in disk if row not in on_network]),
        "## The workloads `files` and `script`",
        "`files`: `hosts`, `program` a personality of Filebench. `script`: `profile`, `sender`,\n"
        "`receiver`; of the keys of a network it has `path`, `link_*` and `*_quota`.\n"
        "Variables of personality or profile are keys, too. `files` has "
        + alike(files, disk)
        + " as `disk` has them.",
        entries([row for row in files if row not in disk]),
        *(
            part
            for name, section in (
                ("windows", WindowsSection),
                ("limits", LimitsSection),
                ("design", DesignSection),
                ("placement", PlacementSection),
                ("search", SearchSection),
                ("metrics", SourceSection),
                ("values` of a source of `metrics", ValueSection),
            )
            for part in (
                f"## `{name}`",
                entries(section_rows(section)),
            )
        ),
        "## Outcomes",
        "`HOST.`: the name of a host; `[HOST.]`: with and without. `{a,b}`: one of the words. ↑, ↓: higher or lower is better.\n"
        "Classes of CPU time: `usr` user and `sys` system code of the load, `irq` hard and"
        " `softirq` soft interrupts (`intr`: both), `other` tasks, `idle`.\nA bystander's begin with"
        " `bystander.`, or `bystander-1.` where there are several: "
        + ", ".join(f"`{family_name(kinds)}`" for kinds in families(OUTCOMES[name] for name in OF_BYSTANDER))
        + ".",
        entries(outcome_rows()),
        "## Warnings",
        "A warning stands beside a number and never removes one; a trial that is void is kept and does not count.\n"
        "What to do is in italics.",
        "\n".join(f"- `{code}`: {meaning}; *{advice}*" for code, (meaning, advice) in MEANINGS.items()),
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


def entries(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a list with an entry for each name, its values or unit, and its meaning."""
    return "\n".join(
        f"- {name}: {of}. {meaning}" if of else f"- {name}: {meaning}" for name, of, meaning in rows
    )


def alike(rows: Iterable[tuple[str, ...]], others: Collection[tuple[str, ...]]) -> str:
    return ", ".join(row[0] for row in rows if row in others)


def section_rows(section: type[Section]) -> list[tuple[str, str, str]]:
    rows = []
    for name, field in section.model_fields.items():
        default = "needed" if field.is_required() else shown(field)
        rows.append((f"`{name}`", with_default(allowed(field), default), str(field.description)))
    return rows


def with_default(values: str, default: str) -> str:
    """Return the values with the default bold where it is one of them, else in brackets behind."""
    words = values.split(", ")
    for word in (f"`{default}`", default):
        if default and word in words:
            return ", ".join(f"**{each}**" if each == word else each for each in words)
    return f"{values} ({default})".strip() if default else values


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


def host_rows() -> list[tuple[str, str, str]]:
    of: dict[str, list[str]] = {}
    fields: dict[str, FieldInfo] = {}
    for access, section in HOST_SECTIONS.items():
        for name, field in section.model_fields.items():
            of.setdefault(name, []).append(access)
            fields.setdefault(name, field)
    rows = []
    for name, field in fields.items():
        if name == "access":
            words = ", ".join(f"`{access}`" for access in HOST_SECTIONS)
            rows.append((f"`{name}`", words, "How iodyno reaches the host."))
            continue
        special = "" if len(of[name]) == len(HOST_SECTIONS) else f" ({', '.join(of[name])})"
        rows.append((f"`{name}`{special}", allowed(field), str(field.description)))
    return rows


def parameter_rows(workloads: tuple[Workload, ...]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys(p.name for w in workloads for p in w.parameters)
    return [
        row(name, {w.name: p for w in workloads if (p := w.parameter(name))}, len(workloads))
        for name in names
    ]


def row(name: str, of: Mapping[str, Parameter], workloads: int) -> tuple[str, str, str]:
    defaults = {kind: "" if p.default is None else p.show(p.default) for kind, p in of.items()}
    first = next(iter(of.values()))
    if len(set(defaults.values())) == 1:
        default = next(iter(defaults.values()))
    else:
        by_value: dict[str, list[str]] = {}
        for kind, value in defaults.items():
            by_value.setdefault(value, []).append(kind)
        default = "; ".join(f"{', '.join(kinds)}: {value}" for value, kinds in by_value.items())
    helps = dict.fromkeys(p.help for p in of.values())
    kinds = "" if len(of) == workloads else f" Of {', '.join(f'`{kind}`' for kind in of)}."
    return f"`{name}`", with_default(may_be(first), default), " ".join(helps) + kinds


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


def outcome_rows() -> list[tuple[str, str, str]]:
    rows = []
    for kinds in families(OUTCOMES.values()):
        first = kinds[0]
        short = family_name(kinds)
        host = "" if not first.per_host else "[HOST.]" if first.of_trial else "HOST."
        unit = "ratio" if first.unit == "1" else first.unit
        rows.append((f"`{host}{short}`", unit + BETTER[first.better], family_help(kinds)))
    return rows


BETTER = {"none": "", "higher": " ↑", "lower": " ↓"}
QUANTILE = re.compile(r"(.+_)(mean|p50|p90|p99|p999)(_ns)")
CLASS = re.compile(r"(cpu_)(usr|sys|irq|softirq|intr|other|idle)(_ratio|_ns_per_kib|_ns_per_operation)")
OF_A_CLASS = {
    "_ratio": "Share of the host's CPUs in that class.",
    "_ns_per_kib": "Part of cpu_ns_per_kib in that class; `other` may be below 0.",
    "_ns_per_operation": "Part of cpu_ns_per_operation in that class; `other` may be below 0.",
}


def families(kinds: Iterable[OutcomeKind]) -> list[list[OutcomeKind]]:
    """Group outcomes whose names differ in a quantile or in a class of CPU time only."""
    found: dict[tuple[str, bool], list[OutcomeKind]] = {}
    for kind in kinds:
        match = QUANTILE.fullmatch(kind.name) or CLASS.fullmatch(kind.name)
        key = f"{match[1]}{{}}{match[3]}" if match else kind.name
        found.setdefault((key, kind.name in ONLY_OF_DISKS), []).append(kind)
    return list(found.values())


def family_name(kinds: list[OutcomeKind]) -> str:
    matches = [QUANTILE.fullmatch(kind.name) or CLASS.fullmatch(kind.name) for kind in kinds]
    words = [match[2] for match in matches if match]
    first = matches[0]
    if len(kinds) == 1 or first is None:
        return kinds[0].name
    return f"{first[1]}{{{','.join(words)}}}{first[3]}"


def family_help(kinds: list[OutcomeKind]) -> str:
    if len(kinds) > 1 and (match := CLASS.fullmatch(kinds[0].name)):
        return OF_A_CLASS[match[3]]
    text = kinds[0].help if len(kinds) == 1 else re.sub(r"^(Mean|Median of the|Median) ", "", kinds[0].help)
    return text if len(kinds) == 1 else text[:1].upper() + text[1:]


def exit_rows() -> list[tuple[str, str]]:
    kinds: list[Any] = [
        errors.ExpectationError,
        errors.ExperimentError,
        errors.AccessError,
        errors.PreflightError,
        errors.TrialError,
        errors.StoreError,
    ]
    said = [(str(kind.exit_code), str(kind.__doc__).splitlines()[0].split(" `")[0]) for kind in kinds]
    return [
        ("0", "Done."),
        *said,
        (str(DEFECT), "A defect of iodyno: please report it."),
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


def test_every_outcome_has_one_row() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Outcomes\n")[2].partition("\n## ")[0]
    cells = "".join(row.split(": ")[0] for row in section.splitlines() if row.startswith("- `"))
    families_named = re.findall(r"([\w]+){([\w,]+)}(\w+)`", cells)
    named = [before + word + after for before, words, after in families_named for word in words.split(",")]
    named += re.findall(r"[`.\]](\w+)`", cells)
    assert sorted(named) == sorted(OUTCOMES)
