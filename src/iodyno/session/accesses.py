"""Opening of the hosts of an experiment, by the word of their access.

What an access may be told is in `iodyno.core.access`. The openers stand here and not in `iodyno.hosts`, because
two of them need more than that layer may know: `netns` needs a path between its hosts, `simulated` the wire. To
add an access: its entry in `iodyno.core.access`, a file in `iodyno.hosts`, a line in `OPENERS`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_interface
from typing import Any

from iodyno.core.access import ACCESSES, HOST_NAME
from iodyno.core.errors import AccessError, ExperimentError
from iodyno.core.experiment import HostSpec
from iodyno.core.warnings import Warning, WarningCode, shared_cpus
from iodyno.core.workload import Level
from iodyno.hosts.access import LAB_CPUS, Access
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.netns import NamespaceAccess
from iodyno.paths import shaping, veth
from iodyno.paths.loopback import LoopbackPath
from iodyno.paths.tap import TapPath
from iodyno.paths.unlinked import UnlinkedPath

Cpus = Mapping[str, Sequence[int]]


@dataclass
class OpenHosts:
    """The hosts of an experiment, reached; `close` undoes whatever was made for them.

    `observers`: for hosts that cannot see their own CPUs, a place on the machine outside that does. `links`: the hosts that need
    a way for data between them, two by two. `fallback`: why hosts that were to have namespaces share the machine's own.
    """

    accesses: dict[str, Access] = field(default_factory=dict)
    observers: dict[str, Access] = field(default_factory=dict)
    paths: list[veth.NamespacePath] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    links: Sequence[tuple[str, str]] = ()
    fallback: str = ""

    async def close(self) -> None:
        """Removes everything; also when one of them cannot be removed."""
        try:
            for access in (*self.accesses.values(), *self.observers.values()):
                await access.close()
        finally:
            for path in self.paths:
                path.remove()
            for path in self.paths:
                await path.ended()

    @contextlib.asynccontextmanager
    async def shaped(
        self, settings: Mapping[str, Level], sender: str, receiver: str
    ) -> AsyncIterator[dict[str, Any] | None]:
        """Shapes the path as the settings ask while the body runs; gives what was asked and obtained, completed with
        what the path counted when the body has ended. None: nothing is asked or counted. Raises AccessError.
        """
        asked = shaping.shape_of(settings)
        facts: dict[str, Any] | None = None
        async with contextlib.AsyncExitStack() as stack:
            if asked is not None:
                if not self.may_be_shaped:
                    raise AccessError(shaping.NO_PATH, where="the path", advice=shaping.ADVICE)
                shaped = shaping.shaped(self.paths[0], sender, receiver, asked)
                facts = await stack.enter_async_context(shaped)
            for path in self.paths:
                if isinstance(path, TapPath):
                    facts = {} if facts is None else facts
                    await stack.enter_async_context(path.counted(facts))
            yield facts

    async def missing_device(self) -> str | None:
        """A device that the lab made between the hosts and that is not there any more, in words."""
        for path in self.paths:
            for name, end in path.ends.items():
                if await veth.is_gone(end):
                    return f"the device {end.device} of host {name} is gone"
        return None

    @property
    def may_be_shaped(self) -> bool:
        """True where there is a path whose rate, queue and delay the lab can set."""
        from iodyno.paths.mesh import MeshPath

        return any(not isinstance(path, (LoopbackPath, MeshPath)) for path in self.paths)

    def data_address(self, of: str, seen_from: str) -> str | None:
        """Return the address at which `seen_from` reaches `of` with data: what is said, else what is found from inside."""
        reached, other = self.accesses[of].reached, self.accesses[seen_from].reached
        if reached.address == "127.0.0.1" and other.lab_address:
            return other.lab_address
        from_elsewhere = reached.address == "127.0.0.1" and other.namespace is None
        if reached.address is None or from_elsewhere:
            return nearest(reached.addresses, other.addresses) or reached.address or "127.0.0.1"
        return reached.address


def nearest(addresses: Sequence[str], seen_from: Sequence[str]) -> str | None:
    """The address of a host that another one reaches: of a network that both are in, else the first of version 4.

    >>> nearest(["192.0.2.7/24", "10.88.0.7/16"], ["10.88.0.5/16"])
    '10.88.0.7'
    """
    own = sorted(map(ip_interface, addresses), key=lambda each: each.version)
    others = [ip_interface(each).network for each in seen_from]
    shared = [each for each in own if each.network in others]
    return str((shared or own)[0].ip) if own else None


Opener = Callable[[OpenHosts, Sequence[HostSpec], Cpus], Awaitable[None]]


"""Opens the hosts of one access, given the CPUs of each host that is on this machine."""


async def _open_local(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    for spec in specs:
        access = LocalAccess(spec.name, cpus[spec.name])
        access.reached.address = spec.address or "127.0.0.1"
        if len(specs) > 1 and hosts.links:
            access.reached.path = {"kind": "loopback", "receive_processing": "the sender's CPU"}
        hosts.accesses[spec.name] = access
    if len(specs) > 1 and hosts.links:
        hosts.warnings.append(
            Warning(
                WarningCode.RECEIVE_ON_SENDER,
                "over the loopback device the kernel does the receiver's protocol work on the sender's CPU, and charges"
                " it there: what each host costs alone cannot be told, only the sum of both",
                ", ".join(f"host {spec.name}" for spec in specs),
            )
        )


async def _open_netns(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    from iodyno.paths.mesh import MOST_HOSTS, MOST_LINKS, MeshPath

    if not hosts.links:
        await _open_unlinked(hosts, specs, cpus)
        return
    names = [spec.name for spec in specs]
    links = [link for link in hosts.links if set(link) <= set(names)]
    if len(links) < len(hosts.links):
        raise ExperimentError(
            f"access netns joins hosts in namespaces with each other, found {', '.join(names)}",
            where="hosts",
            advice="give all hosts access: netns, or another access to all",
        )
    if len(names) > MOST_HOSTS or len(links) > MOST_LINKS:
        raise ExperimentError(
            f"{len(names)} hosts in namespaces need {len(links)} pairs of devices; there can be {MOST_HOSTS} and {MOST_LINKS}",
            where="hosts",
            advice="use fewer hosts, or `between: pairs`",
        )
    if refused := veth.may_make_namespaces():
        hosts.fallback = refused
        await _open_local(hosts, specs, cpus)
        hosts.warnings.append(
            Warning(
                WarningCode.LOOPBACK_FALLBACK,
                f"no namespaces: {refused}; the data goes over the loopback device instead. That changes:"
                " no Ethernet device and its segment sizes (the loopback takes 64 KiB at a time), the receiver's protocol"
                " work runs on the sender's CPU, the counters of devices and of TCP are those of the whole machine",
                ", ".join(f"host {spec.name}" for spec in specs),
            )
        )
        return
    mtu = min((int(spec.options["link_mtu"]) for spec in specs if "link_mtu" in spec.options), default=None)
    addresses = max((int(spec.options.get("addresses", 1)) for spec in specs), default=1)
    own = {spec.name: cpus[spec.name] for spec in specs}
    path: veth.NamespacePath
    if len(specs) > 2:
        path = await MeshPath.make(own, links, mtu)
    else:
        path = await veth.VethPath.make(own, mtu, addresses=addresses)
    hosts.paths.append(path)
    for spec in specs:
        end = path.ends[spec.name]
        access = NamespaceAccess(spec.name, end.namespace, spec.address or end.address, cpus[spec.name])
        access.reached.path = end.facts()
        hosts.accesses[spec.name] = access
        if not end.steered:
            hosts.warnings.append(
                Warning(
                    WarningCode.RECEIVE_ON_SENDER,
                    "the kernel did not take the asked CPUs for receiving: the receiver's protocol work runs on the"
                    " sender's CPU, and is charged there",
                    f"host {spec.name}",
                )
            )


async def _open_unlinked(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    """Namespaces with nothing between them; without root the machine as it is, which is the same to a disk."""
    if refused := veth.may_make_namespaces():
        hosts.fallback = refused
        await _open_local(hosts, specs, cpus)
        return
    path = await UnlinkedPath.make(spec.name for spec in specs)
    hosts.paths.append(path)
    for spec in specs:
        end = path.ends[spec.name]
        access = NamespaceAccess(spec.name, end.namespace, spec.address or end.address, cpus[spec.name])
        access.reached.path = {"kind": end.kind, "namespace": end.namespace}
        hosts.accesses[spec.name] = access


async def _open_ssh(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    from iodyno.hosts.ssh import SshAccess

    for spec in specs:
        hosts.accesses[spec.name] = SshAccess(spec.name, spec.options, spec.address, spec.cpus)


async def _open_exec(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    """What the file names runs on the lab's machine: who brings the file does not decide that alone."""
    from iodyno.hosts.exec import ExecAccess

    for spec in specs:
        command = [word.replace(HOST_NAME, spec.name) for word in spec.options["command"]]
        refuse_program(command[0], f"host {spec.name}", "its access")
        hosts.accesses[spec.name] = ExecAccess(spec.name, command, spec.options, spec.address, spec.cpus)


