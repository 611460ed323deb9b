"""Questions of the analysis to a load: its outcomes, and which of them is its rate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from iodyno.analysis.outcomes import OF_ALL_HOSTS, OF_HOST, OF_TRIAL, named_hosts
from iodyno.core.outcome import OF_BYSTANDER, OF_MEMBER, OF_SEVERAL
from iodyno.loads.base.kinds import part


class Load:
    """Answers of a load between hosts. `rate`: the outcome that is its rate: what it delivers, or does. `first_role`: the role of
    the host that is told of as the sender. `others`: outcomes that it has by another name. `answered`: its clients wait for
    answers on connections that stay, so that more of them meet a wall. `felt`: outcomes that its users feel.
    """

    rate = "goodput_bits_per_s"
    first_role = "send"

    def __init__(
        self, others: Collection[str] = (), *, answered: bool = False, felt: Sequence[str] = ()
    ) -> None:
        self.others = others
        self.answered = answered
        self.felt = felt

    def known(
        self,
        hosts: Sequence[str],
        bystanders: Mapping[str, Mapping[str, Any]],
        groups: Mapping[str, Sequence[str]],
    ) -> list[str]:
        """Return the outcomes that trials of the load can have. `groups`: hosts of an end that has several, by its name."""
        of_hosts = (f"{host}.{name}" for host in named_hosts(hosts, groups) for name in OF_HOST)
        of_members = (
            f"{host}.{name}"
            for host in named_hosts((), groups)
            for name in OF_MEMBER
            if name not in self.others
        )
        of_bystanders = (
            f"{beside}.{name}"
            for beside, workload in bystanders.items()
            for name in OF_BYSTANDER
            if name not in load_of(workload).others
        )
        of_trial = (name for name in (*OF_TRIAL, *OF_ALL_HOSTS) if name not in self.others)
        return [*of_trial, *(OF_SEVERAL if groups else ()), *of_hosts, *of_members, *of_bystanders]

    def usual(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the outcomes that are shown where an experiment names none."""
        return (self.rate, *(f"{host}.cycles_per_kib" for host in hosts))


def load_of(workload: Mapping[str, Any] | None) -> Load:
    """Return the load of a workload as it is stored."""
    found: Load = part(str((workload or {}).get("kind")), "analysis")
    return found
