"""The section `metrics` of an experiment file: sources of metrics that other programs hold, and the values of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, create_model

from iodyno.core.experiment import Windows
from iodyno.core.invalid import invalid
from iodyno.core.metric_source import (
    KINDS,
    MOST_SAMPLES,
    MOST_VALUES,
    READERS,
    Kind,
    MetricSource,
    MetricValue,
    ReaderKind,
)
from iodyno.core.outcome import BYSTANDER_NAME, OUTCOMES
from iodyno.core.tunable import ALL
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.reading import Reading
from iodyno.formats.section_values import (
    HOST_NAME_TEXT,
    HOUR_NS,
    LINE,
    Reads,
    Section,
    duration_within,
    one_word_of,
)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME_IS = "small letters, digits and underscores, 64 at most, a letter first"
_PLACE_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "address": {"type": "string", "pattern": "^https?://"},
    "words": {"type": "array", "minItems": 1, "items": {"type": "string"}},
    "host": {"type": "string"},
    "file": {"type": "string"},
}


_TEXT = Reads(LINE.read, LINE.schema)


def _number(written: Any) -> float:
    if isinstance(written, bool) or not isinstance(written, (int, float)) or abs(written) > 1e300:
        raise ValueError(invalid(written, "a number"))
    return float(written)


def _labels(written: Any) -> dict[str, str]:
    if not isinstance(written, dict) or not all(isinstance(v, (str, int)) for v in written.values()):
        raise ValueError(invalid(written, "labels with the text of each"))
    return {str(name): str(text) for name, text in written.items()}


class ValueSection(Section):
    """One value of a source."""

    name: Annotated[Any, _TEXT] = Field(None, description="What it is called there; left out: as here.")
    kind: Annotated[Any, one_word_of(KINDS)] = Field(
        "gauge", description="Rate of a counter, mean of a gauge."
    )
    unit: Annotated[Any, _TEXT] = Field("1", description="Unit; of a counter, of what grows.")
    labels: Annotated[Any, Reads(_labels, {"type": "object"})] = Field(
        None, description="Labels of the sample (prometheus), or `queue` (nic): one, or `0-7`, a value each."
    )
    full: Annotated[Any, Reads(_number, {"type": "number"})] = Field(
        None, description="From where on something outside the hosts is full: a limiter."
    )


def _place(kind: ReaderKind) -> Reads:
    def read(written: Any) -> tuple[str, ...]:
        if kind.place == "words":
            if (
                not isinstance(written, list)
                or not written
                or not all(isinstance(w, str) and w for w in written)
            ):
                raise ValueError(invalid(written, "a list of texts: the program, and what it is told"))
            return tuple(written)
        if not isinstance(written, str) or not written.isprintable() or not 0 < len(written) <= 1000:
            raise ValueError(invalid(written, "a text of one line"))
        if kind.place == "host" and not re.fullmatch(r"[A-Za-z0-9\[][A-Za-z0-9_.:\[\]-]*", written):
            raise ValueError(invalid(written, "a host, as snmpget takes it"))
        if kind.place == "address" or (kind.place == "file" and not written.startswith("/")):
            _check_address(written, " or the whole path of a file" if kind.place == "file" else "")
        return (written,)

    return Reads(read, _PLACE_SCHEMAS[kind.place])


def _check_address(written: str, more: str) -> None:
    try:
        found = urlsplit(written)
        wrong = (
            found.scheme not in ("http", "https") or not found.hostname or found.port == 0 or " " in written
        )
    except ValueError:
        wrong = True
    if wrong or "@" in found.netloc:
        raise ValueError(
            invalid(written, f"an address such as http://array:9100/metrics without a password{more}")
        )


_READER_KEYS: dict[str, Any] = {
    kind.name: (Annotated[Any, _place(kind)], Field(None, description=kind.help)) for kind in READERS.values()
}
SourceSection: Any = create_model(
    "SourceSection",
    __base__=Section,
    __doc__="One source of metrics: one of the readers, and what is read.",
    **_READER_KEYS,
    every=(
        Annotated[Any, duration_within(10**8, HOUR_NS)],
        Field(10**9, description="How often it is read."),
    ),
    timeout=(
        Annotated[Any, duration_within(10**7, 60 * 10**9)],
        Field(10**9, description="How long an answer may take."),
    ),
    community=(Annotated[Any, _TEXT], Field(None, description="Community (snmp); left out: public.")),
    device=(Annotated[Any, _TEXT], Field(None, description="Device (nic); left out: that of the data.")),
    time=(Annotated[Any, _TEXT], Field(None, description="Column of times (csv); left out: the first.")),
    clock_error=(
        Annotated[Any, duration_within(0, HOUR_NS)],
        Field(None, description="How far times in a file may be off (csv)."),
    ),
    values=(Any, Field(description="What is read, by its names here.")),
)  # fmt: skip
_ONLY_OF = {"community": ("snmp",), "device": ("nic",), "time": ("csv",), "clock_error": ("csv",)}


def read_metrics(reading: Reading, windows: Any) -> dict[str, MetricSource]:
    """Every source that can be read; what cannot is noted."""
    written, path = reading.plain.get("metrics"), ("metrics",)
    if "metrics" not in reading.plain or not reading.mapping(written, path, "sources of metrics by name"):
        return {}
    taken = {*reading.host_names, *reading.groups, ALL}
    found = {}
    for name, entry in written.items():
        here = (*path, name)
        try:
            HOST_NAME_TEXT.read(name)
        except ValueError as problem:
            reading.note(here, str(problem))
            continue
        if name in taken or BYSTANDER_NAME.fullmatch(name):
            reading.note(
                here, f"invalid value {name!r}: hosts have names of their own; expected another name"
            )
            continue
        if source := _source(reading, name, entry, here):
            if windows is not None:
                _check_count(reading, source, windows, here)
            found[name] = source
    return found


def _source(reading: Reading, name: str, entry: Any, path: Path) -> MetricSource | None:
    section = reading.section(SourceSection, entry, path)
    if section is None:
        return None
    named = [reader for reader in READERS if reader in entry]
    if len(named) != 1:
        text = f"invalid value: {len(named) or 'no'} readers; expected one of {', '.join(READERS)}"
        reading.note(path, text)
        return None
    (reader,) = named
    for key, readers in _ONLY_OF.items():
        if key in entry and reader not in readers:
            reading.note((*path, key), f"can only be used with {' or '.join(readers)}")
    if reader == "nic" and section.nic[0] not in reading.host_names:
        reading.note((*path, reader), unknown(section.nic[0], reading.host_names, "host"))
    if section.device is not None and not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,14}", section.device):
        reading.note((*path, "device"), invalid(section.device, "the name of a network device"))
    if not reading.mapping(section.values, (*path, "values"), "values by name"):
        return None
    if not 0 < len(section.values) <= MOST_VALUES:
        reading.note(
            (*path, "values"), f"invalid value: {len(section.values)} values; expected 1 to {MOST_VALUES}"
        )
    values: dict[str, MetricValue] = {}
    for each, content in section.values.items():
        here = (*path, "values", each)
        if (value := _value(reading, reader, each, content, here)) is None:
            continue
        found = _of_each_queue(each, value) if reader == "nic" else {each: value}
        for twice in found.keys() & values.keys():
            reading.note(here, f"invalid value: {twice} is there twice; expected another name")
        values |= found
    if len(values) > MOST_VALUES >= len(section.values):
        text = f"invalid value: {len(values)} values, one for each queue; expected 1 to {MOST_VALUES}"
        reading.note((*path, "values"), text)
    return MetricSource(
        name=name,
        reader=reader,
        place=getattr(section, reader),
        values=values,
        every_ns=section.every,
        timeout_ns=section.timeout,
        community=section.community or "public",
        device=section.device or "",
        time_column=section.time or "",
        clock_error_ns=section.clock_error or 0,
    )


def _value(reading: Reading, reader: str, name: Any, content: Any, path: Path) -> MetricValue | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reading.note(path, f"{invalid(name, _NAME_IS)}")
        return None
    if name in OUTCOMES:
        reading.note(path, f"invalid value {name!r}: it is an outcome of its own; expected another name")
        return None
    section = reading.section(ValueSection, {} if content is None else content, path)
    if section is None:
        return None
    if section.labels is not None and reader not in ("prometheus", "nic"):
        reading.note((*path, "labels"), "can only be used with prometheus or nic")
    if reader == "nic" and section.labels is not None and not _are_queues(section.labels):
        written = ", ".join(f"{key}: {text}" for key, text in section.labels.items())
        text = f"queue: 0, or a range of at most {MOST_VALUES} such as queue: 0-7"
        reading.note((*path, "labels"), invalid(written, text))
        return None
    asked = section.name or name
    if reader == "snmp" and not re.fullmatch(r"[A-Za-z0-9.][A-Za-z0-9_.:-]*", asked):
        reading.note((*path, "name"), invalid(asked, "an object identifier"))
    if reader in ("prometheus", "command") and re.search(r"[\s{}]", asked):
        reading.note((*path, "name"), invalid(asked, "one word"))
    # What an adapter counts only grows.
    kind: Kind = "counter" if reader == "nic" and "kind" not in section.model_fields_set else section.kind
    return MetricValue(asked, kind, section.unit, section.labels or {}, section.full)


def _of_each_queue(name: str, value: MetricValue) -> dict[str, MetricValue]:
    """Values of a range of queues, by names with the number of each; of one queue or all: the value itself."""
    first, dash, last = value.labels.get("queue", "").partition("-")
    if not dash:
        return {name: value}
    return {f"{name}_{n}": replace(value, labels={"queue": str(n)}) for n in range(int(first), int(last) + 1)}


def _are_queues(labels: Mapping[str, str]) -> bool:
    found = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", labels.get("queue", ""))
    return (
        found is not None
        and len(labels) == 1
        and 0 <= int(found[2] or found[1]) - int(found[1]) < MOST_VALUES
    )


def _check_count(reading: Reading, source: MetricSource, windows: Any, path: Path) -> None:
    """A trial has a bounded number of readings."""
    load_ns = Windows(windows.warm_up, windows.measured, windows.drain).load_ns
    if load_ns // source.every_ns > MOST_SAMPLES:
        least = -(-load_ns // MOST_SAMPLES)
        reading.note(
            (*path, "every") if "every" in reading.plain["metrics"][source.name] else path,
            f"invalid value: more than {MOST_SAMPLES} readings in a trial; expected {least / 1e9:.3g} s or more",
        )


def metric_outcomes(sources: Mapping[str, MetricSource]) -> list[str]:
    """Names of the outcomes that the sources have."""
    return [f"{source.name}.{value}" for source in sources.values() for value in source.values]


def mistake_of_metric(name: str, written: Any, sources: Mapping[str, MetricSource]) -> str | None:
    """The mistake in an outcome that begins with the name of a source that is `written`; empty: none; None: it does not."""
    source, _, value = name.partition(".")
    if not isinstance(written, dict) or source not in written:
        return None
    known = sources[source].values if source in sources else {}
    of_queues = any(each.startswith(f"{value}_") for each in known)
    if not known or value in known or (value in written[source]["values"] and not of_queues):
        return ""  # What is wrong with the source or the value is said already.
    return unknown(value, known, f"value of {source}")


def schema_of_metrics() -> dict[str, Any]:
    """The JSON Schema of the section."""
    source = SourceSection.model_json_schema()
    value = ValueSection.model_json_schema()
    source["properties"]["values"] = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MOST_VALUES,
        "propertyNames": {"pattern": f"^{_NAME.pattern}$"},
        "additionalProperties": {"anyOf": [value, {"type": "null"}]},
        "description": source["properties"]["values"]["description"],
    }
    source["oneOf"] = [{"required": [reader]} for reader in READERS]
    return {"type": "object", "propertyNames": HOST_NAME_TEXT.schema, "additionalProperties": source}
