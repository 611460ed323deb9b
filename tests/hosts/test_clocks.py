"""Clocks against a known truth: hosts whose monotonic clocks are set apart by time namespaces."""

from __future__ import annotations

import asyncio
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from places import MS, Notes, experiment, own_agent, run

from iodyno.campaign.testbed import Testbed
from iodyno.core.factor import Factor
from iodyno.core.warnings import WarningCode
from iodyno.hosts.local import LocalAccess
from iodyno.session import accesses
from iodyno.session.accesses import OpenHosts

AHEAD_S = {"client": 1000, "server": 5000}

pytestmark = pytest.mark.root


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts on this machine whose clocks are ahead of the lab's."""
    if subprocess.run(["unshare", "-T", "--monotonic", "1", "true"], capture_output=True).returncode:
        pytest.skip("this kernel makes no time namespaces: clock offsets have no known truth here")

    async def open_hosts(*_: object) -> OpenHosts:
        hosts = OpenHosts()
        for number, (name, ahead_s) in enumerate(AHEAD_S.items()):
            ahead = ("--monotonic", str(ahead_s), "--boottime", str(ahead_s))
            hosts.accesses[name] = LocalAccess(name, [number], prefix=("unshare", "-T", *ahead, "--"))
        return hosts

    monkeypatch.setattr(accesses, "open_hosts", open_hosts)


def test_the_offset_is_found_within_its_stated_error(apart: None, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Testbed(experiment("local"), own_agent(tmp_path)) as testbed:
            for name, session in testbed.sessions.items():
                for _ in range(5):
                    begin = time.monotonic_ns()
                    fit = await session.probe_clock()
                    assert abs(fit.offset_ns - AHEAD_S[name] * 10**9) <= fit.error_ns
                    # Half of the way there and back, of which there were several in this time.
                    assert 0 < fit.error_ns < (time.monotonic_ns() - begin) / 2

    asyncio.run(scenario())


def test_hosts_with_clocks_far_apart_start_together(apart: None, tmp_path: Path) -> None:
    notes = Notes()
    asked = experiment("local", factors=(Factor("connections", (1,)),))
    asked = replace(asked, limits=replace(asked.limits, start_skew_ns=0))
    outcome = asyncio.run(run(asked, tmp_path, notes=notes, program=own_agent(tmp_path)))
    assert outcome.finished == 1
    (manifest,) = notes.manifests
    # A busy machine may start late; hosts with clocks an hour apart would be off by an hour.
    assert manifest["start"]["skew_ns"] < 60_000 * MS
    assert manifest["start"]["skew_error_ns"] < 60_000 * MS
    assert [warning["code"] for warning in manifest["warnings"]] == [WarningCode.START_SKEW], (
        "the limit was 0"
    )
    for host, ahead_s in AHEAD_S.items():
        for when in ("before", "after"):
            clock = manifest["hosts"][host]["clock"][when]
            assert abs(clock["offset_ns"] - ahead_s * 10**9) <= clock["error_ns"]
