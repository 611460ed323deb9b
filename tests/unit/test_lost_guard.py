"""A guard of tunables that is lost: which host's, at which tunable, and what became of what was set."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from iodyno.campaign.account import Account
from iodyno.campaign.tunables import TestbedTunables, _Shared
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.warnings import WarningCode
from iodyno.hosts.access import Reached
from iodyno.hosts.guard import Guard, GuardLostError
from iodyno.hosts.tunables.host import Setting


class Tunables:
    """Those of a host whose guard is lost at one of its tasks."""

    def __init__(self, lost_at: str) -> None:
        self.guard = SimpleNamespace(alive=True, close=lambda: asyncio.sleep(0))
        self._lost_at = lost_at

    def _do(self, task: str, tunable: str = "") -> None:
        if task == self._lost_at or not self.guard.alive:
            self.guard.alive = False
            raise GuardLostError("Connection lost", "server", tunable if task == self._lost_at else "")

    async def set(self, asked: Any) -> dict[str, Setting]:
        self._do("set", ", ".join(asked))
        return {name: Setting(level, 1500, level, "eth0", None) for name, level in asked.items()}

    async def check(self) -> list[str]:
        self._do("check")
        return []

    async def restore(self) -> Any:
        self._do("restore")
        return {}, []


def testbed_tunables(lost_at: str) -> TestbedTunables:
    async def cut(*_: Any) -> None:
        raise AccessError("the host cannot be reached")

    host: Any = SimpleNamespace(reached=Reached(), name="server", start=cut)
    tunables, of_host = (
        TestbedTunables({"server": host}, Any, {}, {}, lambda _: (), "a test"),
        Tunables(lost_at),
    )  # type: ignore[arg-type]
    tunables._shared = [_Shared(["server"], of_host)]  # type: ignore[arg-type]
    return tunables


def turned(lost_at: str) -> tuple[TrialError | None, Account]:
    account = Account(hosts={"server": {"tunables": None}})

    async def trial() -> None:
        async with testbed_tunables(lost_at).turned({"server.mtu": 68}, account):
            pass

    try:
        asyncio.run(trial())
    except TrialError as error:
        return error, account
    return None, account


def test_a_guard_that_is_lost_in_a_trial_is_that_of_a_host() -> None:
    error, _ = turned("check")
    assert error is not None and error.code == "tunables_lost" and error.where == "host server"
    assert "the guard of its settings was lost, and with it the settings: Connection lost" in error.what


def test_a_tunable_that_cuts_the_way_to_its_host_is_named() -> None:
    error, _ = turned("set")
    assert error is not None and "when mtu was set" in error.what and "leave out mtu" in error.advice
    with pytest.raises(AccessError) as refused:
        asyncio.run(testbed_tunables("set").try_out([{"server.mtu": 68}]))
    assert refused.value.where == "host server" and "when mtu was set" in refused.value.what
    assert "leave out mtu" in refused.value.advice


def test_what_nobody_saw_restored_is_a_warning() -> None:
    error, account = turned("restore")
    (warning,) = account.warnings
    assert (
        error is None and warning.code is WarningCode.TUNABLE_NOT_RESTORED and warning.where == "host server"
    )
    assert "left to the guard on the host" in warning.text and "mtu" in warning.text


def test_a_guard_tells_what_it_was_lost_at() -> None:
    async def lost() -> None:
        reader = asyncio.StreamReader()
        reader.feed_eof()
        writer = SimpleNamespace(write=lambda data: None, drain=lambda: asyncio.sleep(0))
        process = SimpleNamespace(last_words=lambda: "")
        guard = Guard("server", SimpleNamespace(reader=reader, writer=writer, process=process))  # type: ignore[arg-type]
        await guard.set("mtu", "eth0", [], [])

    with pytest.raises(GuardLostError) as raised:
        asyncio.run(lost())
    assert (raised.value.host, raised.value.tunable) == ("server", "mtu")
