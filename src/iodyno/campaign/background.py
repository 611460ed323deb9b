"""What the hosts do when no load is on: measured before the first trial and after the last."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from iodyno.campaign.folder import doubt_json
from iodyno.campaign.rig import Rig
from iodyno.campaign.sealed import sealed
from iodyno.campaign.trial import OPERATIONS, Account, measure_idle
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.experiment import Windows
from iodyno.session.sent import SentRecord
from iodyno.store.schema import BACKGROUND
from iodyno.store.writer import TrialWriter

_IDLE_STATES = ("cpu.idle_ns", "cpu.iowait_ns")


async def measure_background(rig: Rig, folder: Path, when: str) -> dict[str, float | None]:
    """Stores `background/<when>`; gives the busy share of each host's CPUs, None where it is not known.

    An agent that is lost meanwhile is started anew, once. Raises AccessError when that fails, or it is lost again.
    """
    try:
        return await _measure(rig, folder, when)
    except TrialError as failure:
        await rig.recover(failure)
    try:
        return await _measure(rig, folder, when)
    except TrialError as failure:
        # It is none of a trial's failures: what is wrong is the host or its agent.
        raise AccessError(failure.what, where=failure.where, advice=failure.advice) from failure


async def _measure(rig: Rig, folder: Path, when: str) -> dict[str, float | None]:
    length_ns = rig.experiment.limits.background_ns
    windows = Windows(warm_up_ns=0, measured_ns=length_ns, drain_ns=0, interval_ns=length_ns)
    account = Account()
    busy: dict[str, float | None] = dict.fromkeys(rig.sessions)
    shutil.rmtree(folder / BACKGROUND / when, ignore_errors=True)
    writer = TrialWriter(folder / BACKGROUND, when)

    def keep(host: str, sent: SentRecord) -> None:
        writer.add_record(host, OPERATIONS["idle"], sent.payload)
        busy[host] = _busy_ratio(sent.taken_apart(), rig.cpus[host])

    started = datetime.now(UTC)
    try:
        await measure_idle(rig, f"background-{when}", windows, account, keep)
        await sealed(
            writer,
            {
                "trial": f"background-{when}",
                **{"order": 0, "attempt": 1, "block": 0, "replicate": 0, "point": "background"},
                **{"levels": {}, "settings": {}, "status": "finished", "reason": None},
                "started_wall": started.isoformat(timespec="milliseconds"),
                "windows": vars(windows),
                "start": account.start,
                "hosts": account.hosts,
                "doubts": [doubt_json(doubt) for doubt in account.doubts],
                "overhead_ns": None,
            },
        )
    except BaseException:
        writer.discard()
        raise
    return busy


def _busy_ratio(record: Mapping[str, Any], cpus: tuple[int, ...]) -> float | None:
    labels = {f"cpu={cpu}" for cpu in cpus}
    for reading in record["sensors"]:
        if reading["sensor"] != "cpu_times":
            continue
        times = [(metric, value) for metric, label, value in reading["values"] if not cpus or label in labels]
        total = sum(value for _, value in times)
        idle = sum(value for metric, value in times if metric in _IDLE_STATES)
        return 1 - idle / total if total else None
    return None
