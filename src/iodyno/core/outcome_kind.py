"""What an outcome is: its name, its unit, what it means, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class OutcomeKind:
    """One outcome. Its name carries its unit; `per_host` outcomes are prefixed `client.`, `server.`, ...

    `of_trial`: it also stands without a host.
    """

    name: str
    unit: str
    help: str
    per_host: bool = False
    of_trial: bool = False
    better: Literal["higher", "lower", "none"] = "none"
