"""Every warning can be shown."""

from __future__ import annotations

import pytest

from iodyno.core.warnings import Warning, WarningCode
from iodyno.report.warnings import TITLES


@pytest.mark.parametrize("code", list(WarningCode))
def test_every_code_has_a_heading_of_its_own(code: WarningCode) -> None:
    assert TITLES[code]
    assert [other for other, title in TITLES.items() if title == TITLES[code]] == [code]


def test_a_line_names_the_place_once() -> None:
    said = "server: the idle machine was 98.8% busy"
    assert Warning(WarningCode.BACKGROUND, said, "server").line == said
    assert Warning(WarningCode.BACKGROUND, said, "client").line == f"client: {said}"
    assert Warning(WarningCode.BACKGROUND, said).line == said


def test_an_option_that_was_not_obtained_may_be_of_a_disk() -> None:
    """A polling mode of io_uring is no option of a socket."""
    assert "socket" not in TITLES[WarningCode.OPTION_NOT_OBTAINED].lower()
