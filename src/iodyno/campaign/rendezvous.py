"""Meeting places of the two ends of a trial, beside addresses with a port: Unix sockets and vsock.

An abstract name of the Unix domain belongs to a network namespace; a socket that is a file is found from every
namespace that sees the file. So hosts in one namespace of this machine meet at a name, which leaves nothing behind,
and hosts in two of them at a file in a folder of the trial.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import PreflightError
from iodyno.core.workload import Level

BY_NAME = "@"
"""The agents derive the name from the trial's token."""

ADVICE = "give both hosts access: local or netns, or a path of this machine (loopback, zone), or take tcp"

THIS_MACHINE = "1:0"
"""vsock: the number of the machine itself (VMADDR_CID_LOCAL), and a port that the receiver chooses."""


@contextlib.contextmanager
def places(testbed: Testbed, settings: Mapping[str, Level]) -> Iterator[Mapping[str, str]]:
    """Provide the place at which each receiver is to listen, while the body runs; none: at an address of its own with a port.

    Raises PreflightError where hosts have nothing in common to meet at.
    """
    transport, receivers = str(settings.get("transport", "tcp")), testbed.experiment.workload.receivers
    if why := refused(testbed, transport):
        raise PreflightError(why, where="transport", advice=ADVICE)
    if transport == "unix" and (len(set(_namespaces(testbed))) > 1 or len(receivers) > 1):
        with tempfile.TemporaryDirectory(prefix="iodyno-unix-") as folder:
            yield {receiver: str(Path(folder) / receiver) for receiver in receivers}
    else:
        place = {"unix": BY_NAME, "vsock": THIS_MACHINE}.get(transport)
        yield dict.fromkeys(receivers, place) if place is not None else {}


def refused(testbed: Testbed, transport: str) -> str | None:
    """Why the hosts cannot meet over the transport; None: they may."""
    workload = testbed.experiment.workload
    ends, names = (
        _namespaces(testbed),
        " and ".join(_named(end) for end in (workload.senders, workload.receivers)),
    )
    if transport == "unix" and None in ends and not (set(ends) == {None} and _one_machine(testbed)):
        return f"the hosts {names} are not seen to share a kernel and its files, and so cannot share a Unix socket"
    if transport != "vsock":
        return None
    if not _one_machine(testbed):
        return f"the hosts {names} run on two kernels, and vsock is made within one machine only"
    for host in workload.ends:
        for capability in testbed.sessions[host].hello["capabilities"]:
            if capability["name"] == "transport.vsock" and not capability["available"]:
                return f"host {host}: {capability['reason'] or 'the kernel has no vsock'}"
    return None


def _named(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} to {hosts[-1]}"


def _namespaces(testbed: Testbed) -> list[str | None]:
    ends = testbed.experiment.workload.ends
    return [testbed.hosts.accesses[host].reached.namespace for host in ends]


def of_sender(listens_at: str, port: int) -> str:
    """The address that the sender connects to, given that of the receiver and the port that it chose."""
    context, colon, _ = listens_at.partition(":")
    return f"{context}:{port}" if colon and not listens_at.startswith("/") else listens_at


def _one_machine(testbed: Testbed) -> bool:
    """Tell whether one kernel runs all ends: hosts with one boot id are one machine."""
    ends = testbed.experiment.workload.ends
    boots = {testbed.sessions[host].hello["host"]["boot_id"] for host in ends}
    return len(boots) == 1 and None not in boots
