"""Interface of tunables: how one is read, set and taken back on a host. A tunable only says what to do; a guard does it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from iodyno.core.tunable import TUNABLES
from iodyno.core.workload import Level, Parameter
from iodyno.hosts.guard import Look, Seen, Step

Scope = Literal["device", "disk", "mount", "host", "machine"]
"""Scope of a tunable: the device of the data, the disks under the host's targets, a mounted file system, the host's network
namespace, or the machine with all its namespaces.
"""


@dataclass(frozen=True)
class Place:
    """Place at which tunables are set: the device that carries the data, its host's CPUs, and all CPUs of the machine; `queues`:
    the folder in sysfs of the queue of each disk under the host's targets; `mount`: folder and options that are asked for.
    """

    device: str
    cpus: tuple[int, ...] = ()
    machine_cpus: tuple[int, ...] = ()
    initial_namespace: bool = True
    queues: tuple[str, ...] = ()
    mount: str = ""

    @property
    def sysfs(self) -> str:
        """The device's folder."""
        return f"/sys/class/net/{self.device}"


@dataclass(frozen=True)
class State:
    """State of a tunable. `level` None: it cannot be set here, and `unsupported` says why.

    `low`, `high`: what the host takes, where it tells; `needs`: what else must be set before it can be turned on;
    `before`: whatever the tunable needs to find its way back.
    """

    level: Level | None = None
    unsupported: str | None = None
    low: int | None = None
    high: int | None = None
    needs: str | None = None
    before: Any = None


class Tunable(Protocol):
    """One setting."""

    @property
    def name(self) -> str:
        """One of `iodyno.core.tunable.TUNABLES`."""

    @property
    def scope(self) -> Scope:
        """Scope of the setting."""

    def looks(self, place: Place) -> list[Look]:
        """Return what to read to know its state."""

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """Return its state, from what was read."""

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """Return the steps that set it. Raises ValueError with the reason when it does not take this level."""

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the steps back to `state`."""


def parameter(tunable: Tunable) -> Parameter:
    """Unit and range of a tunable."""
    return TUNABLES[tunable.name]


def write(file: str, text: str | int) -> Step:
    """Writes into a file of the kernel."""
    return {"write": {"file": file, "text": str(text)}}


def run(*words: str) -> Step:
    """Runs a command."""
    return {"run": list(words)}


def first_json(seen: Seen) -> dict[str, Any]:
    """The first object of a command's JSON output; empty when there is none."""
    try:
        found = json.loads(seen.text or "")
    except ValueError:
        return {}
    if isinstance(found, list):
        found = found[0] if found else {}
    return found if isinstance(found, dict) else {}


def mask_of(cpus: Sequence[int]) -> str:
    """A CPU mask as sysfs writes it: hexadecimal words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words))


def cpus_of(mask: str) -> tuple[int, ...]:
    """The CPUs of a mask that sysfs wrote."""
    bits = int(re.sub(r"[^0-9a-fA-F]", "", mask) or "0", 16)
    return tuple(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)
