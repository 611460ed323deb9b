"""What every test may ask for."""

from __future__ import annotations

import os
import signal

import hypothesis
import pytest

# How long an example takes, and drawing it, is the machine's mood: neither is what a property is about.
PATIENT = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# The examples of properties are the same in every run, so that a run tells of the change it tests; `make fuzz` draws others.
hypothesis.settings.register_profile("same", PATIENT, derandomize=True)
hypothesis.settings.register_profile("drawn", PATIENT, print_blob=True)
hypothesis.settings.load_profile("drawn" if os.environ.get("IODYNO_FUZZ") else "same")

# A shell's background job begins with interrupts ignored, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Side by side, what shares a campaign or hosts goes to one worker, which makes them once; all else goes anywhere.
        info = getattr(item, "_fixtureinfo", None)
        shared = info and any(
            found[-1].scope == "module" for found in info.name2fixturedefs.values() if found
        )
        if shared:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: makes network namespaces; run as root to have it tested")
    for item in items:
        if "root" in item.keywords:
            item.add_marker(skip)
