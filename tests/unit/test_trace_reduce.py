"""The reducer as the lab runs it: counts as a naive program's, each wrong input one clear error."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iodyno.core.errors import ExperimentError
from iodyno.core.grid import Grid
from iodyno.session.locate import HEAT, program_path
from iodyno.session.reduce import list_region, reduce

UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@pytest.fixture
def trace(tmp_path: Path):
    """Writes a trace, and says where it is."""

    def write(text: str | bytes, name: str = "trace.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def naive(lines: list[str], time_unit: str, value_unit: str, grid: Grid) -> Grid:
    """Counts with exact decimals, one event after the other, into the rows and columns of `grid`."""
    events, unreadable = [], 0
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            time, value = (Decimal(word) for word in line.split())
            if not (time.is_finite() and value.is_finite()) or value < 0 or time > 10**12:
                raise ValueError
        except (ValueError, ArithmeticError):
            unreadable += 1
            continue
        at = int((time * UNIT_NS[time_unit]).to_integral_value("ROUND_FLOOR"))
        events.append((at, float(value * UNIT_NS[value_unit])))
    begin = min(at for at, _ in events)
    columns = (max(at for at, _ in events) - begin) // grid.column_ns + 1
    cells: dict[tuple[int, int], int] = {}
    under, over = [0] * columns, [0] * columns
    for at, value in events:
        column = (at - begin) // grid.column_ns
        if value < grid.edges[0]:
            under[column] += 1
        elif value > grid.edges[-1]:
            over[column] += 1
        else:
            rows = [row for row in range(grid.rows) if value >= grid.edges[row]]
            cells[column, rows[-1]] = cells.get((column, rows[-1]), 0) + 1
    assert grid.begin_ns == begin
    found = tuple((column, row, count) for (column, row), count in sorted(cells.items()))
    return Grid(
        grid.quantity,
        grid.unit,
        begin,
        grid.column_ns,
        columns,
        grid.edges,
        grid.scale,
        found,
        tuple(under),
        tuple(over),
        0,
        len(events) + unreadable,
        unreadable,
        grid.unreadable_first,
        form=grid.form,
        by_value=by_value([value for _, value in events]),
        notes=grid.notes,
    )


def by_value(values: list[float]) -> tuple[tuple[float, float, int], ...]:
    """Values in 128 parts an octave, by the upper seven bits of a double's fraction; the last ends at the greatest value."""

    def edge(bucket: int) -> float:
        return float(struct.unpack("<d", struct.pack("<Q", bucket << 45))[0])

    buckets = Counter(struct.unpack("<Q", struct.pack("<d", value))[0] >> 45 for value in values)
    return tuple(
        (max(edge(bucket), min(values)), min(edge(bucket + 1), max(values)) if bucket else 0.0, count)
        for bucket, count in sorted(buckets.items())
    )


number = st.decimals(0, 10**7, places=3, allow_nan=False).map(str) | st.integers(0, 10**6).map(str)
good = st.tuples(number, number).map(" ".join)
bad = st.sampled_from(["", "# note", "nan 1", "1 nan", "5", "1 -2", "1 2 3", "x y", "1 inf", "1e999 2"])


