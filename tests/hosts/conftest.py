"""What tests on real hosts share: an agent's program, a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import SOON_S, gone_within, own_agent
from playwright.sync_api import Browser, sync_playwright

from iodyno.hosts.access import AgentProgram

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[AgentProgram]:
    """An agent's program of the test's own, of which no process is left after it."""
    made = own_agent(tmp_path)
    yield made
    assert gone_within(SOON_S, made.path), "agents are left"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(
            "chromium is not installed: apt-get install chromium, to have the report tested in a browser"
        )
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()
