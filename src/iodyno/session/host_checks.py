"""Looks at every host of an experiment: is it reached, does an agent run there, what is it, how well is its clock known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iodyno.core.errors import AccessError, IodynoError
from iodyno.core.experiment import HostSpec
from iodyno.core.ssh_target import SshTarget
from iodyno.hosts.access import Access, AgentProgram
from iodyno.session.accesses import open_hosts
from iodyno.session.clock import ClockFit
from iodyno.session.session import PROBED_AT_A_TIME, Session


@dataclass(frozen=True)
class HostCheck:
    """One host. `problem`: why there is no agent, or its clock is not known; `facts`: what the agent said of its host; `took_s`:
    from the first login to the agent's first word.
    """

    name: str
    access: str
    target: str
    problem: IodynoError | None = None
    address: str | None = None
    agent: str = ""
    took_s: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    clock: ClockFit | None = None


async def check_hosts(
    specs: Mapping[str, HostSpec], program: AgentProgram, timeout_s: float
) -> list[HostCheck]:
    """Looks at all of them at once; one that has not answered `timeout_s` after its turn to log in came is not waited for.

    Raises AccessError and ExperimentError for what is wrong with an access as a whole.
    """
    hosts = await open_hosts(specs)
    try:
        turns = asyncio.Semaphore(PROBED_AT_A_TIME)
        looks = (
            _look(specs[name], access, program, timeout_s, turns) for name, access in hosts.accesses.items()
        )
        return list(await asyncio.gather(*looks))
    finally:
        await hosts.close()


async def _look(
    spec: HostSpec, access: Access, program: AgentProgram, timeout_s: float, turns: asyncio.Semaphore
) -> HostCheck:
    target = next((str(spec.options[key]) for key in _TARGETS if key in spec.options), "")
    if "port" in spec.options:
        target = str(SshTarget(target, int(spec.options["port"])))
    begun = time.monotonic()
    clock: ClockFit | None = None
    problem: IodynoError | None = None
    session: Session | None = None

    def started() -> None:
        nonlocal begun
        begun = time.monotonic()

    try:
        session = await Session.start(access, program, timeout_s=timeout_s, started=started)
        took_s = time.monotonic() - begun
        async with turns, asyncio.timeout(timeout_s):
            clock = await session.probe_clock()
    except TimeoutError:
        took_s = time.monotonic() - begun
        problem = AccessError(
            f"no answer within {timeout_s:g} s",
            where=getattr(access, "where", f"host {spec.name}"),
            advice="look at the host, or give it longer by --timeout",
        )
    except IodynoError as error:
        took_s, problem = time.monotonic() - begun, error
    finally:
        if session is not None:
            await session.close()
    return HostCheck(
        spec.name,
        spec.access,
        target,
        problem,
        access.reached.data_address,
        next(iter(access.reached.notes), ""),
        took_s,
        session.hello["host"] if session is not None else {},
        clock,
    )


_TARGETS = ("to", "container", "pod", "selector", "node", "instance")
"""Options of accesses that say which host it is."""
