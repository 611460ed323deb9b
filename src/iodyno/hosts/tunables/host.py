"""The tunables of one host, turned for one trial after the other."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from iodyno.core.errors import AccessError
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level
from iodyno.hosts.guard import Guard, GuardLostError, Look, RefusedError, Seen
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.tunable import Place, State, first_json, parameter

_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_DISK = re.compile(r"[A-Za-z0-9_.!-]{1,64}")
_BLOCK = "/sys/class/block"
_CARRIER_TIMEOUT_S = 15.0
"""Time that a link may take to come up again after a tunable (chosen: adapters negotiate for some seconds)."""


@dataclass(frozen=True)
class Setting:
    """A tunable of a trial: what was asked, what was there before and what was obtained; `why`: why it differs.

    `restored`: what is there after the trial; None: not read yet.
    """

    asked: Level
    before: Level | None
    obtained: Level | None
    device: str | None
    why: str | None = None
    restored: Level | None = None

    @property
    def differs(self) -> bool:
        """True where something else was obtained than asked."""
        return self.obtained != self.asked

    def as_json(self) -> dict[str, Level | None]:
        """As the manifest holds it."""
        return asdict(self)


class HostTunables:
    """Reads, sets and restores the tunables of one host through its guard.

    `peer`: address by which the device is found that carries the data; None: `device` says it. `disks`: names of the disks, or
    parts of one, under the host's targets, as they are when a tunable is read.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        cpus: Iterable[int] = (),
        peer: str | None = None,
        device: str | None = None,
        disks: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.guard = guard
        self._cpus = tuple(cpus)
        self._peer = peer
        self._device = device
        self._disks = disks
        self._set: dict[str, tuple[State, Setting]] = {}
        self._place: Place | None = None
        """Place at which tunables are set."""

    async def place(self, names: Iterable[str] = TURNED) -> Place:
        """Device, CPUs and disks as they are now. Raises AccessError when no device leads to the other host and one of these
        tunables is of a device.
        """
        route: Look = {"run": ["ip", "-j", "route", "get", self._peer or "192.0.2.1"]}
        cpus: Look = {"file": "/sys/devices/system/cpu/online"}
        disks = [disk for disk in self._disks() if _DISK.fullmatch(disk)]
        files: list[Look] = [
            {"file": f"{_BLOCK}/{disk}/{file}"} for disk in disks for file in ("dev", "partition")
        ]
        found, online, *about = await self.guard.look([route, cpus, *files])
        queues = []
        for disk, there, partition in zip(disks, about[::2], about[1::2], strict=True):
            if there.error:
                where, advice = f"host {self.guard.name}", "`lsblk` shows the disks of a host"
                raise AccessError(f"there is no disk {disk}", where=where, advice=advice)
            queues.append(f"{_BLOCK}/{disk}/queue" if partition.error else f"{_BLOCK}/{disk}/../queue")
        device = self._device or str(first_json(found).get("dev", ""))
        if any(TURNED[name].scope == "device" for name in names):
            await self._there(device, found.error or "no route")
        machine_cpus = _listed(online.text or "")
        return Place(
            device, self._cpus, machine_cpus, self.guard.initial_namespace, tuple(dict.fromkeys(queues))
        )

    async def _there(self, device: str, why: str) -> None:
        """Raises AccessError where there is no such device."""
        if not _DEVICE.fullmatch(device):
            raise AccessError(
                f"it is not known which device carries its data: {why}",
                where=f"host {self.guard.name}",
                advice="name it (`iodyno tunables --device`), or give the host an address that the other one has a way to",
            )
        (there,) = await self.guard.look([{"file": f"/sys/class/net/{device}/ifindex"}])
        if there.error:
            where, advice = f"host {self.guard.name}", "`ip link` shows the devices of a host"
            raise AccessError(f"there is no device {device}", where=where, advice=advice)

    async def read(self, names: Iterable[str], place: Place | None = None) -> dict[str, State]:
        """Read the state of these tunables. Raises GuardLostError."""
        names = list(names)
        place = place or await self.place(names)
        looks: dict[str, Look] = {}
        wanted = {name: TURNED[name].looks(place) for name in names}
        for look in (look for these in wanted.values() for look in these):
            looks[json.dumps(look)] = look
        seen = dict(zip(looks, await self.guard.look(list(looks.values())), strict=True))
        return {
            name: _state(name, place, [seen[json.dumps(look)] for look in these])
            for name, these in wanted.items()
        }

    async def set(self, asked: Mapping[str, Level]) -> dict[str, Setting]:
        """Sets the tunables, reads them back; what has its level already is left alone. Raises GuardLostError.

        A tunable that cannot be set, or not to this level, is in what is returned, with the reason.
        """
        names = [name for name in TURNED if name in asked]
        place = replace(await self.place(names), mount=str(asked.get("mount", "")))
        was_up = await self._has_carrier(place)
        before = await self.read(names, place)
        why: dict[str, str | None] = dict.fromkeys(names)
        turned = False
        for name in names:
            # A link that comes up again agrees with its other end anew, which would undo what is set meanwhile (`flow_control`).
            if turned and was_up and TURNED[name].scope == "device":
                await self._carrier(place)
            # Read anew: a tunable before this one may have changed what there is to be set, as `queues` does.
            now = (await self.read([name], place))[name] if turned else before[name]
            why[name] = refused(name, now, asked[name])
            if why[name] is None and now.level != asked[name]:
                why[name] = await self._turn(name, place, now, asked[name])
                turned = True
        try:
            if was_up and any(TURNED[name].scope == "device" for name in names):
                await self._carrier(place)
            after = await self.read(names, place)
        except GuardLostError as error:
            # It answered until these were set.
            error.tunable = ", ".join(names) if turned else ""
            raise
        for name in names:
            if why[name] is None and after[name].level != asked[name]:
                # As `ethtool -N`, which ends with success where a driver refuses.
                why[name] = f"the host says of no error, and is at {shown(name, after[name].level)}"
        settings = {
            name: Setting(
                asked[name], before[name].level, after[name].level, _device_of(name, place), why[name]
            )
            for name in names
        }
        self._set = {name: (before[name], setting) for name, setting in settings.items()}
        self._place = place
        return settings

    async def check(self) -> list[str]:
        """List, in words, what is not any more as it was obtained. Raises GuardLostError."""
        now = await self.read(self._set, self._place)
        return [
            f"{name} was {shown(name, setting.obtained)} and is {shown(name, now[name].level)}"
            for name, (_, setting) in self._set.items()
            if now[name].level != setting.obtained
        ]

    async def restore(self) -> tuple[dict[str, Setting], list[str]]:
        """Brings back what was changed; gives the settings with what is there now, and what went wrong, in words.

        Raises GuardLostError.
        """
        was_up = self._place is not None and await self._has_carrier(self._place)
        answer = await self.guard.restore()
        if was_up and self._place and any(setting.device for _, setting in self._set.values()):
            await self._carrier(self._place)
        wrong = [f"cannot be restored: {text}" for text in answer["failed"]]
        now = await self.read(self._set, self._place)
        settings = {}
        for name, (before, setting) in self._set.items():
            settings[name] = Setting(**asdict(setting) | {"restored": now[name].level})
            if now[name].level != before.level:
                wrong.append(
                    f"{name} was {shown(name, before.level)} and is now {shown(name, now[name].level)}"
                )
        self._set = {}
        return settings, wrong

    async def _turn(self, name: str, place: Place, before: State, level: Level) -> str | None:
        """Why it could not be set; None: it was taken."""
        tunable = TURNED[name]
        try:
            steps = tunable.steps(place, before, level)
            undo = tunable.undo(place, before)
        except ValueError as problem:
            return str(problem)
        try:
            await self.guard.set(name, _device_of(name, place), undo, steps)
        except RefusedError as problem:
            # A way back that is not needed might be refused as well, and would then be tried for ever.
            if (await self.read([name], place))[name].level == before.level:
                await self.guard.forget()
            return str(problem)
        return None

    async def _carrier(self, place: Place) -> None:
        """Waits until the link is up again, where it was taken down."""
        until = asyncio.get_running_loop().time() + _CARRIER_TIMEOUT_S
        while not await self._has_carrier(place) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.1)

    async def _has_carrier(self, place: Place) -> bool:
        (seen,) = await self.guard.look([{"file": f"{place.sysfs}/carrier"}])
        return (seen.text or "").strip() == "1"


def refused(name: str, state: State, level: Level) -> str | None:
    """Why the host cannot have this level, as far as that can be told beforehand; None: it may be tried."""
    if state.unsupported is not None:
        return state.unsupported
    if isinstance(level, int) and not isinstance(level, bool):
        low, high = state.low, state.high
        if (low is not None and level < low) or (high is not None and level > high):
            least = shown(name, low) if low is not None else "any"
            most = shown(name, high) if high is not None else "any"
            return invalid(shown(name, level), f"{least} to {most} on this host")
    return None


def shown(name: str, level: Level | None) -> str:
    """A level as people write it."""
    return "unknown" if level is None else parameter(TURNED[name]).show(level)


def _state(name: str, place: Place, seen: list[Seen]) -> State:
    try:
        return TURNED[name].state(place, seen)
    except (ValueError, KeyError, IndexError, TypeError) as problem:
        return State(unsupported=f"what the host says of it is not understood: {problem!r}")


def _device_of(name: str, place: Place) -> str | None:
    return place.device if TURNED[name].scope == "device" else None


def _listed(text: str) -> tuple[int, ...]:
    """The CPUs of a list such as `0-3,8`."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)
