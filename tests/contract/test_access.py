"""What every access has to keep, whichever it is: start, exchange, abort, kill, cut, time-out, nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import engines
import pytest
from places import (
    MS,
    QUIET,
    SOON_S,
    carried_out,
    data_link,
    experiment,
    gone_within,
    namespaces_of,
    own_agent,
    processes_of,
    ssh_place,
)

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.experiment import Experiment, HostSpec, Windows
from iodyno.hosts.access import AgentProgram

LONG = Windows(0, 60_000 * MS, 50 * MS, 250 * MS)
# A busy machine may give agents no CPU for 200 ms, and a window in which no byte moved is a failure.
SHORT = Windows(50 * MS, 800 * MS, 50 * MS, 100 * MS)


@dataclass
class Way:
    """One access: an experiment that uses it for both hosts, and what can be done to its link."""

    experiment: Experiment
    program: AgentProgram
    agents: list[Path]
    cut: Callable[[Testbed], Awaitable[None]]
    cut_says: str
    pins: bool = True
    programs: list[AgentProgram] = field(default_factory=list)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    engines.skip_without(engines.NO_SLURM)
    with engines.slurm(tmp_path_factory.mktemp("slurm") / "slurm") as names:
        yield names


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], Path]]:
    engines.skip_without(engines.NO_PODMAN)
    with engines.containers(tmp_path_factory.mktemp("boxes"), 2) as made:
        yield made


@pytest.fixture(
    params=[
        "local",
        pytest.param("netns", marks=pytest.mark.root),
        pytest.param("ssh", marks=pytest.mark.root),
        "exec",
        pytest.param("podman", marks=pytest.mark.root),
        pytest.param("srun", marks=pytest.mark.root),
    ]
)
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    program = own_agent(tmp_path)
    if request.param == "local":

        async def stop(testbed: Testbed) -> None:
            # There is no link to cut: an agent that is stopped is as silent.
            monkeypatch.setattr("iodyno.session.session.LOST_AFTER_S", 3.0)
            for pid in processes_of(program.path):
                os.kill(pid, signal.SIGSTOP)

        yield Way(
            experiment("local", **QUIET), program, [program.path], stop, "nothing was heard of the agent"
        )
    elif request.param == "netns":

        async def down(testbed: Testbed) -> None:
            await testbed.hosts.paths[0].set_link("server", up=False)

        yield Way(experiment("netns", **QUIET), program, [program.path], down, "no byte moved")
    elif request.param != "ssh":
        of_module = {"srun": "nodes", "podman": "boxes"}.get(request.param)
        made = request.getfixturevalue(of_module) if of_module else None
        hosts, agents = _of_engine(request.param, program, tmp_path, made, monkeypatch)

        async def end_client(testbed: Testbed) -> None:
            client = testbed.sessions["server"].process_id
            assert client is not None
            os.kill(client, signal.SIGKILL)

        yield Way(
            experiment(hosts=hosts, **QUIET), program, agents, end_client, "the agent is gone", pins=False
        )
    else:
        with contextlib.ExitStack() as stack:
            places = [stack.enter_context(ssh_place(tmp_path / f"place{n}", n)) for n in (1, 2)]
            addresses = stack.enter_context(data_link(*places))
            hosts = {
                name: HostSpec(name, "ssh", place.options, address=address)
                for name, place, address in zip(("client", "server"), places, addresses, strict=True)
            }
            agents = [place.home / f".cache/iodyno/agent-{program.sha256[:16]}" for place in places]

            async def cut(testbed: Testbed) -> None:
                places[1].cut()

            asked = experiment(hosts=hosts, **QUIET)
            yield Way(asked, program, agents, cut, "the agent is gone", pins=False)
    for pid in processes_of(program.path):
        os.kill(pid, signal.SIGKILL)


def _of_engine(
    engine: str,
    program: AgentProgram,
    folder: Path,
    made: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[dict[str, HostSpec], list[Path]]:
    """Two hosts of an engine, `made` beforehand, and where their agents' programs are."""
    cached, names = f".cache/iodyno/agent-{program.sha256[:16]}", ("client", "server")
    if engine == "podman":
        containers, home = made
        options: list[dict[str, Any]] = [{"container": container} for container in containers]
        agents = [home / cached]
    elif engine == "srun":
        monkeypatch.setenv("HOME", str(folder))
        options = [{"node": node} for node in made]
        agents = [folder / cached]
        # As on a shared file system: both nodes find the program there.
        agents[0].parent.mkdir(parents=True)
        shutil.copy2(program.path, agents[0])
    else:
        monkeypatch.setenv("IODYNO_EXEC", "sh")
        homes = [folder / name for name in names]
        for home in homes:
            home.mkdir()
        options = [{"command": ["sh", "-c", f'HOME={home} exec "$@"', "{name}"]} for home in homes]
        agents = [home / cached for home in homes]
    specs = zip(names, options, strict=True)
    return {name: HostSpec(name, engine, given) for name, given in specs}, agents


def settings(way: Way, **levels: Any) -> dict[str, Any]:
    return way.experiment.settings({"connections": 2, **levels})


