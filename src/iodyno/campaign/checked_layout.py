"""A working set whose blocks carry checks, for loads that read and check them: written once by the agents themselves.

The checks are the agent's (`agent/core/src/disk.rs`, "Verify"): one for each aligned unit, made with a seed that all jobs
with checks share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iodyno.campaign.disk_job import block_of
from iodyno.campaign.rig import Rig
from iodyno.core.disk_parameters import paths_of
from iodyno.core.errors import PreflightError, TrialError
from iodyno.core.experiment import Windows
from iodyno.core.workload import Level

_CHUNK_BYTES = 1 << 20
_WINDOWS = Windows(warm_up_ns=0, measured_ns=3600 * 10**9, drain_ns=0, interval_ns=10**9)
"""An hour at most (chosen: a terabyte at the rate of a slow disk takes longer, and is not checked block by block); the
job ends with its last block."""
_CALM = ("rate", "arrivals", "random", "stride", "theta", "sync_every", "clients", "read", "cached")


async def write_checks(rig: Rig, settings: list[dict[str, Level]], say: Callable[[str], None]) -> None:
    """Writes every block of the working sets with its check, where a point reads them so. Raises PreflightError."""
    checked = [point for point in settings if point.get("verify") == "read"]
    units = {int(point.get("align", block_of(point)[0])) for point in checked}
    if len(units) > 1:
        raise PreflightError(
            f"blocks that carry checks have units of {', '.join(map(str, sorted(units)))} bytes in one experiment",
            where="verify",
            advice="set `align` to the least of them, so that all points have one unit",
        )
    # Imported here: a trial is made of what stands beside this.
    from iodyno.campaign.trial import Account, carry_out

    for target in dict.fromkeys((point.get("target"), point.get("volume")) for point in checked):
        mine = [point for point in checked if (point.get("target"), point.get("volume")) == target]
        point = max(mine, key=lambda each: int(each.get("working_set", 0)))
        (unit,) = units
        length = int(point.get("working_set", 0))
        if not length:
            raise PreflightError(
                "blocks that carry checks need a working set", where="verify", advice="set `working_set`"
            )
        block = max(unit, min(_CHUNK_BYTES, length) // unit * unit)
        # What is left behind the last whole chunk is written in blocks of a unit.
        whole, rest = divmod(length, block)
        say(f"writing {length >> 20} MiB of blocks with checks")
        calm = {name: level for name, level in point.items() if name not in _CALM}
        plain: dict[str, Any] = {
            **calm,
            "pattern": "sequential",
            "sequence": "split",
            "read": 0,
            "verify": "write",
        }
        plain |= {"workers": 1, "align": unit, "sync": "none", "cached": "any"}
        offset = int(point.get("offset", 0))
        parts = [(offset, block, whole), (offset + whole * block, unit, rest // unit)]
        for begin, size, count in parts:
            if not count:
                continue
            each = count * len(paths_of(str(target[0])) if target[0] else [""])
            part = {**plain, "offset": begin, "working_set": size * count, "block": size, "operations": each}
            try:
                await carry_out(rig, "checks", part, _WINDOWS, Account(), lambda host, record: None)
            except TrialError as error:
                raise PreflightError(error.what, where=error.where, advice=error.advice) from error
