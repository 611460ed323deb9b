"""Interrupts of a real load are those that /proc/interrupts has meanwhile."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from places import iodyno

from iodyno.analysis.interrupt_rates import REST

SECONDS = 0.5


def counts() -> dict[str, int]:
    """Interrupts of all CPUs since the start of the machine, by number or name."""
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    cpus, found = len(head.split()), {}
    for line in lines:
        name, _, rest = line.partition(":")
        found[name.strip()] = sum(int(word) for word in rest.split()[:cpus] if word.isdecimal())
    return found


@pytest.mark.root
@pytest.mark.alone
def test_rates_of_interrupts_are_those_of_the_kernel_in_one_part_of_the_run(tmp_path: Path) -> None:
    looks: list[tuple[float, dict[str, int]]] = []
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
    interrupts = json.loads(told.stdout)["points"][0]["interrupts"]
    mine = [one for one in interrupts if one["host"] == interrupts[0]["host"] and one["name"] != REST]
    assert mine
    for one in mine:
        number, rate = one["name"].partition(":")[0], one["per_s"]["estimate"]
        assert rate == pytest.approx(sum(one["by_cpu_per_s"].values()))
        # The measured window lies somewhere in the run: it holds what a shorter part of it has, and a longer one has all of it.
        assert any(
            within[number] - first[number] <= rate * SECONDS <= beyond[number] - first[number]
            for place, (begin, first) in enumerate(looks)
            if (within := [c for at, c in looks[place:] if at <= begin + 0.8 * SECONDS][-1])
            and (beyond := next((c for at, c in looks[place:] if at >= begin + 1.2 * SECONDS), looks[-1][1]))
        ), one
