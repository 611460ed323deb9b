"""Warnings that the load's own rare events raise: copies where there was to be none, connections that could not be made,
and payload both ways that does not add up.
"""

from __future__ import annotations

from collections.abc import Iterator

from iodyno.analysis.host_data import HostData
from iodyno.analysis.trial import Trial
from iodyno.core.quantity import counted
from iodyno.core.warnings import Warning, WarningCode

COPIED_SHARE = 0.99
"""From this share of copied sends on, zero copy was zero copy by name only. chosen: the kernel copies all or hardly any
on a path: over loopback and veth, to a receiver that may be any process; otherwise where a device cannot gather."""
PORTS_SHARE = 0.01
"""From this share of attempts without a local port on, ports bound the rate. chosen: each costs a pause of about 1 ms,
several times an exchange, so that 1 % of them is some per cent of the rate."""


def check(trial: Trial) -> list[Warning]:
    """Every warning of these kinds."""
    found = [*_both_ways(trial)]
    for host in trial.hosts.values():
        found += [*_copied(host, trial), *_connects(host, trial)]
    return found


def _copied(host: HostData, trial: Trial) -> Iterator[Warning]:
    completed = host.growth("zerocopy", "zerocopy.completed")
    copied = host.growth("zerocopy", "zerocopy.copied")
    if completed and copied is not None and copied >= COPIED_SHARE * completed:
        text = f"the kernel copied {copied} of {completed} sends that were to go without a copy: over this path it must"
        yield Warning(WarningCode.OPTION_NOT_OBTAINED, text, f"{trial.name} {host.name}")


def _connects(host: HostData, trial: Trial) -> Iterator[Warning]:
    opened = host.growth("connects", "connect.opened")
    if opened is None:
        return
    where = f"{trial.name} {host.name}"
    refused = host.growth("connects", "connect.refused") or 0
    failed = host.growth("connects", "connect.failed") or 0
    if refused and host.role == "receive":
        text = f"{refused} connections that did not show the trial's token were turned away while the load was on"
        yield Warning(WarningCode.FOREIGN_CONNECTION, text, where)
        refused = 0
    if refused or failed:
        text = f"{refused} connections were refused and {failed} broke, beside {opened} that were opened"
        yield Warning(WarningCode.CONNECTIONS_LOST, text, where)
    portless = host.growth("connects", "connect.without_port") or 0
    if portless > PORTS_SHARE * opened:
        text = (
            f"{counted(portless, 'attempt')} found no local port, beside {opened} connections: ports bound the rate;"
            " widen net.ipv4.ip_local_port_range"
        )
        yield Warning(WarningCode.GENERATOR_LIMITED, text, where)


def _both_ways(trial: Trial) -> Iterator[Warning]:
    """Check that the other end sent all that an end got. Over the measured window, less may have come than was sent."""
    if trial.direction != "both" or len(trial.hosts) != 2:
        return
    for host, other in (tuple(trial.hosts.values()), tuple(trial.hosts.values())[::-1]):
        got = (host.manifest.get("result") or {}).get("bytes")
        sent = [
            value
            for reading in other.readings.get("both_ways", {}).values()
            if (value := reading.values.get(("stream.sent_bytes", ""))) is not None
        ]
        if got is not None and sent and got > sum(sent):
            text = f"{host.name} got {got} bytes, more than the {sum(sent)} that {other.name} sent"
            yield Warning(WarningCode.PHYSICS, text, trial.name)