@given(
    st.lists(good, min_size=1, max_size=40),
    st.lists(bad, max_size=5),
    st.sampled_from(list(UNIT_NS)),
    st.sampled_from(list(UNIT_NS)),
    st.sampled_from(["linear", "log"]),
    st.integers(1, 60),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_counts_are_those_of_a_naive_program(tmp_path, lines, garbage, time_unit, value_unit, scale, rows):
    path = tmp_path / "trace.txt"
    mixed = [*lines[:1], *garbage, *lines[1:]]
    path.write_text("\n".join(mixed))
    # Times may span weeks: as many columns as it takes.
    grid = reduce(
        [path], form="two-column", time_unit=time_unit, value_unit=value_unit, scale=scale, rows=rows
    )
    assert grid == naive(mixed, time_unit, value_unit, grid)
    assert grid.columns <= 200


def test_a_pipe_is_handed_through(trace):
    path = trace("".join(f"{second} {second % 7}\n" for second in range(500)))
    code = "from iodyno.session.reduce import reduce; import json; print(json.dumps(reduce(['-']).to_json()))"
    with path.open("rb") as file:
        first = subprocess.run(
            [sys.executable, "-c", code], stdin=file, capture_output=True, check=True
        ).stdout
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        piped = subprocess.run(
            [sys.executable, "-c", code], stdin=cat.stdout, capture_output=True, check=True
        )
    assert piped.stdout == first
    assert Grid.from_json(json.loads(first)) == reduce([path])


def test_importing_it_is_light():
    code = "import sys, iodyno.session.reduce; print([m for m in ('numpy', 'duckdb') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_the_last_column_and_the_top_row_are_counted(trace):
    grid = reduce([trace("0 0\n10 100\n10 101\n5 50\n")], column_ns=10**9, high=100, rows=10)
    assert grid.columns == 11
    assert grid.cells == ((0, 0, 1), (5, 5, 1), (10, 9, 1))
    assert sum(grid.over) == 1


def test_a_trace_whose_first_line_is_the_latest(trace):
    grid = reduce([trace("9 1\n0 1\n4 1\n")], column_ns=10**9)
    assert (grid.begin_ns, grid.columns, grid.column_totals()) == (0, 10, (1, 0, 0, 0, 1, 0, 0, 0, 0, 1))


def test_one_event_and_equal_events(trace):
    one = reduce([trace("5 7\n")])
    assert (one.events, one.in_cells(), one.columns) == (1, 1, 1)
    equal = reduce([trace("5 0\n" * 100)])
    assert equal.cells == ((0, 0, 100),)


def test_a_wide_range_is_drawn_on_logarithmic_rows(trace):
    grid = reduce([trace("1 1\n2 1000000000000\n3 1000\n")], scale="log")
    assert grid.in_cells() == 3 and grid.edges[0] == 1.0 and grid.edges[-1] == 1e12


def test_a_time_range_leaves_the_rest_outside(trace):
    grid = reduce([trace("".join(f"{100 + s} 1\n" for s in range(10)))], begin=2, end=5, column_ns=10**9)
    assert (grid.begin_ns, grid.columns, grid.in_cells(), grid.outside) == (102 * 10**9, 3, 3, 7)
    on_clock = reduce(
        [trace("".join(f"{100 + s} 1\n" for s in range(10)))], begin="@102", end="@105", column_ns=10**9
    )
    assert on_clock == grid


def test_offsets_within_a_second(trace):
    grid = reduce([trace("10.05 1\n10.95 1\n12.5 1\n")], sub_second=True, rows=10)
    assert grid.sub_second and grid.cells == ((0, 0, 1), (0, 9, 1), (2, 5, 1))


def test_queue_depth_and_utilisation(trace):
    header = "STIME(us) TIME(us) DELTA(us) DTIME(us) UID PID D BLOCK SIZE COMM PATHNAME\n"
    # Two at once for a second, one for another, then nothing for two seconds but a point.
    rows = ["0 2000000 2000000", "0 1000000 1000000", "4000000 4000000 0"]
    path = trace(header + "".join(f"{row} 1 0 1 R 8 4096 dd /a\n" for row in rows))
    depth = reduce([path], quantity="queue-depth", high=4, rows=4)
    assert depth.unit == "count" and depth.row_totals() == (0, 2, 1, 0)
    busy = reduce([path], quantity="utilisation", column_ns=10**9, rows=2)
    assert busy.unit == "ratio" and busy.edges == (0.0, 0.5, 1.0)
    assert busy.cells == ((0, 1, 1), (1, 1, 1), (2, 0, 1), (3, 0, 1), (4, 0, 1))


def test_several_files_are_one_trace(trace):
    first, second = trace("1 5\nx\n", "a.txt"), trace("2 6\n", "b.txt")
    grid = reduce([first, second], column_ns=10**9)
    assert (grid.events, grid.in_cells(), grid.columns) == (3, 2, 2)
    assert grid.unreadable_first[0][0] == 2 and "a.txt" in grid.unreadable_first[0][1]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "it is empty"),
        (bytes(range(256)) * 20, {}, "a binary file of no known form"),
        ("hello world\nof words\n", {}, "a trace of no known form"),
        ("x y\n1 nan\n2 -1\n", {"form": "two-column"}, "there is no event in it; 2 lines cannot be read, first line 2"),
        ("1 5\n2 6\n3 7\n1700000000 5\n", {}, "on line 4 is 53.8 years from the others"),
        ("1700000000 5\n1 5\n2 6\n3 7\n", {}, "on line 1 is 53.8 years from the others"),
        ("1 5\n2 6\n1700000000 5\n", {}, "years from the others, at about 2 s: units or clocks are mixed"),
        ("1 5\n2 6\n3 6\n" + "1700000000 5\n1700000001 6\n" * 9, {}, "end at 3 s and the others begin at 1700000000 s"),
        ("1 5\n1000000 5\n", {"column_ns": 10**9}, "1000000 columns, and there can be 100000; the earliest event is on line 1"),
        ("1 5\n2 bad\n", {"strict": True}, "it is no number"),
        ("1 5\n", {"low": 10, "high": 5}, "rows from 10 to 5 leave no room"),
        ("1 5\n", {"low": 0, "high": 5, "scale": "log"}, "cannot be logarithmic"),
        ("1 5\n", {"high": "5 parsecs"}, "parsecs is no unit"),
        ("1 5\n", {"high": "5KiB", "value_unit": "us"}, "is in bytes, and the rows are in ns"),
        ("1 5\n", {"form": "nonsense"}, "no form of traces is called nonsense"),
        ("1 5\n", {"form": "iosnoop"}, "it has no header line"),
        ("1 5\n", {"begin": 10}, "no event lies in the time range"),
        ("1 5\n", {"rows": 0}, "invalid value '0' for '--rows"),
        ("time,what\n1,2\n", {}, "no column is known as the value"),
        ("time,what\n1,2\n", {"value_column": "other"}, "no column is called other; there are time, what"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_once_and_clearly(trace, text, options, said):
    with pytest.raises(ExperimentError) as caught:
        reduce([trace(text)], **options)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2
    assert caught.value.advice


def test_a_file_that_is_not_there():
    with pytest.raises(ExperimentError, match="No such file"):
        reduce(["/nowhere/at/all"])


def test_a_gzip_that_breaks_off_is_an_error_unless_it_is_taken_as_it_is(trace):
    packed = gzip.compress("".join(f"{n} {n % 97}\n" for n in range(100_000)).encode())
    path = trace(packed[: len(packed) // 2], "trace.gz")
    with pytest.raises(ExperimentError, match="breaks off"):
        reduce([path])
    grid = reduce([path], truncated=True)
    assert 10_000 < grid.events < 100_000
    assert any("breaks off" in note for note in grid.notes)


def test_samples_of_perf_are_events_of_their_cpu_or_of_what_they_stand_for(trace):
    line = "      my task  77 {} 12.{}00000: 250000 cpu-clock: ffffffff816b8414 vfs_read+0x54 ([kernel.kallsyms])\n"
    by_cpu = reduce([trace("".join(line.format(f"[00{at % 2}]", at) for at in range(6)))], high=4, rows=4)
    assert by_cpu.quantity == "cpu" and by_cpu.row_totals() == (3, 3, 0, 0)
    by_period = reduce([trace("".join(line.format("", at) for at in range(6)))])
    assert by_period.quantity == "value" and by_period.events == 6 == by_period.in_cells()


def test_calls_that_never_return_are_no_events(trace):
    text = """7 1700000000.1 read(3, "x", 1) = 1 <0.000010>
7 1700000000.2 wait4(-1,  <unfinished ...>
8 1700000000.3 exit_group(0 <unfinished ...>
8 1700000000.4 +++ exited with 0 +++
7 1700000000.5 <... wait4 resumed>NULL, 0, NULL) = 8 <0.300000>
7 1700000000.6 exit_group(0) = ?
7 1700000000.7 +++ exited with 0 +++
"""
    grid = reduce([trace(text)], column_ns=10**8, high="1s", rows=10)
    assert (grid.form, grid.events, grid.unreadable) == ("strace", 2, 0)
    assert grid.row_totals() == (1, 0, 0, 1, 0, 0, 0, 0, 0, 0)


def test_a_line_of_names_is_no_event(trace):
    grid = reduce([trace("TIMEus DELTAus\n1 5\n2 6\n")])
    assert (grid.events, grid.unreadable) == (2, 0)


def test_unreadable_lines_are_shown_with_their_numbers(trace):
    grid = reduce([trace("1 5\n" + "x\n" * 20 + "2 6\n")])
    assert grid.unreadable == 20 and grid.events == 22
    assert [line for line, _ in grid.unreadable_first] == list(range(2, 12))


def test_the_lines_of_a_region_are_printed_as_they_are(trace, tmp_path):
    lines = [f"{second}   {second * 10}" for second in range(100)]
    path = trace("\n".join(["# head", *lines]))
    for region, expected in [("900", lines[90:]), ("100:200", lines[10:21]), (":20", lines[:3])]:
        with (tmp_path / "out").open("w+b") as out:
            assert list_region([path], region, out=out) is None
            out.seek(0)
            assert out.read().decode().splitlines() == expected
    with (tmp_path / "out").open("w+b") as out:
        left = list_region([path], "0", out=out, limit=5, begin=10, end=30)
        out.seek(0)
        assert out.read().decode().splitlines() == lines[10:15]
        assert left is not None and left.startswith("15 further lines")


def test_a_region_that_is_no_number(trace):
    with pytest.raises(ExperimentError, match=r"--outliers: .*x5"):
        list_region([trace("1 5\n")], "x5")


def test_the_program_itself_says_errors_to_people(trace):
    said = subprocess.run([program_path(HEAT), trace("")], capture_output=True, text=True)
    assert said.returncode == 2 and said.stdout == ""
    assert said.stderr.startswith("iodyno-heat: error: ") and "  try: " in said.stderr
