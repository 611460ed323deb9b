"""How near `iodyno watch` is: 30 simulated hosts tell 20 series each, every second; a page watches in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from iodyno.campaign.feed import Feed

TESTS = Path(__file__).parents[1] / "tests"
HOSTS, SERIES, INTERVAL_S = 30, 20, 1.0
_BUCKETS = 120
"""Buckets of a histogram (chosen: what a real trial of bulk TCP fills)."""


async def run(pairs: int) -> list[dict[str, object]]:
    """Lag from a record's arrival at the lab to the picture in Chromium, and the CPU time of each part; lag <= 1 s."""
    return await asyncio.to_thread(_measure, 3 + 2 * pairs)


def _measure(seconds: int) -> list[dict[str, object]]:
    sys.path.insert(0, str(TESTS))
    from made_feed import unfinished
    from pages import MISSING, opened, started

    if MISSING:
        return [{"what": f"skipped: {MISSING}"}]
    with tempfile.TemporaryDirectory() as place:
        folder = unfinished(Path(place) / "campaign", trials=1)
        feed = Feed(folder)
        feed.event("begin", name="bench", trials=1, pid=os.getpid())
        watcher = subprocess.Popen(
            [sys.executable, "-c", "from iodyno.cli.main import main; main()", "watch", str(folder)],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert watcher.stderr is not None
            address = watcher.stderr.readline().split("page: ")[1].strip()
            with started() as browser, opened(browser, address, 1400) as page:
                page.first(".panel")
                found = _tell_and_look(feed, page, watcher.pid, seconds)
        finally:
            watcher.terminate()
            watcher.wait()
            feed.close("finished")
    return found


def _tell_and_look(feed: Feed, page: Any, watcher: int, seconds: int) -> list[dict[str, object]]:
    feed.begin_trial("00000-1", order=0, attempt=1, point="p01", levels={"connections": 1}, proof=False)
    lags: list[float] = []
    cpu_before, own_before, began = _cpu_s(watcher), time.process_time(), time.monotonic()
    due = time.monotonic()
    for index in range(seconds):
        due += INTERVAL_S
        time.sleep(max(0.0, due - time.monotonic()))
        # Agents on one network end an interval within a few milliseconds of each other.
        for host in range(HOSTS):
            feed.record("00000-1", f"host{host:02d}", _PLACE, json.dumps(_record(index, host)).encode())
        told = time.monotonic()
        # Drawn: the picture holds the interval, of all hosts.
        while page.evaluate(_DRAWN) < (index + 1) * HOSTS:
            if time.monotonic() - told > 5:
                break
            time.sleep(0.005)
        lags.append(time.monotonic() - told)
    took = time.monotonic() - began
    watcher_cpu, own_cpu = _cpu_s(watcher) - cpu_before, time.process_time() - own_before
    kept = sorted(lags[2:])
    return [
        {"what": f"lag to the picture, median of {len(kept)}", "value": f"{statistics.median(kept):.3f} s", "allowed": "1 s"},
        {"what": "lag to the picture, greatest", "value": f"{kept[-1]:.3f} s", "allowed": "1 s"},
        {"what": "watcher, share of a CPU", "value": f"{100 * watcher_cpu / took:.1f} %", "allowed": ""},
        {"what": "lab with its feed and this bench, share of a CPU", "value": f"{100 * own_cpu / took:.1f} %", "allowed": ""},
        {"what": "feed alone, CPU time a record", "value": f"{1e6 * _feed_cpu_s():.0f} us", "allowed": ""},
    ]  # fmt: skip


_PLACE = {"role": "send", "operation": "write", "cpus": [0, 1, 2, 3]}
_DRAWN = "+(document.body.dataset.samples ?? 0)"


def _record(index: int, host: int) -> dict[str, Any]:
    begin_ns = index * 1_000_000_000 + host
    cpu = [
        [f"cpu.{state}_ns", f"cpu={n}", 10_000_000 * (host + n + 1)]
        for state in ("user", "system", "softirq", "irq")
        for n in range(4)
    ]
    network = [[f"net.{name}", "dev=eth0", 1_000_000 * (host + 1)] for name in ("rx_bytes", "tx_bytes")]
    disk = [[f"disk.{name}", "dev=sda", 1000 * (host + 1)] for name in ("read_bytes", "write_bytes")]
    values = {"cpu_times": cpu, "net_devices": network, "disks": disk}
    assert sum(map(len, values.values())) == SERIES
    buckets = list(range(900, 900 + 8 * _BUCKETS, 8))
    counts = [100 + host + n for n in range(_BUCKETS)]
    times = {"count": sum(counts), "sum_ns": 1000 * sum(counts), "buckets": buckets, "counts": counts}
    load = {
        "bytes": 10**9,
        "operations": times["count"],
        "service_time": times,
        "connections_active": 8,
        "connections_lost": 0,
    }
    return {
        "index": index, "window": "measured", "begin_ns": begin_ns, "end_ns": begin_ns + 1_000_000_000, "load": load,
        "sensors": [{"sensor": name, "cost_ns": 20_000, "missing": None, "values": each} for name, each in values.items()],
    }  # fmt: skip


def _feed_cpu_s(records: int = 2000) -> float:
    """CPU time of a record in the lab: handing it to the feed and writing it."""
    record = json.dumps(_record(0, 0)).encode()
    with tempfile.TemporaryDirectory() as place:
        feed = Feed(Path(place))
        feed.begin_trial("00000-1", order=0, attempt=1, point="p01", levels={}, proof=False)
        before = time.process_time()
        for _ in range(records):
            feed.record("00000-1", "host00", _PLACE, record)
        feed.close("finished")
        return (time.process_time() - before) / records


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
