"""What tests on real hosts share: an agent's program, a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import MISSING, Browser, started
from places import SOON_S, gone_within, own_agent

from iodyno.hosts.access import AgentProgram


@pytest.fixture
def program(tmp_path: Path) -> Iterator[AgentProgram]:
    """An agent's program of the test's own, of which no process is left after it."""
    made = own_agent(tmp_path)
    yield made
    assert gone_within(SOON_S, made.path), "agents are left"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if MISSING:
        pytest.skip(MISSING)
    with started() as browser:
        yield browser
