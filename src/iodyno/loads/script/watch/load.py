"""Goodput of a script while it runs, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.loads.base.watch import Load, bits


class ScriptLoad(Load):
    """Goodput of a script."""

    def rate(self, host: str, progress: Mapping[str, Any], length_ns: int) -> str | None:
        """Return as much as the end that moved least. Both ends together get no more than that; what it was is in the accounts
        at the end.
        """
        self.per_s(host, progress["bytes"], length_ns)
        workload = self.workload
        ends = [
            [name for name in end if name in self.moved] for end in (workload.senders, workload.receivers)
        ]
        moved = [[self.moved[name] for name in end] for end in ends if end]
        return bits(8 * min(sum(bytes_ * 1e9 / lasted_ns for bytes_, lasted_ns in end) for end in moved))

    def whole_rate(self, manifest: Mapping[str, Any]) -> str | None:
        """Return the goodput out of the accounts: what a script does at its very end says nothing of all of it."""
        from iodyno.loads.script.analysis.time import goodput_bits_per_s

        found = goodput_bits_per_s(list(manifest.get("hosts", {}).values()))
        return bits(found) if found is not None else "done"


LOADS = {"script": ScriptLoad}
