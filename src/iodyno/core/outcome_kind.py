"""Kinds of outcomes: name, unit, meaning, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_SHARES = (
    "cpu_",
    "device_busy",
    "loss_",
    "missed_arrivals",
    "rwnd_limited",
    "sndbuf_limited",
    "connection_fairness",
    "fairness",
    "slowest_client",
)
"""Prefixes of the names of outcomes that are parts of a whole."""
_NOT_GIVEN = ("_from_cache_ratio", "server_cached_ratio")
"""Suffixes of outcomes that are a whole less what storage gave of it, which may give more: it is read ahead, or by others too."""


@dataclass(frozen=True)
class OutcomeKind:
    """One outcome. Its name carries its unit; `per_host` outcomes are prefixed `client.`, `server.`, ...

    `of_trial`: it also stands without a host. `own`: of a metric that another program holds, `counter` or `gauge`.
    """

    name: str
    unit: str
    help: str
    per_host: bool = False
    of_trial: bool = False
    better: Literal["higher", "lower", "none"] = "none"
    own: str = ""

    @property
    def possible(self) -> tuple[float | None, float | None]:
        """Between what its true value must lie: nothing takes less than no time, no share is more than the whole.

        Other tasks may give way to a load, and so have less than their background: what they take has no lower end.
        """
        if self.own:
            return (0.0 if self.own == "counter" else None), None
        if self.name.endswith(_NOT_GIVEN):
            return None, 1.0
        whole = 1.0 if self.unit == "1" and self.name.startswith(_SHARES) else None
        return (None if "_other_" in self.name and self.unit != "1" else 0.0), whole
