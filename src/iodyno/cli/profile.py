"""`iodyno profile`: which functions take the CPU time of one point, here or in another viewer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from iodyno.cli.campaign_argument import complete_campaign, tell_lost
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.point_choice import choose_host, choose_point, complete_host, complete_point
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.report.form import Block, Form, Shown, written
from iodyno.report.viewers import VIEWERS
from iodyno.store.files import write_file

if TYPE_CHECKING:
    from iodyno.analysis.functions import Part, PointProfile
    from iodyno.analysis.mechanisms import Mechanism
    from iodyno.analysis.results import CampaignSummary, PointSummary
    from iodyno.report.viewers import Viewer

TOP = 30
"""Functions shown with -v (chosen: a screen)."""


@click.command(name="profile")
@click.argument("campaign", type=click.Path(path_type=Path), shell_complete=complete_campaign)
@click.option(
    "--point", shell_complete=complete_point, help="The point, such as connections=32,size=1KiB; or p07."
)
@click.option("--host", shell_complete=complete_host, help="The host (default: the sender).")
@format_option(*(viewer.name for viewer in VIEWERS))
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it there, not to stdout.",
)
@click.option(
    "--top", type=click.IntRange(min=1), help=f"Functions in the table.  [default: 6; with -v {TOP}]"
)
@click.option(
    "--by",
    type=click.Choice(["exclusive", "inclusive"]),
    default="exclusive",
    show_default=True,
    help="Rank functions by their own code, or by all that they call too.",
)
@verbose_option
def command(
    campaign: Path,
    point: str | None,
    host: str | None,
    form: str,
    output: Path | None,
    top: int | None,
    by: Part,
    verbose: bool,
) -> None:
    """Show which functions take the CPU time of a point of CAMPAIGN, or export its call stacks.

    Samples of all trials of the point are taken together. With -v also whose time it is, by layer, and the mechanisms;
    csv and json have every function. Other viewers: folded (flame graph scripts), speedscope, pprof.

    \b
    Examples:
      iodyno profile CAMPAIGN --point connections=32,size=1KiB
      iodyno profile CAMPAIGN --point p07 --host server --by inclusive --top 10
      iodyno profile CAMPAIGN --point p07 --format pprof --output p07.pb.gz
      iodyno profile CAMPAIGN --point p07 --format folded | sort
    """
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.functions import read_profiles
    from iodyno.analysis.mechanisms import mechanisms
    from iodyno.analysis.stacks import SAMPLED_BY
    from iodyno.analysis.summary import analyse
    from iodyno.report.function_json import function_rows, mechanism_values, profile_values
    from iodyno.report.function_tables import scope_note

    dataset = read_dataset(campaign)
    summary = analyse(dataset)
    chosen = _point(summary, point)
    wanted = choose_host(summary, host)
    profiles = read_profiles(dataset, (chosen.id,))
    profile = profiles.found.get((chosen.id, wanted))
    if profile is None:
        reason = profiles.missing.get((chosen.id, wanted))
        raise StoreError(
            f"there is no profile: {reason or 'the point has no finished trial'}",
            where=str(campaign),
            advice=SAMPLED_BY if reason else "iodyno report names the points",
        )
    title = f"{wanted}, {summary.name_of(chosen)}{scope_note(profile)}"
    trials = [trial for trial in dataset.trials if trial.finished and trial.point == chosen.id]
    tell_lost(campaign, [trial for trial in dataset.trials if trial.point == chosen.id])
    viewer = {viewer.name: viewer for viewer in VIEWERS}.get(form)
    if viewer is None:
        behind = mechanisms(trials, (wanted,))
        shown = Shown(
            blocks=lambda: _blocks(profile, behind, title, top, by, verbose=verbose),
            values=lambda: profile_values(profile, by=by) | {"mechanisms": mechanism_values(behind)},
            rows=lambda: function_rows(profile, by=by),
        )
        if output is None:
            show(shown, cast(Form, form))
        else:
            _write(written(shown, cast(Form, form)).encode(errors="surrogateescape"), output)
        return
    _refuse_terminal(viewer, output)
    _write(viewer.write(profile, title), output)
    # Other viewers have no place for it.
    for warning in profile.warnings:
        click.echo(f"iodyno: warning: {warning.text}", err=True)


def _point(summary: CampaignSummary, written: str | None) -> PointSummary:
    if written is not None:
        return choose_point(summary, written, "--point")
    if len(summary.points) != 1:
        example = summary.name_of(summary.points[0]) if summary.points else "p01"
        raise ExperimentError(
            f"the campaign has {len(summary.points)} points: which one?",
            where="--point",
            advice=f"--point {example}",
        )
    return summary.points[0]


def _blocks(
    profile: PointProfile, behind: list[Mechanism], title: str, top: int | None, by: Part, *, verbose: bool
) -> Iterator[Block]:
    from iodyno.report.function_sentences import takes_most
    from iodyno.report.function_tables import (
        basis_note,
        brief_function_table,
        class_table,
        function_table,
        layer_table,
        mechanism_table,
        not_measured,
    )

    yield from takes_most(profile, title, by)
    yield ""
    if verbose:
        yield function_table(profile, top or TOP, by)
        yield class_table(profile)
        yield layer_table(profile)
        yield mechanism_table(behind)
        for line in not_measured(behind):
            yield f"not measured: {line}"
        yield basis_note(profile)
    else:
        yield brief_function_table(profile, top, by)
        yield "Brackets and ± are 95 % intervals. More functions, whose time, layers and mechanisms with -v."
    for warning in profile.warnings:
        yield f"warning: {warning.text}"


def _refuse_terminal(viewer: Viewer, output: Path | None) -> None:
    if output is None and not viewer.text and sys.stdout.isatty():
        raise ExperimentError(
            f"{viewer.name} is no text for a terminal",
            where="--format",
            advice=f"--output profile.{viewer.ending}",
        )


def _write(content: bytes, output: Path | None) -> None:
    if output is None and sys.stdout.isatty():
        click.echo(content.decode(), nl=False)
        return
    if output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        write_file(output, content)
    except OSError as error:
        raise StoreError(
            f"cannot be written: {error.strerror or error}", where=str(output), advice="name another place"
        ) from error
    click.echo(f"iodyno: profile: {output}", err=True)
