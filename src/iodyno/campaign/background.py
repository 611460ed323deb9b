"""Background of the hosts, when no load is on: measured before the first trial and after the last."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iodyno.campaign.account import Account
from iodyno.campaign.folder import warning_json
from iodyno.campaign.sealed import sealed
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.time_of_day import TimeOfDay
from iodyno.campaign.trial import OPERATIONS, measure_idle
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.experiment import Windows
from iodyno.session.sent import SentRecord
from iodyno.store.schema import BACKGROUND
from iodyno.store.writer import TrialWriter

_EXACT = ("exact.app_ns", "exact.other_ns", "exact.hardirq_ns", "exact.softirq_ns", "exact.idle_ns")
_CPU_TIMES = (
    ("cpu_exact", _EXACT, ("exact.idle_ns",)),
    ("cpu_times", ("cpu.",), ("cpu.idle_ns", "cpu.iowait_ns")),
)
"""Sensors of CPU time, the best first: their states, and which of these are idle."""
_TICKED_NS = 1_000_000_000
"""Chosen: a hundred ticks of /proc/stat, in which CPU time is counted where programs in the kernel may not be loaded."""


@dataclass
class Background:
    """An idle measurement. `busy`: the busy share of each host's CPUs, None where it is not known.

    It is on the disk once it is stored, which takes CPU time that a load may need.
    """

    busy: dict[str, float | None]
    _writer: TrialWriter
    _manifest: Mapping[str, Any]

    async def store(self) -> None:
        """Write it to the campaign. Raises StoreError."""
        try:
            await sealed(self._writer, self._manifest)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Drop it; the next start of the campaign measures it again."""
        self._writer.discard()


async def measure_background(testbed: Testbed, folder: Path, when: str, clock: TimeOfDay) -> Background:
    """Measure `background/<when>` of the campaign in `folder`.

    An agent that is lost meanwhile is started anew, once; a start that comes too late is given more time until it comes in
    time. Raises AccessError when that fails, or it is lost again.
    """
    retried = False
    while True:
        try:
            return await _measure(testbed, folder, when, clock)
        except TrialError as failure:
            if retried and (failure.code != "late" or not testbed.can_wait_longer):
                # It is none of a trial's failures: what is wrong is the host or its agent.
                raise AccessError(failure.what, where=failure.where, advice=failure.advice) from failure
            await testbed.recover(failure)
        retried = True


def _length_ns(testbed: Testbed) -> int:
    """Return the length: where CPU time is counted in ticks, that of a measured window, up to `_TICKED_NS`."""
    asked = testbed.experiment.limits.background_ns
    exact = all(
        any(
            c["name"] == "sensor.cpu_exact" and c["available"]
            for c in testbed.outside(host).hello["capabilities"]
        )
        for host in testbed.sessions
    )
    return asked if exact else max(asked, min(_TICKED_NS, testbed.experiment.windows.measured_ns))


async def _measure(testbed: Testbed, folder: Path, when: str, clock: TimeOfDay) -> Background:
    length_ns = _length_ns(testbed)
    windows = Windows(warm_up_ns=0, measured_ns=length_ns, drain_ns=0, interval_ns=length_ns)
    account = Account()
    busy: dict[str, float | None] = dict.fromkeys(testbed.sessions)
    shutil.rmtree(folder / BACKGROUND / when, ignore_errors=True)
    writer = TrialWriter(folder / BACKGROUND, when)

    def keep(host: str, sent: SentRecord) -> None:
        writer.add_record(host, OPERATIONS["idle"], sent.payload)
        busy[host] = _busy_ratio(sent.taken_apart(), testbed.cpus[host])

    started = clock.text()
    try:
        await measure_idle(testbed, f"background-{when}", windows, account, keep)
    except BaseException:
        writer.discard()
        raise
    manifest = {
        "trial": f"background-{when}",
        **{"order": 0, "attempt": 1, "block": 0, "replicate": 0, "point": "background"},
        **{"levels": {}, "settings": {}, "status": "finished", "reason": None},
        "started_wall": started,
        "windows": vars(windows),
        "start": account.start,
        "hosts": account.hosts,
        "warnings": [warning_json(warning) for warning in account.warnings],
        "overhead_ns": None,
    }
    return Background(busy, writer, manifest)


def _busy_ratio(record: Mapping[str, Any], cpus: tuple[int, ...]) -> float | None:
    """Return the busy share of the CPUs in a record: of the time that the kernel told exactly, or else of its ticks."""
    labels = {f"cpu={cpu}" for cpu in cpus}
    readings = {reading["sensor"]: reading["values"] for reading in record["sensors"]}
    for sensor, states, idle_states in _CPU_TIMES:
        times = [
            (metric, value)
            for metric, label, value in readings.get(sensor, ())
            if metric.startswith(states) and (not cpus or label.partition(",")[0] in labels)
        ]
        if total := sum(value for _, value in times):
            idle = sum(value for metric, value in times if metric in idle_states)
            return float(1 - idle / total)
    return None
