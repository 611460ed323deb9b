"""A family of tunables: how much may wait to be written back (Documentation/admin-guide/sysctl/vm.rst)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, write

_VM = "/proc/sys/vm"


@dataclass(frozen=True)
class DirtyLimit:
    """`file`, in bytes or in percent; `other`: the same in the other unit. The kernel zeroes the one that is not in use."""

    name: str
    file: str
    other: str
    scope: Scope = "machine"

    def looks(self, place: Place) -> list[Look]:
        """Both files."""
        return [{"file": f"{_VM}/{self.file}"}, {"file": f"{_VM}/{self.other}"}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """0: the other one holds."""
        own, other = ((each.text or "").strip() for each in seen)
        if not own or not other:
            return State(
                unsupported=next((each.error for each in seen if each.error), f"{self.file} is empty")
            )
        return State(level=int(own), before=(self.file, own) if int(own) else (self.other, other))

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One write."""
        return [write(f"{_VM}/{self.file}", int(level))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """A write to the one that held."""
        file, text = state.before
        return [write(f"{_VM}/{file}", text)]
