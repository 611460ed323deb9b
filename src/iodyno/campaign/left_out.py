"""Experiments without some of their hosts: of many that do the same, one that cannot be had costs its own numbers alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from iodyno.core.experiment import Experiment, WorkloadSpec
from iodyno.core.tunable import ALL

ONE_OF = 10
"""Chosen: a load of 90 % of the hosts that were asked for is still that load; of fewer it is another one."""


def may_go(experiment: Experiment, gone: Collection[str]) -> bool:
    """Tell whether the experiment can be had without these hosts: of each group a tenth, of those that nothing else names."""
    workload = experiment.workload
    if workload.between == "pairs":
        return False
    beside = {host for bystander in experiment.bystanders.values() for host in bystander.ends}
    settings = [
        *experiment.tunables,
        *(name for factor in experiment.factors for name in (factor.name, *factor.together)),
        *experiment.outcomes,
    ]
    named = {name.partition(".")[0] for name in settings}
    if ALL in named or set(gone) & (beside | named):
        return False
    for group in workload.groups.values():
        if ONE_OF * len(set(group) & set(gone)) > len(group):
            return False
    return set(gone) <= {host for group in workload.groups.values() for host in group}


def without(experiment: Experiment, gone: Collection[str]) -> Experiment:
    """The experiment with the hosts that are left."""
    workload = experiment.workload

    def left(hosts: Collection[str]) -> tuple[str, ...]:
        return tuple(host for host in hosts if host not in gone)

    spec: WorkloadSpec = replace(
        workload,
        senders=left(workload.senders),
        receivers=left(workload.receivers),
        groups={name: left(hosts) for name, hosts in workload.groups.items()},
    )
    hosts = {name: host for name, host in experiment.hosts.items() if name not in gone}
    return replace(experiment, hosts=hosts, workload=spec)
