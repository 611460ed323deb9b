"""What the instrument takes from a load that goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import statistics
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from bench.meter import Metered
from bench.ratio import middle
from bench.testbed import Pair, open_testbed, trial
from iodyno.campaign.account import Account
from iodyno.campaign.trial import carry_out
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.workload import Level

CASES: tuple[dict[str, Level], ...] = (
    {"connections": 8, "size": 65536},
    {"connections": 32, "size": 1024},
)
ROUNDS = 8
"""Rounds for each of the pairs that were asked for. Chosen: forty hold a median within a few percent."""
SECONDS = 0.6
"""Length of a look. Chosen: most of the load's own swings are longer than four looks."""
_IDLE: dict[str, Level] = {"connections": 1, "size": 64, "rate": 10, "engine": "epoll"}
"""What the agents that look do themselves: next to nothing."""
_TAKES_S = 4.0
"""One look with everything about it; more than it ever took, so that the load does not end before the last one."""


async def run(pairs: int) -> list[dict[str, object]]:
    """Goodput and CPU time for a GB while agents look with everything that measures by default, against none looking.

    One load of two agents that observe nothing goes on all the time, so that its connections are the same. Two other
    agents, bound to the same CPUs, have a trial beside it again and again: with all sensors, without call stacks, and with
    nothing, twice. Goodput is to be at least 0.98.
    """
    rows: list[dict[str, object]] = []
    async with open_testbed() as (looking, _):
        plain = looking.experiment
        forms = {
            "all": replace(plain, profile_hz=Experiment.profile_hz),
            "no call stacks": replace(plain, profile_hz=0),
            "nothing": replace(plain, profile_hz=0, sensors="off"),
            "nothing again": replace(plain, profile_hz=0, sensors="off"),
        }
        for settings in CASES:
            done: dict[str, list[Metered]] = {name: [] for name in forms}
            async with _going_on(settings, ROUNDS * pairs * len(forms) * _TAKES_S) as pair:
                for number in range(ROUNDS * pairs):
                    # Turned round in every other round, so that a drift is on either side.
                    for name in forms if number % 2 else reversed(forms):
                        looking.experiment = forms[name]
                        done[name].append((await trial(looking, pair, _IDLE, SECONDS)).metered)
            rates = {name: [metered.gbit_per_s for metered in found] for name, found in done.items()}
            costs = {name: [metered.cpu_s_per_gb for metered in found] for name, found in done.items()}
            rows += [
                {
                    **settings,
                    "a_over_b": f"{name} / nothing",
                    "gbit_per_s": round(statistics.median(rates[name]), 2),
                    "goodput_ratio": "{:.3f} [{:.3f}, {:.3f}]".format(*middle(rates[name], rates["nothing"])),
                    "cpu_s_per_gb_ratio": "{:.3f} [{:.3f}, {:.3f}]".format(
                        *middle(costs[name], costs["nothing"])
                    ),
                }
                for name in ("all", "no call stacks", "nothing again")
            ]
    return rows


@contextlib.asynccontextmanager
async def _going_on(settings: Mapping[str, Level], most_s: float) -> AsyncIterator[Pair]:
    """A load that begins before and is ended after; at the latest after `most_s`. Of another process, because the hosts of
    a process have its number in their names.
    """
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.instrument", json.dumps(dict(settings)), str(most_s)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        line = await holder.stdout.readline()
        if not line:
            raise SystemExit("bench: the load did not begin")
        yield Pair(**json.loads(line))
        if holder.returncode is not None:
            raise SystemExit("bench: the load ended before the last look")
    finally:
        holder.stdin.close()
        await holder.wait()


async def _hold(settings: Mapping[str, Level], most_s: float) -> None:
    """Has a load that observes nothing go on until the input ends; says between which hosts when it goes."""
    second = 1_000_000_000
    windows = Windows(
        warm_up_ns=second, measured_ns=int(most_s * second), drain_ns=second // 10, interval_ns=second
    )
    complete: dict[str, Level] = {"transport": "tcp", "engine": "threads", "nagle": True, **settings}
    async with open_testbed() as (testbed, pair):
        testbed.experiment = replace(testbed.experiment, profile_hz=0, sensors="off")
        begun = asyncio.Event()
        going = asyncio.create_task(
            carry_out(testbed, "load", complete, windows, Account(), lambda _host, _record: begun.set())
        )
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait({going, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if begun.is_set():
            sys.stdout.write(json.dumps(dataclasses.asdict(pair)) + "\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)
        waiting.cancel()
        going.cancel()
        await asyncio.gather(going, waiting, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(_hold(json.loads(sys.argv[1]), float(sys.argv[2])))
