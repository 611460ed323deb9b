"""Folders of campaigns for a shell that completes what is typed."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def complete_campaign(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem | str]:
    """The campaigns that begin so, here or in a folder here; all folders where there is none."""
    del ctx, param
    typed = Path(incomplete)
    parent, begin = (typed, "") if incomplete.endswith("/") or not incomplete else (typed.parent, typed.name)
    try:
        folders = [each for each in parent.iterdir() if each.is_dir() and each.name.startswith(begin)]
        folders += [each for folder in folders if not _holds(folder) for each in folder.iterdir()]
    except OSError:
        folders = []
    return [CompletionItem(str(each)) for each in sorted(folders) if _holds(each)] or [
        CompletionItem(incomplete, type="dir")
    ]


def _holds(folder: Path) -> bool:
    from iodyno.store.schema import CAMPAIGN

    return (folder / CAMPAIGN).is_file()
