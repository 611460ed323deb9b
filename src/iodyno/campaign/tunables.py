"""The tunables of the hosts, turned before a trial and turned back after it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import platform
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from iodyno.core.errors import AccessError, PreflightError, TrialError
from iodyno.core.tunable import asked_of
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level
from iodyno.hosts.access import Access, AgentProgram
from iodyno.hosts.guard import Guard, GuardLostError

if TYPE_CHECKING:
    from iodyno.hosts.tunables.host import HostTunables, Setting

_LOST = "look whether something on the host ends processes; what was set is restored by the next run"


def _lost(error: GuardLostError, and_so: str = "") -> dict[str, str]:
    """Describe the loss of a guard: what, where and what to try."""
    what = f"the guard of its settings was lost{and_so}: {error}"
    where, advice = f"host {error.host}", _LOST
    if error.tunable:
        what = f"the guard of its settings was lost{and_so} when {error.tunable} was set: {error}"
        advice = f"leave out {error.tunable} or that level: it may have cut the way between iodyno and host; or {_LOST}"
    return {"what": what, "where": where, "advice": advice}


class Notes(Protocol):
    """Keeper of what was set: the account of a trial."""

    hosts: dict[str, dict[str, Any]]

    def warning(self, code: WarningCode, text: str, where: str = "") -> None:
        """Notes a warning."""


@dataclass
class _Shared:
    """Hosts with one network namespace: they have their settings in common."""

    hosts: list[str]
    tunables: HostTunables


class TestbedTunables:
    """The tunables of all hosts of a campaign. Guards are started when the first tunable is asked for, and stay.

    `peers`: by host, the address of the other end, which tells the device that carries the data; `disks`: those under its
    targets.
    """

    def __init__(
        self,
        accesses: Mapping[str, Access],
        program: AgentProgram,
        cpus: Mapping[str, tuple[int, ...]],
        peers: Mapping[str, str | None],
        disks: Callable[[str], Iterable[str]],
        owner: str,
    ) -> None:
        self._accesses, self._program, self._cpus, self._peers = accesses, program, cpus, peers
        self._disks = disks
        self._owner = f"{owner} (process {os.getpid()} on {platform.node()})"
        self._shared: list[_Shared] = []
        self.warnings: list[Warning] = []

    async def open(self) -> None:
        """Guards on all hosts, where there is none. Raises AccessError."""
        from iodyno.hosts.tunables.host import HostTunables

        if self._shared and all(shared.tunables.guard.alive for shared in self._shared):
            return
        await self.close()
        for name, guard in (await self._guards()).items():
            same = next((s for s in self._shared if s.tunables.guard.namespace == guard.namespace), None)
            if same:
                same.hosts.append(name)
                await guard.close()
                continue
            hosts = [name]
            tunables = HostTunables(
                guard,
                cpus=self._cpus[name],
                peer=self._peers[name],
                disks=functools.partial(self._disks_of, hosts),
            )
            self._shared.append(_Shared(hosts, tunables))
        for shared in self._shared:
            try:
                found = await shared.tunables.guard.claim(self._owner)
            except GuardLostError as error:
                raise AccessError(**_lost(error)) from error
            self._note_leftovers(shared.hosts[0], found)

    async def _guards(self) -> dict[str, Guard]:
        """A guard on each host. Raises AccessError."""
        started = await asyncio.gather(
            *(Guard.start(access, self._program) for access in self._accesses.values()),
            return_exceptions=True,
        )
        if failed := [error for error in started if isinstance(error, BaseException)]:
            await asyncio.gather(*(guard.close() for guard in started if isinstance(guard, Guard)))
            raise failed[0]
        guards = (guard for guard in started if isinstance(guard, Guard))
        return dict(zip(self._accesses, guards, strict=True))

    def _disks_of(self, hosts: Sequence[str]) -> list[str]:
        return [disk for host in hosts for disk in self._disks(host)]

    async def there(self, names: Iterable[str]) -> dict[str, Level]:
        """Read the levels of these tunables on the hosts that have them, named like `server.shaper_rate`. Raises AccessError."""
        await self.open()
        try:
            found = [(shared.hosts, await shared.tunables.read(names)) for shared in self._shared]
        except GuardLostError as error:
            raise AccessError(**_lost(error)) from error
        return {
            f"{host}.{name}": state.level
            for hosts, states in found
            for host in hosts
            for name, state in states.items()
            if state.unsupported is None and state.level is not None
        }

    async def close(self) -> None:
        """Ends the guards; each takes back what is still set."""
        for shared in self._shared:
            await shared.tunables.guard.close()
        self._shared = []

    async def try_out(self, points: Iterable[Mapping[str, Level]]) -> list[str]:
        """Sets what each point asks, reads it back, restores it; gives what cannot be had, in words, each once.

        Raises AccessError.
        """
        wrong: dict[str, None] = {}
        tried: list[dict[str, dict[str, Level]]] = []
        for point in points:
            asked = self.asked(point)
            if not any(asked.values()) or asked in tried:
                continue
            tried.append(asked)
            await self.open()
            try:
                for shared in self._shared:
                    host = shared.hosts[0]
                    try:
                        settings = await shared.tunables.set(_merged(shared, asked))
                    except BaseException:
                        # What it was lost at is to be told, not that it is.
                        with contextlib.suppress(GuardLostError):
                            await self._restored(shared)
                        raise
                    wrong |= dict.fromkeys(_refusals(host, settings))
                    left = (await self._restored(shared))[1]
                    wrong |= dict.fromkeys(f"host {host}: {text}" for text in left)
            except GuardLostError as error:
                raise AccessError(**_lost(error)) from error
        return list(wrong)

    def asked(self, settings: Mapping[str, Level]) -> dict[str, dict[str, Level]]:
        """By host, what a trial asks of its tunables."""
        return asked_of(settings, self._accesses)

    @contextlib.asynccontextmanager
    async def turned(self, settings: Mapping[str, Level], notes: Notes) -> AsyncIterator[None]:
        """Sets the tunables while the body runs; notes what was asked and obtained. Raises TrialError, AccessError."""
        asked = self.asked(settings)
        if not any(asked.values()):
            yield
            return
        await self.open()
        try:
            await _each(self._turn(shared, asked, notes) for shared in self._shared)
            yield
            for shared in self._shared:
                for text in await shared.tunables.check():
                    notes.warning(
                        WarningCode.TUNABLE_CHANGED, f"during the trial {text}", f"host {shared.hosts[0]}"
                    )
        except GuardLostError as error:
            raise TrialError(**_lost(error, ", and with it the settings"), code="tunables_lost") from error
        finally:
            await _each(self._restore(shared, notes) for shared in self._shared)

    async def _turn(self, shared: _Shared, asked: Mapping[str, dict[str, Level]], notes: Notes) -> None:
        settings = await shared.tunables.set(_merged(shared, asked))
        for name in shared.hosts:
            if name in notes.hosts:
                notes.hosts[name]["tunables"] = {
                    tunable: setting.as_json()
                    for tunable, setting in settings.items()
                    if tunable in asked[name]
                }
        if (
            _receives_on_sender(settings)
            and self._accesses[shared.hosts[0]].reached.path.get("kind") == "veth"
        ):
            notes.warning(
                WarningCode.RECEIVE_ON_SENDER,
                "by its tunables the host's protocol work for what it receives runs on the sender's CPU, and is charged"
                " there: what each host costs alone cannot be told, only the sum of both",
                f"host {shared.hosts[0]}",
            )
        for text in _refusals("", settings):
            notes.warning(WarningCode.TUNABLE_NOT_OBTAINED, text, f"host {shared.hosts[0]}")

    async def _restore(self, shared: _Shared, notes: Notes) -> None:
        try:
            settings, wrong = await self._restored(shared)
        except GuardLostError as error:
            # The guard may have restored, or the next one does it before anything else; but nobody has seen it.
            left = sorted(
                {
                    tunable
                    for name in shared.hosts
                    for tunable in notes.hosts.get(name, {}).get("tunables") or {}
                }
            )
            if left:
                left_to = "left to the guard on the host, or the next that starts there"
                text = f"not seen to be restored, {left_to}: {', '.join(left)} ({error})"
                notes.warning(WarningCode.TUNABLE_NOT_RESTORED, text, f"host {shared.hosts[0]}")
            return
        for name in shared.hosts:
            kept = notes.hosts.get(name, {}).get("tunables") or {}
            for tunable in kept:
                kept[tunable]["restored"] = settings[tunable].restored
        for text in wrong:
            notes.warning(WarningCode.TUNABLE_NOT_RESTORED, text, f"host {shared.hosts[0]}")

    async def _restored(self, shared: _Shared) -> tuple[dict[str, Setting], list[str]]:
        """Restore the settings as `HostTunables.restore` does; where the guard is lost, by another one that has read its journal.
        Raises GuardLostError when there is none, as over a link that is cut.
        """
        with contextlib.suppress(GuardLostError):
            return await shared.tunables.restore()
        await shared.tunables.guard.close()
        try:
            guard = await Guard.start(self._accesses[shared.hosts[0]], self._program)
            shared.tunables.guard = guard
            # Restores first of all.
            found = await guard.claim(self._owner)
        except AccessError as error:
            raise GuardLostError(error.what, shared.hosts[0]) from error
        settings, wrong = await shared.tunables.restore()
        return settings, [*wrong, *(f"cannot be restored: {text}" for text in found["failed"])]

    def _note_leftovers(self, name: str, found: Mapping[str, list[str]]) -> None:
        if found["done"]:
            text = f"a run that is gone had left settings, which are restored now: {', '.join(found['done'])}"
            self.warnings.append(Warning(WarningCode.TUNABLE_LEFT, text, f"host {name}"))
        if found["failed"]:
            text = f"a run that is gone had left settings, which cannot be restored: {', '.join(found['failed'])}"
            self.warnings.append(Warning(WarningCode.TUNABLE_NOT_RESTORED, text, f"host {name}"))


async def _each(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All hosts at a time; the first failure is raised when the others are done, too."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _merged(shared: _Shared, asked: Mapping[str, dict[str, Level]]) -> dict[str, Level]:
    """Merge what hosts with one namespace ask for. Raises PreflightError when they want different things."""
    from iodyno.hosts.tunables.host import shown

    merged: dict[str, Level] = {}
    for name in shared.hosts:
        for tunable, level in asked[name].items():
            if merged.setdefault(tunable, level) != level:
                raise PreflightError(
                    f"they are one network namespace, and {tunable} is to be {shown(tunable, merged[tunable])} and"
                    f" {shown(tunable, level)} at a time",
                    where=f"hosts {', '.join(shared.hosts)}",
                    advice="use access: netns or two machines, or set it alike",
                )
    return merged


def _receives_on_sender(settings: Mapping[str, Setting]) -> bool:
    """Tell whether, on a veth, nothing moves the receiver's work away from the CPU that sends."""
    rps, threaded = settings.get("rps"), settings.get("threaded")
    return bool(rps and rps.obtained in ("off", "others") and not (threaded and threaded.obtained))


def _refusals(host: str, settings: Mapping[str, Setting]) -> list[str]:
    """List what was not obtained, in words."""
    from iodyno.hosts.tunables.host import shown

    return [
        f"{f'host {host}: ' if host else ''}{tunable}: asked for {shown(tunable, setting.asked)}, obtained"
        f" {shown(tunable, setting.obtained)}{f' ({setting.why})' if setting.why else ''}"
        for tunable, setting in settings.items()
        if setting.differs
    ]
