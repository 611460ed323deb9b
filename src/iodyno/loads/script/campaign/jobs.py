"""A trial whose load is a script: its variables bound, its threads counted, each end's part of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iodyno.campaign.testbed import Testbed
from iodyno.core.experiment import Experiment, WorkloadSpec
from iodyno.core.tunable import named
from iodyno.core.workload import STREAM, Level
from iodyno.loads.script.core.parameters import WORKLOAD
from iodyno.loads.script.core.wire import script_json, threads_of


def load_settings(experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, Level]:
    """Return the settings of the load beside its script: the threads are its connections, and the variables, whose names may
    be those of anything, are in the script already; tunables stay.
    """
    script = experiment.workload.script
    assert script is not None
    own = {p.name for p in WORKLOAD.parameters}
    kept = {name: level for name, level in settings.items() if name in own or named(name)}
    return {**kept, "connections": threads_of(script.bound(settings))}


def script_of(experiment: Experiment, role: str, settings: Mapping[str, Level], host: str) -> dict[str, Any]:
    """Return the load of this host, with this role."""
    script, receivers = experiment.workload.script, experiment.workload.receivers
    assert script is not None
    return script_json(script.bound(settings), role, receivers, host)


def with_stream(testbed: Testbed, receiver: str | None = None) -> Testbed:
    """The testbed with a stream for its load, to test the way between the sender and a receiving host with."""
    spec = testbed.experiment.workload
    tested = copy.copy(testbed)
    tested.experiment = replace(
        testbed.experiment, workload=WorkloadSpec(STREAM.name, spec.senders, (receiver or spec.receiver,))
    )
    return tested
