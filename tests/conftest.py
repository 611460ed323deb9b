"""What every test may ask for."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root: makes network namespaces; run as root to have it tested")
    for item in items:
        if "root" in item.keywords:
            item.add_marker(skip)
