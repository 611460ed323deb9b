"""Times of traces: each form has its own way to say when, and what is drawn begins, goes on and ends as the trace did."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iodyno.core.errors import ExperimentError
from iodyno.core.grid import Grid
from iodyno.session.reduce import reduce

US, MS, SECOND = 10**3, 10**6, 10**9
DAY_S = 86_400


def clock(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, SECOND)
    hours, rest_s = divmod(seconds % DAY_S, 3600)
    return f"{hours:02}:{rest_s // 60:02}:{rest_s % 60:02}.{rest // US:06}"


def hdr_counts(counts: Sequence[int]) -> str:
    """Counts of the values 0, 1, 2, ... as HdrHistogram writes them (V2, one digit, up to 2^20)."""

    def zigzag(value: int) -> bytes:
        value <<= 1
        found = b""
        while value >= 0x80:
            found += bytes([value & 0x7F | 0x80])
            value >>= 7
        return found + bytes([value])

    body = b"".join(map(zigzag, counts))
    plain = struct.pack(">IIIIqqd", 0x1C849303 | 0x10, len(body), 0, 3, 1, 1 << 20, 1.0) + body
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">II", 0x1C849304 | 0x10, len(packed)) + packed).decode()


def hdr_log(steps: Sequence[int], header: str, *, ends: bool = False, tag: str = "") -> str:
    """An interval of each length in ms, one after the other, each with one value of 7."""
    second = "EndTimestamp" if ends else "Interval_Length"
    lines = [header, f'"StartTimestamp","{second}","Interval_Max","Interval_Compressed_Histogram"']
    at = 0
    for step in steps:
        other = at + step if ends else step
        lines.append(f"{tag}{at / 1000:.3f},{other / 1000:.3f},7.0,{hdr_counts([0] * 7 + [1])}")
        at += step
    return "\n".join(line for line in lines if line) + "\n"


def biolatency(steps: Sequence[int], _base: int) -> str:
    lines, at = ["Tracing block device I/O... Hit Ctrl-C to end.", ""], 0
    for step in steps:
        at += step
        lines += [
            clock(at * MS),
            "     usecs               : count     distribution",
            "       128 -> 255        : 1        |***|",
        ]
    return "\n".join(lines) + "\n"


def biolatency_json(steps: Sequence[int], _base: int) -> str:
    at, lines = 0, []
    for step in steps:
        at += step
        data = [{"interval-start": 128, "interval-end": 255, "count": 1}]
        lines.append(json.dumps({"ts": f"2024-05-06 {clock(at * MS)}", "val_type": "usecs", "data": data}))
    return "\n".join(lines) + "\n"


def fio_histograms(steps: Sequence[int], _base: int) -> str:
    at, lines = 0, []
    for step in steps:
        at += step
        lines.append(", ".join(map(str, [at, 0, 4096, *(int(place == 700) for place in range(1856))])))
    return "\n".join(lines) + "\n"


def tcpdump(steps: Sequence[int], how: str) -> str:
    """A request every step, answered 10 us later."""
    lines, at, last = [], 0, 0
    packets = []
    for number, step in enumerate(steps):
        at += step * MS
        packets += [
            (at, f"10.0.0.1.4{number:04} > 10.0.0.2.80"),
            (at + 10 * US, f"10.0.0.2.80 > 10.0.0.1.4{number:04}"),
        ]
    first = packets[0][0]
    for time, ends in packets:
        shown = {"-ttt": time - (last or first), "-ttttt": time - first, "": time}[how]
        last = time
        said = f"{time / SECOND:.6f}" if how == "-tt" else clock(shown)
        lines.append(f" {said} IP {ends}: Flags [P.], seq 1:51, ack 1, win 64, length 50")
    return "\n".join(lines) + "\n"


def trace_cmd(steps: Sequence[int], _base: int) -> str:
    lines, at = ["cpus=2"], 811 * SECOND
    for number, step in enumerate(steps):
        at += step * MS
        sector = 1000 + 8 * number
        lines += [
            f"          fio-4011  [000]   {at / SECOND:.6f}: block_rq_issue:       8,0 W 4096 () {sector} + 8 [fio]",
            f"          fio-4011  [001]   {(at + 10 * US) / SECOND:.6f}: block_rq_complete:    8,0 W () {sector} + 8 [0]",
        ]
    return "\n".join(lines) + "\n"


FORMS: dict[str, Callable[[Sequence[int]], str]] = {
    "hdr-log": lambda steps: hdr_log(steps, "#[StartTime: 1000.000 (seconds since epoch)]"),
    "hdr-log with ends": lambda steps: hdr_log(
        steps, "#[StartTime: 1000.000 (seconds since epoch)]", ends=True
    ),
    "biolatency": lambda steps: biolatency(steps, 0),
    "biolatency -j": lambda steps: biolatency_json(steps, 0),
    "fio histograms": lambda steps: fio_histograms(steps, 0),
    "tcpdump": lambda steps: tcpdump(steps, ""),
    "tcpdump -ttt": lambda steps: tcpdump(steps, "-ttt"),
    "tcpdump -ttttt": lambda steps: tcpdump(steps, "-ttttt"),
    "trace-cmd": lambda steps: trace_cmd(steps, 0),
    "two columns": lambda steps: "".join(
        f"{sum(steps[: n + 1]) / 1000:.3f} 0.001\n" for n in range(len(steps))
    ),
}


def columns_of(grid: Grid) -> list[int]:
    return [column for column, total in enumerate(grid.column_totals()) for _ in range(total)]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.integers(1, 400), min_size=3, max_size=30))
def test_events_are_as_many_as_far_apart_and_as_long_as_in_the_trace(
    form: str, tmp_path: Path, steps: list[int]
) -> None:
    """Event n is `steps[n]` ms after the one before, which `-ttt` alone cannot show where all steps are alike."""
    if form == "tcpdump -ttt" and all(step == steps[0] for step in steps[1:]):
        steps[-1] += 1
    path = tmp_path / "trace"
    path.write_text(FORMS[form](steps))
    grid = reduce([path], column_ns=MS, max_columns=20_000)
    assert grid.unreadable == 0, grid.unreadable_first
    found = columns_of(grid)
    wanted = [sum(steps[1 : n + 1]) for n in range(len(steps))]
    assert len(found) == len(steps)
    # A time in a column's last microseconds may lie in the next one.
    assert all(abs(have - want) <= 1 for have, want in zip(found, wanted, strict=True)), (found, wanted)


def test_the_unit_of_an_interval_log_is_that_of_its_header_or_said_to_be_assumed(tmp_path: Path) -> None:
    def read(text: str, **options: str) -> Grid:
        (tmp_path / "log").write_text(text)
        return reduce([tmp_path / "log"], **options)  # type: ignore[arg-type]

    plain = read(hdr_log([1000] * 3, "#[StartTime: 1000.0 (seconds since epoch)]"))
    assert plain.greatest == pytest.approx(7, abs=1)
    assert any("nanoseconds are assumed" in note and "--value-unit" in note for note in plain.notes)
    told = read(
        hdr_log([1000] * 3, "#UNITS: Interval_Max = milliseconds, values in the histogram = microseconds")
    )
    assert told.greatest == pytest.approx(7000, abs=1000) and not any(
        "assumed" in note for note in told.notes
    )
    asked = read(hdr_log([1000] * 3, ""), value_unit="us")
    assert asked.greatest == pytest.approx(7000, abs=1000) and not any(
        "assumed" in note for note in asked.notes
    )


def test_tags_that_are_added_up_are_named(tmp_path: Path) -> None:
    one, other = (hdr_log([1000] * 3, "", tag=f"Tag={tag},") for tag in ("read", "write"))
    (tmp_path / "log").write_text(one + other)
    both = reduce([tmp_path / "log"])
    assert both.events == 6 and any("read, write" in note and "--operation" in note for note in both.notes)
    alone = reduce([tmp_path / "log"], operation="read")
    assert alone.in_cells() == 3 and not any("tags" in note for note in alone.notes)


def test_averages_of_fio_are_said_to_be_no_operations(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("250, 1072725, 0, 0, 0\n254, 8798, 1, 0, 0\n500, 1172725, 0, 0, 0\n")
    assert any("averages" in note for note in reduce([tmp_path / "log"]).notes)
    (tmp_path / "log").write_text("250, 1072725, 0, 4096, 0\n254, 8798, 1, 4096, 0\n")
    assert not any("averages" in note for note in reduce([tmp_path / "log"]).notes)


@pytest.mark.parametrize(
    ("text", "what", "advice"),
    [
        ("       Value     Percentile TotalCount 1/(1-Percentile)\n\n       0.250 0.0000 12 1.00\n", "percentiles", ".hlog"),
        ('{"traceEvents":[{"name":"x","ph":"X","ts":1,"dur":2}]}\n', "Chrome", "jq"),
        ('[{"name":"x","ph":"X","ts":1,"dur":2}]\n', "Chrome", "jq"),
        ("---\nburst=1\n---\ntxTime, rxTime\n1.650001, 1.650041\n1.650101, 1.650139\n", "sockperf", "awk"),
        ("txTime, rxTime\n1.650001, 1.650041\n1.650101, 1.650139\n", "sockperf", "awk"),
        ('{\n  "fio version" : "fio-3.36",\n  "jobs" : [{"read": {"clat_ns": {"bins": {"1000": 5}}}}]\n}\n', "fio", "write_lat_log"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_form_without_events_over_time_is_named_with_what_has_them(
    tmp_path: Path, text: str, what: str, advice: str
) -> None:
    (tmp_path / "trace").write_text(text)
    with pytest.raises(ExperimentError) as refused:
        reduce([tmp_path / "trace"])
    assert what in str(refused.value) and advice in f"{refused.value} {refused.value.advice}"
