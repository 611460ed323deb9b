"""Every block of the documentation is executed.

A block marked `sh` runs under `bash -e`, one marked `python` in one interpreter per page, all blocks of a page in
one empty folder that has the project's `studies` and `docs`. Blocks without a mark are output or grammar and are not run;
a command that a page shows in one (`make study`) has a test of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<mark>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(m["mark"], m["body"]) for m in FENCE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [p for p in PAGES if any(blocks(p))], ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    for folder in ("studies", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for mark, body in blocks(page):
        if mark == "sh":
            command = ["bash", "-e", "-o", "pipefail", "-c", body]
        elif mark == "python":
            command = [sys.executable, "-c", body]
        else:
            continue
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert ran.returncode == 0, f"{page.name}, block\n{body}\n{ran.stdout}{ran.stderr}"


def test_the_pages_name_only_files_that_exist() -> None:
    missing = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not missing
