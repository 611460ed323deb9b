"""How much of a file there is for a load."""

from __future__ import annotations

from pathlib import Path

from iodyno.targets.stamp import content_bytes

STAMP = b'iodyno working set {"size_bytes": 10000, "state": "complete", "pristine": true, "version": 2}\n'


def test_a_file_that_was_laid_out_has_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "work.dat"
    path.write_bytes(bytes(12_288) + STAMP.ljust(4096, b"\0"))
    assert content_bytes(path) == 10_000


def test_a_foreign_file_has_whole_blocks(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_bytes(bytes(9000))
    assert content_bytes(path) == 8192
    path.write_bytes(b"short")
    assert content_bytes(path) == 4096, "and is refused as too small"


def test_what_is_not_there_or_makes_no_sense_is_not_known(tmp_path: Path) -> None:
    assert content_bytes(tmp_path / "nothing") is None
    assert content_bytes(tmp_path) is None
    broken = tmp_path / "broken"
    broken.write_bytes(b"iodyno working set {".ljust(4096, b"\0"))
    assert content_bytes(broken) is None
