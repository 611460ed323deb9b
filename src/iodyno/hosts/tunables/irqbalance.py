"""The service irqbalance(1), which moves interrupts between CPUs and so undoes `irq_affinity`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run


@dataclass(frozen=True)
class Irqbalance:
    """Whether it runs: one for the machine, turned by systemd(1)."""

    name: str = "irqbalance"
    scope: Scope = "machine"

    def looks(self, place: Place) -> list[Look]:
        """Tell whether it is there, and runs. systemctl(1) fails where a service does not run; the word is what counts."""
        script = "systemctl cat irqbalance >/dev/null && { systemctl is-active irqbalance || true; }"
        return [{"run": ["sh", "-c", script]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """On while it is active."""
        word = (seen[0].text or "").strip()
        if not word:
            return State(unsupported="systemd runs no such service on this host")
        return State(level=word == "active", before=word == "active")

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command."""
        return [run("systemctl", "start" if level else "stop", "irqbalance")]

    def undo(self, place: Place, state: State) -> list[Step]:
        """As it was."""
        return self.steps(place, state, state.before)
