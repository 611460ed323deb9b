"""Interrupts of a real load are those that /proc/interrupts has meanwhile."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from places import iodyno

from iodyno.analysis.interrupt_rates import REST

SECONDS, SLACK = 0.5, 0.2
Looks = list[tuple[float, dict[str, int]]]


def counts() -> dict[str, int]:
    """Interrupts of all CPUs since the start of the machine, by number or name."""
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    cpus, found = len(head.split()), {}
    for line in lines:
        name, _, rest = line.partition(":")
        found[name.strip()] = sum(int(word) for word in rest.split()[:cpus] if word.isdecimal())
    return found


def less(looks: Looks, number: str, since: float, until: float) -> int:
    """What came between the looks within a time: no more than came in that time."""
    within = [found.get(number, 0) for at, found in looks if since <= at <= until]
    return within[-1] - within[0] if within else 0


def more(looks: Looks, number: str, since: float, until: float) -> int:
    """What came between a look at its begin and the first one after its end: no less than came in that time."""
    around = [found.get(number, 0) for at, found in looks if at >= since]
    after = [found.get(number, 0) for at, found in looks if at >= until]
    return (after or around)[0 if after else -1] - around[0]


@pytest.mark.root
@pytest.mark.alone
def test_rates_of_interrupts_are_those_of_the_kernel_in_one_part_of_the_run(tmp_path: Path) -> None:
    looks: Looks = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            looks.append((time.monotonic(), counts()))

    meter = threading.Thread(target=look)
    meter.start()
    try:
        words = ("--seconds", str(SECONDS), "--repeat", "1", "--sensors", "full", "--json")
        done = iodyno("tcp", *words, cwd=tmp_path)
    finally:
        over.set()
        meter.join()
    assert done.returncode == 0, done.stderr
    told = iodyno("report", json.loads(done.stdout)["campaign"], "--json", cwd=tmp_path)
    (point,) = json.loads(told.stdout)["points"]
    host = point["interrupts"][0]["host"]
    every = [one for one in point["interrupts"] if one["host"] == host]
    together = sum(one["per_s"]["estimate"] for one in every)
    assert point["outcomes"][f"{host}.interrupts_per_s"]["estimate"] == pytest.approx(together, rel=1e-5)
    mine = [one for one in every if one["name"] != REST]
    assert mine
    for one in mine:
        number, rate = one["name"].partition(":")[0], one["per_s"]["estimate"]
        assert rate == pytest.approx(sum(one["by_cpu_per_s"].values()))
        # The measured window begins within SLACK after one of the looks: it has no more than what came from there to its latest
        # end, and no less than what came from its latest begin to its earliest end.
        assert any(
            less(looks, number, at + SLACK, at + SECONDS) <= rate * SECONDS * 1.01 + 1
            and rate * SECONDS * 0.99 - 1 <= more(looks, number, at, at + SECONDS + SLACK)
            for at, _ in looks
        ), one
