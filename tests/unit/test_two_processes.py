"""Work that two processes share: what is found, and what becomes of a copy that fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from iodyno.analysis.two_processes import in_halves

ITEMS = range(5)


def squares(items: Sequence[int]) -> dict[str, int]:
    return {str(item): item**2 for item in items}


def children() -> set[str]:
    """Of this process, which may have others than those of the test."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def test_either_has_its_half_and_the_order_stays() -> None:
    found = in_halves(lambda items: {str(item): os.getpid() for item in items}, ITEMS)
    assert list(found) == [*map(str, ITEMS)]
    assert [process == os.getpid() for process in found.values()] == [True, True, False, False, False]
    assert in_halves(squares, ()) == {}


def test_the_half_of_a_copy_that_ended_is_worked_on_here() -> None:
    me = os.getpid()

    def fatal(items: Sequence[int]) -> dict[str, int]:
        if os.getpid() != me:
            os.kill(os.getpid(), signal.SIGKILL)
        return squares(items)

    assert in_halves(fatal, ITEMS) == squares(ITEMS)


@pytest.mark.parametrize("wrong", [0, 4])
def test_an_error_in_either_half_is_raised_here(wrong: int) -> None:
    def checked(items: Sequence[int]) -> dict[str, int]:
        if wrong in items:
            raise ValueError("a trial that cannot be read")
        return squares(items)

    with pytest.raises(ValueError, match="cannot be read"):
        in_halves(checked, ITEMS)
