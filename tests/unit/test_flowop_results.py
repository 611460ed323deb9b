"""What flowops say of themselves: those that mostly failed make a trial void, reads that bring little are warned of."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.loads.files.campaign.flowops import failed, short_reads, took_no_file


def told(
    operations: int = 0, errors: int = 0, moved: int = 0, *, call: str = "read", error: str = ""
) -> dict[str, Any]:
    named = {"process": "p", "thread": "t", "name": "r", "call": call}
    return {**named, "operations": operations, "errors": errors, "bytes": moved, "first_error": error or None}


@pytest.mark.parametrize(
    ("operations", "errors", "void"), [(0, 1, True), (5, 6, True), (5, 5, False), (9, 0, False)]
)
def test_a_flowop_that_failed_more_often_than_it_was_done_is_a_failure(
    operations: int, errors: int, void: bool
) -> None:
    assert (failed({"flowops": [told(operations, errors)]}) is not None) is void


def test_a_failure_names_the_flowop_and_what_its_error_means() -> None:
    error = "p-1.t-1, flowop r (read): No space left on device (os error 28)"
    found = failed({"flowops": [told(2, 100, error=error), told(0, 3)]})
    assert found is not None
    assert "flowop r (read) failed 100 times and was done 2 times (and 1 other did so)" in found[0]
    assert "No space left" in found[0] and "file system is full" in found[1]


def program(length: object) -> dict[str, Any]:
    flowop = {"name": "r", "call": "read", "io_bytes": length}
    composite = {"name": "c", "call": "composite", "flowops": [flowop]}
    return {"processes": [{"name": "p", "threads": [{"name": "t", "flowops": [composite]}]}]}


def test_reads_that_bring_less_than_their_length_are_counted() -> None:
    (text,) = short_reads(program(4096), {"flowops": [told(1000, moved=16 * 4096)]})
    assert "of 1000 reads of r at least 984 brought fewer bytes than the 4096" in text


@pytest.mark.parametrize(
    ("length", "flowop"),
    [
        (4096, told(1000, moved=1000 * 4096)),
        (4096, told(1000, moved=990 * 4096)),  # The end of a file, now and then.
        ({"variable": "v"}, told(1000, moved=1)),
        (4096, told(1000, moved=1, call="readwholefile")),
        (4096, told(0)),
    ],
)
def test_ends_of_files_and_drawn_lengths_are_no_warning(length: object, flowop: dict[str, Any]) -> None:
    assert list(short_reads(program(length), {"flowops": [flowop]})) == []


@pytest.mark.parametrize(
    ("end", "by", "said"),
    [
        ("no_file", "p-1.t-1, flowop r", "p-1.t-1, flowop r"),
        ("all_done", "p-1.t-1, flowop r", "p-1.t-1, flowop r"),
        ("all_done", "p-1.t-1, flowop fin", None),
        ("windows", None, None),
    ],
)
def test_a_program_that_did_nothing_for_want_of_a_file_is_told_from_others(
    end: str, by: str | None, said: str | None
) -> None:
    flowops = [told() | {"class": "r"}, told(call="finishonbytes") | {"class": "fin"}]
    account = {"end": end, "ended_by": by, "flowops": flowops}
    assert took_no_file(account) == said
