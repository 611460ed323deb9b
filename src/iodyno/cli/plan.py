"""`iodyno plan`: what a run would do, and how long it would take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli import design_options
from iodyno.cli.campaign_argument import tell_lost
from iodyno.cli.experiment_argument import experiment_argument
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.options import GroupedCommand
from iodyno.cli.prove import asked_proof, proof_options
from iodyno.cli.share import SHARE, SHARE_OR_NONE
from iodyno.report.form import Form

if TYPE_CHECKING:
    from iodyno.analysis.repeatability import Repeatability


@click.command(name="plan", cls=GroupedCommand)
@experiment_argument
@click.option("--quick", is_flag=True, help="Plan the quick form.")
@proof_options
@design_options.of_design
@click.option(
    "--noise", type=SHARE, help="Noise between trials of a point, such as 5%: intervals are for it."
)
@click.option("--noise-from", metavar="CAMPAIGN", help="Take the noise from this campaign's replicates.")
@click.option("--outcome", help="Outcome whose noise is taken.  [default: the campaign's first]")
@click.option("--effect", type=SHARE, help="Effect, such as 10%, of which the power is told.")
@click.option(
    "--plot-noise", type=SHARE_OR_NONE, default="0", help="Noise between whole plots, where factors are slow."
)
@verbose_option
@format_option()
def command(
    file: str,
    quick: bool,
    prove: str | None,
    noise: float | None,
    noise_from: str | None,
    outcome: str | None,
    effect: float | None,
    plot_noise: float,
    verbose: bool,
    form: Form,
    **options: Any,
) -> None:
    """Show how many trials the experiment in FILE has, how long they take, and what they will tell. Runs nothing.

    With -v also the points and their order, which is random inside each block, drawn from the seed: the same file gives the
    same order. With --noise each effect is told. Options such as
    --design replace keys of the file's section `design`; `iodyno run` takes the same ones.

    \b
    Examples:
      iodyno plan study:tcp-transmit
      iodyno plan study:tcp-transmit --quick -v
      iodyno plan study:tcp-transmit --format csv > order.csv
      iodyno plan study:tcp-options --design fractional --resolution 3 \\
        --noise 5% --effect 10%
      iodyno plan study:tcp-options --design full_factorial --split 2 \\
        --slow nagle
      iodyno plan study:tcp-options --design-file order.csv
    """
    from iodyno.designs.evaluation import evaluate
    from iodyno.designs.stopping import extended
    from iodyno.report.planned import plan_shown

    if noise is not None and noise_from:
        raise click.UsageError("--noise cannot be used with --noise-from")
    if outcome and not noise_from:
        raise click.UsageError("--outcome can only be used with --noise-from")
    model = options["design_model"]
    experiment, design = design_options.planned(
        file, quick=quick, design=design_options.asked(options, evaluates=True)
    )
    experiment = replace(experiment, prove=asked_proof(prove) or experiment.prove)
    if experiment.until:
        experiment = extended(experiment)
        design = design_options.plan_of(experiment, file)
    measured = _noise_of(noise_from, outcome)
    evaluation = None
    if form != "csv":
        evaluation = evaluate(
            experiment,
            design,
            noise_ratio=measured.noise_ratio if measured else noise,
            effect_ratio=effect,
            plot_noise_ratio=plot_noise,
            model=model,
        )
    for note in experiment.notes:
        click.echo(f"iodyno: note: {note}", err=True)
    show(plan_shown(experiment, design, evaluation, measured, verbose=verbose), form)


def _noise_of(campaign: str | None, outcome: str | None) -> Repeatability | None:
    if campaign is None:
        return None
    # Imported here: it reads and analyses a campaign, which most plans do not ask for.
    from iodyno.analysis.repeatability import of_campaign
    from iodyno.analysis.summary import analyse_campaign

    summary = analyse_campaign(Path(campaign))
    tell_lost(campaign, summary.trials)
    return of_campaign(summary, outcome)
