"""A family of tunables: values below `/proc/sys`.

What they mean: Documentation/networking/ip-sysctl.rst, Documentation/admin-guide/sysctl/net.rst and vm.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, write


@dataclass(frozen=True)
class Sysctl:
    """`file` below `/proc/sys`. `unit`: how many base units (bytes, ns) one of the file is. `field`: which of several
    numbers.

    `host`: one value a network namespace; `machine`: one for all of them.
    """

    name: str
    file: str
    scope: Scope = "host"
    unit: int = 1
    field: int | None = None
    kind: type[int] | type[bool] | type[str] = int

    @property
    def path(self) -> str:
        """The file."""
        return f"/proc/sys/{self.file}"

    def looks(self, place: Place) -> list[Look]:
        """The file."""
        return [{"file": self.path}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """Its value. What all namespaces share is not shown in a namespace of its own."""
        text = (seen[0].text or "").strip()
        if self.scope == "machine" and self.file.startswith("net/") and not place.initial_namespace:
            return State(
                unsupported="it is one value for the whole machine, and this host is a network namespace of it:"
                " set it where the machine is the host"
            )
        if not text:
            return State(unsupported=seen[0].error or f"{self.path} is empty")
        word = text.split()[self.field] if self.field is not None else text
        level: Level = word if self.kind is str else self.kind(int(word))
        if self.kind is int:
            # Signed 32 bits in the file; -1 (no limit) is not a level that an experiment can ask for.
            level = (int(word) & 0xFFFFFFFF) * self.unit
        return State(level=level, before=text)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One write."""
        if self.kind is str:
            return [write(self.path, str(level))]
        if int(level) % self.unit:
            raise ValueError(f"the kernel takes whole steps of {self.unit} ns")
        words = str(state.before).split()
        words[self.field or 0] = str(int(level) // self.unit)
        return [write(self.path, " ".join(words))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the step that writes what the file held."""
        return [write(self.path, state.before)]
