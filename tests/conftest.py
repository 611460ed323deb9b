"""What every test may ask for."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path

import hypothesis
import pytest

# As the command itself has it, before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes, and drawing it, is the machine's mood: neither is what a property is about.
PATIENT = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# The examples of properties are the same in every run, so that a run tells of the change it tests; `make fuzz` draws others.
hypothesis.settings.register_profile("same", PATIENT, derandomize=True)
hypothesis.settings.register_profile("drawn", PATIENT, print_blob=True)
hypothesis.settings.load_profile("drawn" if os.environ.get("IODYNO_FUZZ") else "same")

# A shell's background job begins with interrupts ignored, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Side by side, tests of a file that shares a campaign, hosts or a browser go to one worker; all others go anywhere.

    Told by the file's text, as the process that gives tests away collects none (`--dist loadgroup` of xdist 3.8 groups nothing
    under pytest 9).
    """
    from xdist.scheduler import LoadScopeScheduling

    class Sharing(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if _shares(config.rootpath / file) else nodeid

    return Sharing(config, log)


@functools.cache
def _shares(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return 'scope="module"' in text or "browser: Browser" in text


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: makes network namespaces; run as root to have it tested")
    for item in items:
        if "root" in item.keywords:
            item.add_marker(skip)
