"""Folders of campaigns: the latest where none is named, and those that a shell completes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from iodyno.cli.stderr import to_stderr
from iodyno.core.quantity import counted
from iodyno.store.schema import CAMPAIGN, EXPLORATION

if TYPE_CHECKING:
    from iodyno.analysis.recording import Recording
    from iodyno.analysis.results import TrialSummary
    from iodyno.analysis.trial import Trial


def latest_campaign(named: Path | None) -> Path:
    """Return the folder that is named, or the campaign in `campaigns/` or here that was begun last; of an exploration its last
    stage. Raises UsageError.
    """
    if named is not None:
        return _campaign_of(named) or named
    around = [each for parent in (Path("campaigns"), Path()) if parent.is_dir() for each in parent.iterdir()]
    found = [campaign for each in around if (campaign := _campaign_of(each))]
    if not found:
        raise click.UsageError("missing argument CAMPAIGN: no campaign lies in campaigns/ or here")
    latest = max(found, key=lambda folder: folder.stat().st_ctime)
    to_stderr(f"iodyno: {latest}")
    return latest


def tell_lost(folder: Path | str, trials: Iterable[TrialSummary | Trial]) -> None:
    """Say which of the trials do not count, damaged or failed, where the answer does not."""
    from iodyno.analysis.results import lost_note

    if said := lost_note(folder, trials):
        to_stderr(f"iodyno: warning: {said}")


def tell_damaged(recording: Recording) -> None:
    """Say which segments of a recording are damaged and left out, where the answer does not."""
    if damaged := recording.damaged:
        more = f"; and {counted(len(damaged) - 1, 'more segment')}" if len(damaged) > 1 else ""
        why = str(damaged[0].invalid).splitlines()[0]
        to_stderr(f"iodyno: warning: segment {damaged[0].name} is damaged and left out: {why}{more}")


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


def _campaign_of(folder: Path) -> Path | None:
    if _holds(folder):
        return folder
    explored = folder.is_dir() and (folder / EXPLORATION).is_file()
    # Stages are numbered.
    return max((each for each in folder.iterdir() if _holds(each)), default=None) if explored else None


def _holds(folder: Path) -> bool:
    return (folder / CAMPAIGN).is_file()