async def load(testbed: Testbed, way: Way, windows: Windows, account: Account | None = None) -> int:
    """Bytes that the server got in a trial; one that a busy machine leaves without a CPU is tried again."""
    for _ in range(5):
        try:
            return await moved_in(testbed, way, windows, account)
        except TrialError as failure:
            if failure.code != "stalled":
                raise
            await testbed.recover(failure)
    return await moved_in(testbed, way, windows, account)


async def moved_in(testbed: Testbed, way: Way, windows: Windows, account: Account | None) -> int:
    moved = 0

    def count(host: str, record: dict[str, Any]) -> None:
        nonlocal moved
        moved += record["load"]["bytes"] if host == "server" else 0

    await carried_out(testbed, settings(way), windows, count, account)
    return moved


async def fails(testbed: Testbed, way: Way, do: Callable[[], Awaitable[None]]) -> TrialError:
    """The error of a long trial to which something is done once it runs."""
    moving = asyncio.Event()

    async def trial() -> None:
        await carried_out(testbed, settings(way), LONG, lambda host, record: moving.set())

    task = asyncio.create_task(trial())
    await asyncio.wait([task, asyncio.create_task(moving.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task.exception()
    await do()
    with pytest.raises(TrialError) as failed:
        await task
    return failed.value


def test_agents_start_and_exchange_and_leave_nothing(way: Way) -> None:
    async def scenario() -> None:
        async with Testbed(way.experiment, way.program) as testbed:
            for name, session in testbed.sessions.items():
                assert session.hello["build_hash"] == way.program.build_hash
                if way.pins:
                    allowed = session.hello["host"]["cpus_allowed"]
                    assert tuple(allowed) == testbed.hosts.accesses[name].reached.cpus
            assert len(processes_of(*way.agents)) == 2
            account = Account()
            assert await load(testbed, way, SHORT, account) > 100_000
            assert account.start is not None and account.start["skew_ns"] is not None
            assert await load(testbed, way, SHORT) > 100_000, "a session carries one trial after the other"
        assert gone_within(SOON_S, *way.agents)

    asyncio.run(scenario())
    assert not namespaces_of(os.getpid())


def test_an_aborted_trial_leaves_agents_that_take_another(way: Way) -> None:
    async def scenario() -> None:
        async with Testbed(way.experiment, way.program) as testbed:
            before = set(processes_of(*way.agents))

            async def abort_one() -> None:
                raise_after = testbed.sessions["client"].failure("test", "enough", "nothing")
                with contextlib.suppress(TrialError):
                    await testbed.recover(raise_after)

            task = asyncio.create_task(load(testbed, way, LONG))
            await asyncio.sleep(1.0)
            task.cancel()
            await asyncio.wait([task])
            began = time.monotonic()
            await abort_one()
            assert time.monotonic() - began < 30, "long before the end of the load"
            assert await load(testbed, way, SHORT) > 0
            assert set(processes_of(*way.agents)) == before, "nothing was started anew"

    asyncio.run(scenario())


def test_a_killed_agent_is_named_and_started_anew(way: Way) -> None:
    async def scenario() -> None:
        async with Testbed(way.experiment, way.program) as testbed:
            agents = {agent: processes_of(agent) for agent in way.agents}
            victim = agents[way.agents[-1]][0]

            async def kill() -> None:
                os.kill(victim, signal.SIGKILL)

            began = time.monotonic()
            failure = await fails(testbed, way, kill)
            assert time.monotonic() - began < 50, "long before the end of the load"
            assert failure.code == "agent_lost"
            assert failure.where.startswith(("host client", "host server"))
            await testbed.recover(failure)
            assert await load(testbed, way, SHORT) > 0
        assert gone_within(SOON_S, *way.agents)

    asyncio.run(scenario())


def test_a_cut_ends_the_trial_and_the_agents(way: Way) -> None:
    async def scenario() -> None:
        async with Testbed(way.experiment, way.program) as testbed:
            began = time.monotonic()
            failure = await fails(testbed, way, lambda: way.cut(testbed))
            assert way.cut_says in failure.what, failure
            assert time.monotonic() - began < 50, "long before the end of the load"
        # An agent behind a cut link hears nothing any more, and ends by its own timer.
        assert gone_within(60, *way.agents)

    asyncio.run(scenario())
    assert not namespaces_of(os.getpid())


def test_a_program_that_says_nothing_is_given_up(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = tmp_path / "mute"
    mute.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\nexec sleep 60\n')
    mute.chmod(0o755)
    monkeypatch.setattr("iodyno.session.session.HELLO_TIMEOUT_S", 1.0)

    async def scenario() -> None:
        import hashlib

        program = replace(way.program, path=mute, sha256=hashlib.sha256(mute.read_bytes()).hexdigest())
        with pytest.raises(AccessError, match=r"waited 1\.0 s for hello"):
            async with Testbed(way.experiment, program):
                pass

    asyncio.run(scenario())
    assert not namespaces_of(os.getpid())


def test_an_agent_of_another_build_is_refused(way: Way) -> None:
    other = replace(way.program, build_hash="0000111122223333")

    async def scenario() -> None:
        async with Testbed(way.experiment, other):
            pass

    with pytest.raises(AccessError) as refused:
        asyncio.run(scenario())
    assert way.program.build_hash in refused.value.what
    assert "0000111122223333" in refused.value.what
    assert "make build" in refused.value.advice
    assert gone_within(SOON_S, *way.agents)
