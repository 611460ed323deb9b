"""View of a load while it runs: its rate so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.workload import Level
from iodyno.loads.base.kinds import part


class Load:
    """The rate of a load in one trial, as its hosts tell of it interval by interval."""

    def __init__(self, workload: WorkloadSpec, settings: Mapping[str, Level]) -> None:
        self.workload = workload
        self.settings = settings
        self.moved: dict[str, tuple[int, int]] = {}

    def rate(self, host: str, progress: Mapping[str, Any], length_ns: int) -> str | None:
        """Return the rate so far, in words, with an interval of the measured window; None: the host tells nothing of it."""
        raise NotImplementedError

    def whole_rate(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the rate of the trial that is over, where it is another than that of its last interval."""
        return None

    def per_s(self, host: str, amount: int, length_ns: int) -> float:
        """Return what the hosts have moved a second, all together, with this interval of one of them."""
        before, before_ns = self.moved.get(host, (0, 0))
        self.moved[host] = (before + amount, before_ns + length_ns)
        return sum(moved * 1e9 / lasted_ns for moved, lasted_ns in self.moved.values())


def load_in(workload: WorkloadSpec, settings: Mapping[str, Level]) -> Load:
    """Return the load of a trial with these settings."""
    found: Load = part(workload.kind, "watch")(workload, settings)
    return found


def bits(per_s: float) -> str:
    """A goodput in the unit that shows it: requests of 64 bytes are no `0.00 Gbit/s`.

    >>> bits(21.4e9), bits(3.26e6), bits(512.0)
    ('21.40 Gbit/s', '3.26 Mbit/s', '0.51 kbit/s')
    """
    factor, unit = next(
        (one for one in ((1e9, "Gbit/s"), (1e6, "Mbit/s")) if per_s >= one[0]), (1e3, "kbit/s")
    )
    return f"{per_s / factor:.2f} {unit}"
