"""`iodyno record`: what it refuses, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from iodyno.cli.record import command
from iodyno.core.errors import ExperimentError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--every", "1"), "--every"),
        (("--every", "1ms"), "100ms or more"),
        (("--segment", "10ms"), "--every (1s) or more"),
        (("--keep", "much"), "a size such as 1GiB, or a duration such as 168h"),
        (("--for", "long"), "--for"),
        (("--device", "nothing"), "--device"),
        (("--on", "-x"), "--on"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, str], said: str
) -> None:
    folder = tmp_path / "recording"
    with pytest.raises(ExperimentError) as refused:
        CliRunner().invoke(
            command, ["--into", str(folder), *words], catch_exceptions=False, standalone_mode=False
        )
    assert said in str(refused.value)
    assert not folder.exists()
