"""Working sets that are written over in order before the first trial, so that a device is as it is in use: the
preconditioning of SNIA's Performance Test Specification that is the same for all loads, and writes everything twice.
"""

from __future__ import annotations

from collections.abc import Callable

from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import PreflightError
from iodyno.core.workload import Level
from iodyno.loads.disk.campaign.checked_layout import write_in_order
from iodyno.loads.disk.core.parameters import NULL_TARGET, paths_of

_BLOCK_BYTES = 128 << 10
"""As the specification has it."""


async def write_over(testbed: Testbed, settings: list[dict[str, Level]], say: Callable[[str], None]) -> None:
    """Writes each working set over as often as its points ask for; one that several have, as often as most. Raises
    PreflightError.
    """
    asked: dict[tuple[Level | None, ...], dict[str, Level]] = {}
    for point in settings:
        place = tuple(point.get(name) for name in ("target", "volume", "offset", "working_set"))
        known = asked.get(place, {}).get("precondition", 0)
        if int(point.get("precondition", 0)) > int(known) and point.get("target") != NULL_TARGET:
            asked[place] = point
    for point in asked.values():
        size, times = int(point.get("working_set", 0)), int(point["precondition"])
        block = min(_BLOCK_BYTES, size)
        if not size or size % block:
            raise PreflightError(
                f"a working set of {size} bytes cannot be preconditioned in blocks of {block} bytes",
                where="precondition",
                advice="set `working_set` to a multiple of 128KiB",
            )
        say(f"writing {size >> 20} MiB over, {times} times in order")
        paths = paths_of(str(point["target"])) if point.get("target") else [""]
        own = {"block": block, "operations": times * size // block * len(paths)}
        await write_in_order(testbed, "precondition", point, own)