def refuse_program(program: str, where: str, what: str) -> None:
    """Raises AccessError where `what` the experiment file says runs a program that the user has not allowed."""
    allowed = [name for name in os.environ.get(ALLOWED, "").split(",") if name]
    if program not in allowed:
        raise AccessError(
            f"{what} runs `{program}` on this machine, and the experiment file may be somebody else's",
            where=where,
            advice=f"read its `command`, then set {ALLOWED}={','.join([*allowed, program])}",
        )


async def _open_engine(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    """Hosts of an engine that the table of accesses has the command of."""
    from iodyno.hosts.exec import ExecAccess

    for spec in await _found(specs):
        command = ACCESSES[spec.access].words(spec.name, spec.options)
        hosts.accesses[spec.name] = ExecAccess(spec.name, command, spec.options, spec.address, spec.cpus)


async def _found(specs: Sequence[HostSpec]) -> list[HostSpec]:
    """The hosts, those of a selector with the pods that it finds."""
    from iodyno.hosts import pods

    found = [spec for spec in specs if "selector" not in spec.options]
    same: dict[tuple[object, ...], list[HostSpec]] = {}
    for spec in specs:
        if "selector" in spec.options:
            key = tuple(spec.options.get(name) for name in ("selector", "namespace", "context"))
            same.setdefault(key, []).append(spec)
    for alike in same.values():
        names = await pods.running(alike[0].options, len(alike), f"host {alike[0].name}")
        found += [
            replace(spec, options={**spec.options, "pod": name})
            for spec, name in zip(alike, names, strict=True)
        ]
    return found


async def _open_simulated(hosts: OpenHosts, specs: Sequence[HostSpec], cpus: Cpus) -> None:
    from iodyno.session.simulated import SimulatedAccess

    for spec in specs:
        hosts.accesses[spec.name] = SimulatedAccess(spec.name, spec.options.get("truth"), spec.cpus)


OPENERS: Mapping[str, Opener] = {
    "local": _open_local,
    "netns": _open_netns,
    "ssh": _open_ssh,
    "exec": _open_exec,
    **{name: _open_engine for name, kind in ACCESSES.items() if kind.command},
    "simulated": _open_simulated,
}
"""Openers of the hosts of an access, by its word in an experiment file."""

_ON_THIS_MACHINE = ("local", "netns")
ALLOWED = "IODYNO_EXEC"
"""Variable of the environment with the programs that a command of an experiment file may run, separated by commas."""


async def open_hosts(
    specs: Mapping[str, HostSpec],
    links: Sequence[tuple[str, str]] = (),
    ends: Sequence[Sequence[str]] = (),
) -> OpenHosts:
    """Opens every host of an experiment, with a way for data between those that `links` names two by two. `ends`: several hosts
    that do the same in a load. Raises AccessError and ExperimentError.
    """
    here = [spec for spec in specs.values() if spec.access in _ON_THIS_MACHINE]
    cpus, shared = divide_cpus(sorted(LAB_CPUS), {spec.name: spec.cpus for spec in here}, ends)
    hosts = OpenHosts(links=links)
    if shared:
        hosts.warnings.append(shared_cpus(shared, cpus))
    try:
        for access, opener in OPENERS.items():
            if reached_so := [spec for spec in specs.values() if spec.access == access]:
                await opener(hosts, reached_so, cpus)
    except BaseException:
        await hosts.close()
        raise
    hosts.accesses = {name: hosts.accesses[name] for name in specs}
    return hosts


def divide_cpus(
    allowed: Sequence[int], asked: Cpus, ends: Sequence[Sequence[str]] = ()
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """CPUs of each host on one machine, and the hosts that share theirs with another one.

    A host keeps the CPUs that it asked for; the others divide what is left in equal, adjoining parts. Of `ends` with several
    hosts each end has a part, which its hosts divide, or share where they are too many: as they do the same, what they cost
    is told of all of them together.

    >>> divide_cpus([0, 1], {"a-1": (), "a-2": (), "b": ()}, [("a-1", "a-2"), ("b",)])
    ({'a-1': (0,), 'a-2': (0,), 'b': (1,)}, [])
    """
    free = [cpu for cpu in allowed if not any(cpu in own for own in asked.values())]
    cpus = {name: tuple(own) for name, own in asked.items()}
    open_ones = [name for name, own in asked.items() if not own]
    end_of = {name: tuple(end) for end in ends for name in end}
    parties = list(dict.fromkeys(end_of.get(name, (name,)) for name in open_ones))
    for party, part in _divided(free, parties):
        for (name,), own in _divided(part, [(name,) for name in party if name in open_ones]):
            cpus[name] = tuple(own or allowed)
    same = [set(end) for end in ends]
    shared = [
        name
        for name, own in cpus.items()
        if any(
            set(own) & set(others)
            for other, others in cpus.items()
            if other != name
            and not (tuple(own) == tuple(others) and any({name, other} <= end for end in same))
        )
    ]
    return cpus, shared


def _divided(
    cpus: Sequence[int], among: Sequence[tuple[str, ...]]
) -> list[tuple[tuple[str, ...], Sequence[int]]]:
    """A part of the CPUs for each; all of them where they are too few."""
    part = len(cpus) // len(among) if among else 0
    if not part:
        return [(each, cpus) for each in among]
    return [(each, cpus[number * part : (number + 1) * part]) for number, each in enumerate(among)]
