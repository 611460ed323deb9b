"""Answers of sources of metrics: the text format of Prometheus, its server's JSON, lines of `name value`, CSV with times.

Answers come from outside: whatever stands in them, a value is a finite number or missing with the reason.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from prometheus_client.parser import text_string_to_metric_families

from iodyno.core.metric_source import MetricValue
from iodyno.core.quantity import counted

Found = float | str
"""A value, or why there is none."""
Dated = list[tuple[int, float]]
"""Values with their times, in ns since 1970 on the clock of the source."""

_NS = 1_000_000_000
_SHOWN = 80
_LATEST_NS = 1 << 62


def of_exposition(text: str, values: Mapping[str, MetricValue]) -> dict[str, Found]:
    """The value of each metric on a page in the text format of Prometheus. Lines of other metrics are not looked into."""
    lines = [line.strip() for line in text.splitlines()]
    return {
        name: _sample([line for line in lines if _is_of(line, one.name)], one) for name, one in values.items()
    }


def _is_of(line: str, name: str) -> bool:
    return line.startswith(name) and line[len(name) : len(name) + 1] in ("{", " ", "\t")


def _sample(lines: Sequence[str], value: MetricValue) -> Found:
    if not lines:
        return f"{value.name} is not on the page"
    try:
        samples = [
            sample
            for family in text_string_to_metric_families("\n".join(lines) + "\n")
            for sample in family.samples
            if sample.name == value.name and value.labels.items() <= sample.labels.items()
        ]
    except Exception as error:  # noqa: BLE001 - the parser raises whatever a wrong line makes it stumble over
        return f"{value.name} cannot be read: {type(error).__name__}: {str(error)[:_SHOWN]}"
    if len(samples) != 1:
        return f"{len(samples) or 'none'} of {len(lines)} samples of {value.name} have the labels asked for; expected one"
    return _finite(samples[0].value)


def of_lines(text: str, values: Mapping[str, MetricValue]) -> dict[str, Found]:
    """The value of each name that a command printed, a `name value` a line. The last one counts."""
    printed = {words[0]: words[1] for line in text.splitlines() if len(words := line.split()) == 2}
    return {
        name: number(printed[one.name]) if one.name in printed else f"{one.name} was not printed"
        for name, one in values.items()
    }


def of_snmp(text: str, values: Mapping[str, MetricValue]) -> dict[str, Found]:
    """The values that `snmpget -Oqv` printed, in the order in which they were asked for."""
    lines = text.splitlines()
    if len(lines) != len(values):
        why = f"snmpget printed {counted(len(lines), 'line')} for {len(values)} objects"
        return dict.fromkeys(values, why)
    return {name: number(line) for name, line in zip(values, lines, strict=True)}


def of_range(text: str) -> Dated | str:
    """The samples of the one series in an answer of `query_range`; why there are none."""
    try:
        answer = json.loads(text)
        if answer["status"] != "success":
            return f"the server says: {str(answer.get('error', 'no reason'))[:_SHOWN]}"
        series = answer["data"]["result"]
        if len(series) != 1:
            return f"the query has {len(series)} series; expected one"
        found = [(_ns(float(at)), number(str(value))) for at, value in series[0]["values"]]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        return f"the answer cannot be read: {type(error).__name__}: {str(error)[:_SHOWN]}"
    return [(at, value) for at, value in found if isinstance(value, float)]


def server_time(text: str) -> int:
    """The time of a Prometheus server by its answer to the query `time()`, in ns. Raises ValueError and LookupError."""
    return _ns(float(json.loads(text)["data"]["result"][1]))


def of_csv(
    text: str, values: Mapping[str, MetricValue], time_column: str, between: tuple[int, int]
) -> dict[str, Dated | str]:
    """The samples of each column with times `between` two, both included; of an empty `time_column` the first column is that."""
    rows = csv.reader(text.splitlines())
    try:
        heads = [head.strip() for head in next(rows, [])]
        time_at = heads.index(time_column) if time_column else 0
    except ValueError:
        return dict.fromkeys(values, f"no column {time_column}")
    except csv.Error as error:
        return dict.fromkeys(values, f"cannot be read: {error}")
    places = {name: heads.index(one.name) for name, one in values.items() if one.name in heads}
    found: dict[str, Dated | str] = {
        name: [] if name in places else f"no column {one.name}" for name, one in values.items()
    }
    try:
        for row in rows:
            at = time_of(row[time_at]) if time_at < len(row) else None
            if at is None or not between[0] <= at <= between[1]:
                continue
            for name, place in places.items():
                value = number(row[place]) if place < len(row) else ""
                kept = found[name]
                if isinstance(value, float) and isinstance(kept, list):
                    kept.append((at, value))
    except csv.Error as error:
        return dict.fromkeys(values, f"cannot be read: {error}")
    return found


def time_of(text: str) -> int | None:
    """A time in ns since 1970: ISO 8601 with a zone, or a number of s, ms, us or ns; None where it is none.

    >>> time_of("2026-11-27T03:00:00+00:00") == time_of("1795748400") == time_of("1795748400000")
    True
    """
    text = text.strip()
    value = number(text)
    if isinstance(value, float):
        if value <= 0:
            return None
        # By size: seconds up to the year 5138, and so on.
        factor = next((f for limit, f in ((1e11, _NS), (1e14, 10**6), (1e17, 10**3)) if value < limit), 1)
        whole = int(text) if text.isdecimal() else value
        at = int(whole * factor)
        return at if at < _LATEST_NS else None
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else _ns(moment.timestamp())
    except (ValueError, OverflowError):
        return None


def _ns(seconds: float) -> int:
    return round(seconds * 1e6) * 1000


def number(text: str) -> Found:
    """A finite number; else what is wrong with it."""
    try:
        return _finite(float(text.strip()))
    except ValueError:
        return f"{text.strip()[:_SHOWN]!r} is no number"


def _finite(value: float) -> Found:
    try:
        value = float(value)
    except OverflowError:  # of an integer
        value = math.inf
    return value if math.isfinite(value) else f"its value is {value}"
