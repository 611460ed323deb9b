"""Opening of the hosts of an experiment at a level of `path`, by its word.

A level needs other hosts than the next one: a namespace more, a process between them, a kernel of its own. So it is
opened as hosts are, and has its own agents. What the levels are is in `iodyno.core.path`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from iodyno.core.errors import AccessError, ExperimentError
from iodyno.core.experiment import HostSpec
from iodyno.core.path import PATHS
from iodyno.core.warnings import Warning, WarningCode, shared_cpus
from iodyno.hosts import guest, sandbox
from iodyno.hosts.access import LAB_CPUS, Access
from iodyno.hosts.guest import GuestAccess, GuestLink
from iodyno.hosts.netns import NamespaceAccess
from iodyno.hosts.sandbox import SandboxAccess
from iodyno.paths import tap, veth
from iodyno.paths.guest import GuestPath, GuestsPath
from iodyno.paths.loopback import LoopbackPath
from iodyno.paths.tap import TapPath
from iodyno.paths.veth import NamespacePath, VethPath
from iodyno.session.accesses import Cpus, OpenHosts, divide_cpus

_HERE = ("local", "netns")


@dataclass(frozen=True)
class Asked:
    """Request for a level: the two hosts with their CPUs, and the program of the agent."""

    sender: str
    receiver: str
    cpus: Cpus
    program: Path
    mtu: int | None
    addresses: int
    tag: str


def unavailable(level: str) -> str | None:
    """Why this machine cannot have the level; None: it may."""
    if refused := veth.may_make_namespaces():
        return refused
    why: Callable[[], str | None] | None = _NEEDS.get(level)
    return why() if why else None


async def open_path(
    level: str, specs: Mapping[str, HostSpec], sender: str, receiver: str, program: Path
) -> OpenHosts:
    """Opens both hosts with the level between them. Raises AccessError and ExperimentError."""
    if elsewhere := [spec.name for spec in specs.values() if spec.access not in _HERE]:
        raise ExperimentError(
            f"path is made on iodyno's machine, but host {elsewhere[0]} is reached by {specs[elsewhere[0]].access}",
            where=f"hosts.{elsewhere[0]}",
            advice="give both hosts access: netns, or leave path out",
        )
    if why := unavailable(level):
        raise AccessError(why, where=f"path {level}", advice="leave the level out, or install what it needs")
    cpus, shared = divide_cpus(sorted(LAB_CPUS), {spec.name: spec.cpus for spec in specs.values()})
    options = [spec.options for spec in specs.values()]
    asked = Asked(
        sender,
        receiver,
        {name: cpus[name] for name in (sender, receiver)},
        program,
        min((int(found["link_mtu"]) for found in options if "link_mtu" in found), default=None),
        max((int(found.get("addresses", 1)) for found in options), default=1),
        f"{list(PATHS).index(level)}-",
    )
    hosts = OpenHosts()
    if shared:
        hosts.warnings.append(shared_cpus(shared, cpus))
    try:
        await _OPENERS[level](hosts, asked)
    except BaseException:
        await hosts.close()
        raise
    return hosts


async def _loopback(hosts: OpenHosts, asked: Asked) -> None:
    path = await LoopbackPath.make((asked.sender, asked.receiver), asked.mtu, tag=asked.tag)
    _add_namespaces(hosts, asked, path)


async def _zone(hosts: OpenHosts, asked: Asked) -> None:
    path = await VethPath.make(asked.cpus, asked.mtu, tag=asked.tag, addresses=asked.addresses)
    _add_namespaces(hosts, asked, path)


async def _relay(hosts: OpenHosts, asked: Asked, *, offload: bool) -> None:
    path = await TapPath.make(asked.program, asked.cpus, asked.mtu, offload=offload, tag=asked.tag)
    _add_namespaces(hosts, asked, path)


async def _sandbox(hosts: OpenHosts, asked: Asked, *, both: bool) -> None:
    runsc = sandbox.find_runsc()
    assert runsc is not None, "unavailable() has looked"
    path = await VethPath.make(asked.cpus, asked.mtu, tag=asked.tag)
    _add_namespaces(hosts, asked, path)
    for name in (asked.sender, asked.receiver) if both else (asked.receiver,):
        end = path.ends[name]
        give = partial(veth.bring_up, end, asked.mtu)
        access = SandboxAccess(name, end.namespace, end.address, asked.cpus[name], runsc, give)
        access.reached.path = end.facts() | {"kind": "sandbox", "runsc": str(runsc), "cpus": list(end.cpus)}
        _put_inside(hosts, name, access)


async def _guest(hosts: OpenHosts, asked: Asked, *, both: bool) -> None:
    make = GuestsPath.make if both else GuestPath.make
    path = await make(asked.cpus, asked.mtu, tag=asked.tag)
    _add_namespaces(hosts, asked, path)
    for name in (asked.sender, asked.receiver) if both else (asked.receiver,):
        end, cpus = path.ends[name], asked.cpus[name]
        link = GuestLink(end.namespace, path.taps[name], path.addresses[name], tuple(cpus), asked.mtu)
        access = GuestAccess(name, link)
        access.reached.path = end.facts() | {"kind": "guest", "accelerator": "tcg", "cpus": list(cpus)}
        _put_inside(hosts, name, access)


def _put_inside(hosts: OpenHosts, name: str, access: Access) -> None:
    """Has a host reached by `access`, and seen from outside by what reached it."""
    hosts.observers[name] = hosts.accesses[name]
    hosts.accesses[name] = access


def _add_namespaces(hosts: OpenHosts, asked: Asked, path: NamespacePath) -> None:
    """Both hosts in the namespaces of the path."""
    hosts.paths.append(path)
    for name, cpus in asked.cpus.items():
        end = path.ends[name]
        access = NamespaceAccess(name, end.namespace, end.address, cpus)
        access.reached.path = end.facts()
        hosts.accesses[name] = access
    if not all(end.steered for end in path.ends.values()):
        hosts.warnings.append(
            Warning(
                WarningCode.RECEIVE_ON_SENDER,
                "the kernel does the receiver's protocol work on the sender's CPU, and charges it there: what each host"
                " costs alone cannot be told, only the sum of both",
                f"path {next(iter(path.ends.values())).kind}",
            )
        )


_OPENERS: Mapping[str, Callable[[OpenHosts, Asked], Awaitable[None]]] = {
    "loopback": _loopback,
    "zone": _zone,
    "relay": partial(_relay, offload=False),
    "relay_offload": partial(_relay, offload=True),
    "sandbox": partial(_sandbox, both=False),
    "guest": partial(_guest, both=False),
    "sandboxes": partial(_sandbox, both=True),
    "guests": partial(_guest, both=True),
}
"""Openers of the hosts of a level."""

_NEEDS: Mapping[str, Callable[[], str | None]] = {
    "relay": tap.unavailable,
    "relay_offload": tap.unavailable,
    "sandbox": sandbox.unavailable,
    "guest": guest.unavailable,
    "sandboxes": sandbox.unavailable,
    "guests": guest.unavailable,
}
"""Checks of what a level needs beside namespaces: why it is not there, or None."""
