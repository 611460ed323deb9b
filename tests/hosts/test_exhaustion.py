"""What runs out at a host while a trial is on: one clear error or a count each, and the next trial goes well."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from places import MS, carried_out, experiment

from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import TrialError
from iodyno.core.experiment import Windows, WorkloadSpec
from iodyno.hosts.access import AgentProgram
from iodyno.loads.script.uperf import script_of

pytestmark = pytest.mark.root
SHORT = Windows(50 * MS, 800 * MS, 50 * MS, 100 * MS)
PORTS = 12
CONNECT = """<profile name="p"><group nthreads="40"><transaction iterations="1">
<flowop type="connect" options="remotehost=server protocol=tcp"/></transaction></group></profile>"""


def few_ports(testbed: Testbed, ports: int = PORTS) -> None:
    namespace = testbed.hosts.accesses["client"].reached.path["namespace"]
    key = f"net.ipv4.ip_local_port_range=40000 {40000 + ports - 1}"
    subprocess.run(["ip", "netns", "exec", namespace, "sysctl", "-qw", key], check=True)


async def trial(
    testbed: Testbed, during: Callable[[], None] = lambda: None, **settings: Any
) -> dict[str, int]:
    """A short trial, and what is done in its midst: what was counted, over both hosts."""
    counted: dict[str, int] = {}

    def take(host: str, record: Any) -> None:
        if not counted:
            during()
        for reading in record["sensors"]:
            for metric, _, value in reading["values"]:
                counted[metric] = counted.get(metric, 0) + value
        counted["operations"] = counted.get("operations", 0) + record["load"]["operations"]

    await carried_out(testbed, testbed.experiment.settings(settings), SHORT, take)
    return counted


def between(program: AgentProgram, workload: WorkloadSpec, scenario: Any) -> None:
    async def whole() -> None:
        asked = replace(experiment("netns"), workload=workload)
        async with Testbed(asked, program) as testbed:
            await scenario(testbed)

    asyncio.run(whole())


def test_local_ports_that_run_out_are_named_and_the_next_trial_goes_well(program: AgentProgram) -> None:
    async def scenario(testbed: Testbed) -> None:
        few_ports(testbed)
        with pytest.raises(TrialError, match="of 40") as raised:
            await trial(testbed, connections=40)
        assert "ip_local_port_range" in raised.value.advice
        await testbed.recover(raised.value)
        assert (await trial(testbed, connections=4))["operations"] > 0

    between(
        program, WorkloadSpec("stream", ("client",), ("server",), {"engine": "epoll", "size": 1000}), scenario
    )


def test_flows_without_a_port_are_counted_and_try_again(program: AgentProgram) -> None:
    """All have one when the load begins; then there are fewer."""

    async def scenario(testbed: Testbed) -> None:
        counted = await trial(testbed, lambda: few_ports(testbed, 2), connections=20)
        assert counted["operations"] > 0
        assert counted["connect.without_port"] > 0

    settings = {"engine": "epoll", "size": 64, "response_size": 64}
    between(program, WorkloadSpec("connect_request_response", ("client",), ("server",), settings), scenario)


def test_a_script_says_where_its_ports_ran_out(program: AgentProgram) -> None:
    script, mistakes = script_of(CONNECT)
    assert not mistakes

    async def scenario(testbed: Testbed) -> None:
        few_ports(testbed)
        with pytest.raises(TrialError, match=r"group 1, thread \d+, transaction 1, .*connect") as raised:
            await trial(testbed)
        assert "ip_local_port_range" in raised.value.advice

    between(program, WorkloadSpec("script", ("client",), ("server",), {}, script), scenario)
