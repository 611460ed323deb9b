"""The manual pages: one for every command, with all that its --help says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import click

from iodyno.cli.main import iodyno

ROOT = Path(__file__).parents[2]


def test_every_command_has_a_page_with_each_of_its_options(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "tools/package/man.py"))["write"](tmp_path, iodyno, "iodyno")
    pages = {path.stem: path.read_text() for path in tmp_path.iterdir()}

    def commands(command: click.Command, context: click.Context) -> None:
        page = pages.pop(context.command_path.replace(" ", "-"))
        assert page.startswith(".TH ")
        for option in re.findall(r"^  (--[\w-]+)", command.get_help(context), re.MULTILINE):
            assert option.replace("-", "\\-") in page, (context.command_path, option)
        if not isinstance(command, click.Group):
            return
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            assert f"{context.command_path.replace(' ', '-')}-{word}(1)".replace("-", "\\-") in page
            commands(below, click.Context(below, info_name=word, parent=context))

    commands(iodyno, click.Context(iodyno, info_name="iodyno"))
    assert not pages
