"""Metrics of other programs, read from real servers, commands and files: values, times, and what a source may not do."""

from __future__ import annotations

import asyncio
import http.server
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from iodyno.analysis.limiter.outside import suspects
from iodyno.analysis.limiter.verdict import of_signals
from iodyno.analysis.metrics import MetricData, MetricReading, measured
from iodyno.campaign import metric_sources
from iodyno.campaign.metric_sources import MetricReadings, Offset, check_permission, due, meet
from iodyno.core.errors import AccessError
from iodyno.core.experiment import Windows
from iodyno.core.limiter import kind_of
from iodyno.core.metric_source import MetricSource, MetricValue

WINDOWS = Windows(100_000_000, 600_000_000, 50_000_000, 100_000_000)
AHEAD_NS = 5_000_000_000
RATE = 1e6


@contextmanager
def serving(answer: Callable[[str], str | None]) -> Iterator[str]:
    """The address of a server that answers each path so; None: it says nothing at all."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer(self.path)
            if body is None:
                self.wfile.write(b"HTTP/1.0 200 OK\r\n")
                gone.wait(10)
                return
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    gone = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        gone.set()
        server.shutdown()
        server.server_close()


def counting(_: str) -> str:
    """A page with a counter that grows at a known rate."""
    return f"# TYPE it counter\nit_total {time.monotonic_ns() / 1e9 * RATE}\nbusy 0.5\n"


def source(
    reader: str, *place: str, values: dict[str, MetricValue] | None = None, **more: Any
) -> MetricSource:
    known = values or {"it": MetricValue("it_total", "counter", "B"), "busy": MetricValue("busy", "gauge")}
    return MetricSource("array", reader, place, known, **{"every_ns": 100_000_000, **more})


def read(*sources: MetricSource, windows: Windows = WINDOWS) -> tuple[dict[str, MetricData], MetricReadings]:
    """What the sources say in a trial, as the analysis gets it."""
    rows: list[dict[str, Any]] = []

    async def trial() -> MetricReadings:
        start_ns = time.monotonic_ns() + 20_000_000
        readings = MetricReadings({one.name: one for one in sources}, start_ns, windows, rows.append)  # type: ignore[arg-type]
        await asyncio.sleep((start_ns - time.monotonic_ns() + windows.load_ns) / 1e9)
        await readings.end()
        return readings

    readings = asyncio.run(trial())
    found = {}
    for one in sources:
        clock = readings.clocks.get(one.name, {"error_ns": 0})
        for name, value in one.values.items():
            mine = [r for r in rows if (r["source"], r["metric"]) == (one.name, name)]
            each = (MetricReading(r["before_ns"], r["after_ns"], r["value"], r["missing"]) for r in mine)
            about = (one.shown, value.kind, value.outcome_unit, one.every_ns, None, clock["error_ns"])
            found[f"{one.name}.{name}"] = MetricData(*about, tuple(each))
    return found, readings


def bounds(metric: MetricData) -> tuple[float, float]:
    """The rate in one trial, less and more what its times and its counting may be off by."""
    found = measured(metric, vars(WINDOWS))
    assert found.value is not None, found.missing
    reach = 1.96 * found.shared_error + found.resolution
    return found.value - reach, found.value + reach


def test_a_counter_that_grows_at_a_known_rate_is_read_as_that_rate() -> None:
    with serving(counting) as address:
        found, _ = read(source("prometheus", f"{address}/metrics"))
    low, high = bounds(found["array.it"])
    assert low <= RATE <= high
    assert measured(found["array.busy"], vars(WINDOWS)).value == 0.5
    assert [r.before_ns for r in found["array.it"].readings] == sorted(
        r.before_ns for r in found["array.it"].readings
    )


def test_a_server_with_a_clock_of_its_own_is_set_on_the_labs_time() -> None:
    def prometheus(path: str) -> str:
        asked = {key: value[0] for key, value in parse_qs(urlsplit(path).query).items()}
        if "start" not in asked:
            now = (time.time_ns() + AHEAD_NS) / 1e9
            return json.dumps({"status": "success", "data": {"result": [now, str(now)]}})
        first, last, step = (float(asked[key]) for key in ("start", "end", "step"))
        times = [first + step * place for place in range(int((last - first) / step) + 1)]
        # Up to the middle of the measured window by the lab's clock it is at 0.
        values = [[at, str(max(0.0, at - AHEAD_NS / 1e9 - middle[0]))] for at in times]
        return json.dumps({"status": "success", "data": {"result": [{"values": values}]}})

    middle = [time.time() + 0.02 + 0.4]
    with serving(prometheus) as address:
        found, readings = read(
            source("prometheus_server", address, every_ns=20_000_000, timeout_ns=5 * 10**9)
        )
    clock = readings.clocks["array"]
    assert abs(clock["offset_ns"] - AHEAD_NS) <= clock["error_ns"] + 1_000_000
    known = [r for r in found["array.it"].readings if r.value]
    assert abs(known[0].at_ns - 400_000_000) <= clock["error_ns"] + 200_000_000
    assert all(r.after_ns - r.before_ns <= 2 * clock["error_ns"] + 1 for r in known)


def test_a_date_in_whole_seconds_bounds_a_clock_and_several_meet() -> None:
    first, second = Offset(0, 10**9, "a"), Offset(7 * 10**8, 17 * 10**8, "a")
    assert meet([first, second]) == Offset(7 * 10**8, 10**9, "a")
    assert meet([first, Offset(2 * 10**9, 3 * 10**9, "a")]) is None and meet([]) is None
    # In the middle of the load, as late as the machine may ask for it.
    row = f"at,it_total\n{time.time() + 0.02 + WINDOWS.load_ns / 2e9},3\n"
    with serving(lambda _: row) as address:
        found, readings = read(source("csv", f"{address}/x.csv"))
    clock = readings.clocks["array"]
    assert abs(clock["offset_ns"]) <= clock["error_ns"] <= 600_000_000
    assert clock["by"] == "the Date of its answers"
    assert [r.value for r in found["array.it"].readings] == [3.0]


def test_a_file_with_times(tmp_path: Path) -> None:
    file = tmp_path / "array.csv"
    begin = time.time()
    rows = [f"{begin + n / 50},{n * RATE / 50}" for n in range(-100, 200)]
    file.write_text("\n".join(["at,it_total", *rows]))
    found, _ = read(source("csv", str(file), time_column="at", every_ns=20_000_000))
    low, high = bounds(found["array.it"])
    assert low <= RATE * 1.0001 and high >= RATE * 0.9999
    assert 30 < len(found["array.it"].readings) < 60
    assert "no column busy" in str(found["array.busy"].readings[0].missing)


def test_a_command_prints_values_and_is_killed_with_its_children(tmp_path: Path) -> None:
    shell = "echo it_total $(cut -d' ' -f1 /proc/uptime); echo busy nonsense"
    found, _ = read(source("command", "sh", "-c", shell, every_ns=200_000_000, timeout_ns=5 * 10**9))
    assert measured(found["array.it"], vars(WINDOWS)).value == pytest.approx(1, rel=0.2)
    assert "'nonsense' is no number" in str(measured(found["array.busy"], vars(WINDOWS)).missing)
    mark = tmp_path / "lives"
    slow = source("command", "sh", "-c", f"(sleep 1; touch {mark}) & sleep 60", timeout_ns=50_000_000)
    found, _ = read(slow)
    assert "no answer within 0.05 s" in str(measured(found["array.it"], vars(WINDOWS)).missing)
    time.sleep(1.2)
    assert not mark.exists()


def test_what_a_source_does_is_a_reason_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_sources, "MOST_BYTES", 1 << 16)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    cases = {
        "ended with status 3: no": ("command", "sh", "-c", "echo no >&2; exit 3"),
        "printed more than": ("command", "sh", "-c", "yes"),
        "No such file": ("command", str(tmp_path / "gone")),
        "refused": ("prometheus", "http://127.0.0.1:1/"),
        "is no file": ("csv", str(pipe)),
    }
    answers = {"/long": "x" * (1 << 17), "/gone": "", "/silent": None}
    with serving(lambda path: answers[path]) as address:
        cases |= {
            "is longer than": ("prometheus", f"{address}/long"),
            "404": ("prometheus", f"{address}/gone"),
            "no answer within 0.2 s": ("prometheus", f"{address}/silent"),
        }
        sources = [
            MetricSource(
                f"s{n}", reader, tuple(place), {"it": MetricValue("it", "gauge")}, 10**9, 200_000_000
            )
            for n, (reader, *place) in enumerate(cases.values())
        ]
        found, _ = read(*sources)
    for why, one in zip(cases, sources, strict=True):
        said = measured(found[f"{one.name}.it"], vars(WINDOWS))
        assert said.value is None and why in str(said.missing), (why, said.missing)


def test_snmpget_is_asked_for_all_objects_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "snmpget"
    program.write_text('#!/bin/sh\nif [ "$3" != secret ]; then exit 1; fi\necho 12; echo "No Such Object"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    values = {"errors": MetricValue("IF-MIB::ifInErrors.1", "gauge"), "none": MetricValue(".1.3.9", "gauge")}
    one = source(
        "snmp", "switch", values=values, community="secret", timeout_ns=5 * 10**9, every_ns=300_000_000
    )
    found, _ = read(one)
    assert measured(found["array.errors"], vars(WINDOWS)).value == 12
    assert "'No Such Object' is no number" in str(measured(found["array.none"], vars(WINDOWS)).missing)
    assert "secret" not in str(one.stored())


def test_no_command_runs_that_the_user_has_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IODYNO_EXEC", raising=False)
    for one in (source("command", "touch", "x"), source("snmp", "127.0.0.1")):
        with pytest.raises(AccessError, match=r"metrics array: it runs `(touch|snmpget)`"):
            check_permission({"array": one})
    monkeypatch.setenv("IODYNO_EXEC", "touch,snmpget")
    check_permission({"array": source("command", "touch", "x"), "b": source("snmp", "127.0.0.1")})


def test_a_source_is_read_at_both_ends_of_the_measured_window() -> None:
    times = list(due(WINDOWS, 250_000_000))
    assert times == [100_000_000, 350_000_000, 700_000_000]
    assert list(due(Windows(10**9, 10**9), 3 * 10**9)) == [10**9, 2 * 10**9]


def test_the_bounds_of_a_rate_hold_whenever_a_value_was_read_within_its_time() -> None:
    ms = 10**6
    for early, late in itertools.product((0, 100), repeat=2):
        readings = tuple(
            MetricReading((at - before) * ms, (at + 100 - before) * ms, float(at), None)
            for at, before in ((150, early), (650, late))
        )
        found = measured(MetricData("s", "counter", "1/s", 500 * ms, None, 0, readings), vars(WINDOWS))
        assert found.value is not None
        assert abs(found.value - 1000) <= 1.96 * found.shared_error + found.resolution
    long = MetricData(
        "s", "counter", "1/s", 10**9, None, 0,
        (MetricReading(0, 10**9, 1.0, None), MetricReading(10**8, 11 * 10**8, 2.0, None)),
    )  # fmt: skip
    assert "shorter than they took" in str(measured(long, vars(WINDOWS)).missing)


def test_a_counter_that_was_set_back_has_no_rate() -> None:
    each = [MetricReading(n * 10**8, n * 10**8, value, None) for n, value in enumerate((5.0, 6.0, 1.0, 2.0))]
    metric = MetricData("s", "counter", "1/s", 10**8, None, 0, tuple(each))
    assert "set back" in str(measured(metric, {"warm_up_ns": 0, "measured_ns": 3 * 10**8}).missing)
    assert len(metric.steps()) == 2


def test_what_is_full_outside_is_a_suspect_and_a_limiter() -> None:
    second = 10**9
    spans = [(n * second, (n + 1) * second) for n in range(1, 11)]

    def metric(kind: str, full: float | None, values: list[float]) -> MetricData:
        readings = (MetricReading(n * second, n * second, value, None) for n, value in enumerate(values, 1))
        return MetricData("snmp array", kind, "1", second, full, 0, tuple(readings))

    nearly = [1.0] * 9 + [0.1] * 2
    metrics = {
        "array.busy": metric("gauge", 0.9, nearly),
        "switch.sent": metric("counter", 5.0, [n * 1.0 for n in range(11)]),
        "array.quiet": metric("gauge", None, nearly),
    }
    found = {suspect.name: suspect for suspect in suspects(metrics, spans)}
    assert list(found) == ["array.outside_resource", "switch.outside_resource"]
    assert found["array.outside_resource"].held == 0.8 and found["switch.outside_resource"].held == 0
    (evidence,) = found["array.outside_resource"].evidence
    assert (evidence.signal, evidence.source, evidence.over, evidence.windows) == (
        "array.busy",
        "snmp array",
        8,
        10,
    )
    assert of_signals({}, {}, (), tuple(found.values())).name == "array.outside_resource"
    assert kind_of("array.outside_resource").refuted_by == "the same rate when there is more of it"
