"""Checks before the first trial that the hosts can carry a load on disks; and a very short trial of it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from iodyno.campaign.account import Account
from iodyno.campaign.preflight_lines import Line, line, mib, or_unknown
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.trial import carry_out
from iodyno.core.errors import PreflightError, TrialError
from iodyno.core.experiment import Windows
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level
from iodyno.loads.disk.campaign.jobs import block_of, trace_of
from iodyno.loads.disk.core import parameters as disk_parameters
from iodyno.loads.disk.core.parameters import kind_of
from iodyno.session.sent import SentRecord

_SPARE_THREADS = 32
_SPARE_BYTES = 64 << 20
_TEST_NS = 100_000_000
_TEST_WINDOWS = Windows(warm_up_ns=0, measured_ns=_TEST_NS, drain_ns=0, interval_ns=_TEST_NS)
_SECTOR_BYTES = 512

Settings = list[dict[str, Level]]


def limits(testbed: Testbed, settings: Settings) -> Iterator[tuple[Line, str]]:
    """Threads of the workers. Hosts with one boot id share a machine."""
    for hosts in machines(testbed):
        facts = testbed.sessions[hosts[0]].hello["host"]
        workers = [
            max(int(point["workers"]) for point in settings_of_host(testbed, host, settings))
            for host in hosts
        ]
        have, need = facts["threads_limit"], sum(workers) + _SPARE_THREADS
        most = f"{sum(workers)} worker{'s' if sum(workers) > 1 else ''}"
        yield line(
            "threads",
            have is None or need <= have,
            f"host {' and '.join(hosts)}: {most} need {need} threads, it may have {or_unknown(have)}",
            "use fewer workers, with a greater queue_depth and io_uring, or raise the limit there (ulimit -u, pids.max)",
        )


def memory(testbed: Testbed, settings: Settings) -> Iterator[tuple[Line, str]]:
    """Blocks that are in flight."""
    for hosts in machines(testbed):
        known = [testbed.sessions[host].hello["host"]["memory_available_bytes"] for host in hosts]
        have = min((each for each in known if each is not None), default=None)
        need = sum(
            max(_needed_bytes(point) for point in settings_of_host(testbed, host, settings)) for host in hosts
        )
        yield line(
            "memory",
            have is None or need <= have,
            f"host {' and '.join(hosts)}: blocks in flight may take {mib(need)}, {mib(have)} are available",
            "use fewer workers, a smaller queue_depth or smaller blocks",
        )


def calls(testbed: Testbed, settings: Settings) -> Iterator[tuple[Line, str]]:
    """Check for settings of a point that contradict each other, where factors bring them together."""
    wrong: dict[str, str] = {}
    for host in testbed.experiment.workload.hosts:
        for point in settings_of_host(testbed, host, settings):
            wrong |= {text: f"set {name} otherwise there" for name, text in wrong_together(point)}
    for text, advice in wrong.items():
        yield line("calls", False, text, advice)


def left_out(testbed: Testbed, settings: Settings, note: Callable[[Warning], None]) -> None:
    """A warning for each trace that is not replayed in full. Raises ExperimentError where a trace cannot be replayed at all."""
    points = (
        point
        for host in testbed.experiment.workload.hosts
        for point in settings_of_host(testbed, host, settings)
    )
    traces = {(str(p["replay"]), p.get("replay_device")): p for p in points if "replay" in p}
    for (name, _), point in traces.items():
        if without := trace_of(point).without:
            text = f"of the operations of {name} were left out: {without}"
            note(Warning(WarningCode.REPLAY_IN_PART, text, Path(name).name))


def settings_of_host(testbed: Testbed, host: str, settings: Settings) -> Settings:
    """The points as one host has them."""
    return [testbed.experiment.workload.settings_of(host, point) for point in settings]


def wrong_together(point: Mapping[str, Level]) -> Iterator[tuple[str, str]]:
    """(parameter, sentence) of all that does not go together in one point."""
    # What is varied, the experiment file says, and is checked with it.
    varied = {"arrivals", *(other for other, _ in disk_parameters.OF_ANOTHER.values())}
    mistakes = disk_parameters.mistakes_of(point, varied)
    yield from ((name, f"{name} {text}") for name, text in mistakes)
    for names, text in disk_parameters.mistakes_of_point(point):
        yield names[0], f"{names[0]}: {text}"
    target = point.get("target")
    if (
        target is not None
        and kind_of(str(target)) == "file"
        and not isinstance(point.get("working_set"), int)
    ):
        yield "working_set", f"the file {target} without a working_set"


async def data(testbed: Testbed, settings: Settings) -> Line:
    """Check that every host reaches its target as each point needs it: very short trials. Raises PreflightError."""
    began_ns = time.monotonic_ns()
    moved = 0

    def count(host: str, record: SentRecord) -> None:
        nonlocal moved
        moved += record.progress["bytes"]

    tested = _distinct(settings)
    for point in tested:
        # What the page cache holds is no matter here, and a reading of the whole working set takes long.
        quick = {k: v for k, v in point.items() if k not in ("rate", "arrivals")} | {"cached": "any"}
        if quick.get("verify") == "read":
            # Wrong data is a result: a trial finds it, which is kept.
            quick["verify"] = "write"

        async def test(times: int, point: Mapping[str, Level] = quick) -> None:
            longer = dict.fromkeys(("measured_ns", "interval_ns"), times * _TEST_NS)
            await carry_out(
                _without_rates(testbed),
                "preflight",
                point,
                replace(_TEST_WINDOWS, **longer),
                Account(),
                count,
            )

        try:
            await testbed.in_time(test)
        except TrialError as error:
            raise PreflightError(error.what, where=error.where, advice=error.advice) from error
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    clients = ", ".join(testbed.experiment.workload.hosts[:3]) + (
        " ..." if testbed.experiment.workload.hosts[3:] else ""
    )
    return line("data", True, f"{clients} moved {mib(moved)} in {len(tested)} tests of {took_ms:.0f} ms")[0]


def _without_rates(testbed: Testbed) -> Testbed:
    """The testbed whose hosts do not wait for arrivals."""
    workload = testbed.experiment.workload
    own = {
        host: {name: level for name, level in settings.items() if name not in ("rate", "arrivals")}
        for host, settings in workload.own.items()
    }
    prompt = copy.copy(testbed)
    prompt.experiment = replace(testbed.experiment, workload=replace(workload, own=own))
    return prompt


def machines(testbed: Testbed) -> list[list[str]]:
    """The clients, those on one machine together."""
    found: dict[str, list[str]] = {}
    for host in testbed.experiment.workload.hosts:
        found.setdefault(testbed.sessions[host].hello["host"]["boot_id"] or host, []).append(host)
    return list(found.values())


def _distinct(settings: Settings) -> Settings:
    """A point for each way to reach a target: what else varies cannot be refused."""
    ways = (
        "target",
        "volume",
        "work",
        "syscalls",
        "direct",
        "sync",
        "block",
        "verify",
        "registered",
        "iopoll",
        "sqpoll",
        "path",
    )
    return list({tuple(point.get(name) for name in ways): point for point in settings}.values())


def _needed_bytes(point: Mapping[str, Level]) -> int:
    greatest, _ = block_of(point)
    return int(point["workers"]) * int(point["queue_depth"]) * greatest + _SPARE_BYTES
