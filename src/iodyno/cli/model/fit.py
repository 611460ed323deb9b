"""`iodyno model fit`: which queue, or which law of scaling, is behind what was measured?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from iodyno.cli.campaign_argument import complete_campaign
from iodyno.cli.form import format_option, verbose_option
from iodyno.cli.given import given
from iodyno.cli.model.own_file import OwnFile
from iodyno.cli.number import NUMBER, SEED
from iodyno.core.errors import ExperimentError
from iodyno.report.form import Form


@click.command(name="fit")
@click.argument("campaign", type=OwnFile(), shell_complete=complete_campaign, required=False)
@click.option("--csv", "own", type=OwnFile(dir_okay=False), metavar="FILE",
              help="Own points: a header and two columns, load and rate. A file in CAMPAIGN's place is that too.")  # fmt: skip
@click.option("--columns", metavar="N,X", help="Names of the two columns of --csv, where there are more.")
@click.option("--scaling", is_flag=True,
              help="Fit the Universal Scalability Law, and find its knees; that is what --csv is for.")  # fmt: skip
@click.option("--factor", help="Factor that is the load (default: connections, queue_depth or rate).")
@click.option("--outcome", default="operations_per_s", show_default=True, help="Rate of a closed loop.")
@click.option(
    "--hold-out",
    metavar="LOADS",
    help="Loads that the fit must not see and predicts: 64, or 32,64, or largest:2, or third.",
)
@click.option("--at", metavar="N,N,...", help="Loads to predict the rate at, with --scaling.")
@click.option("--extrapolate", is_flag=True,
              help="Follow the curve of --scaling up to twice as far as the data, where a point lies past the knee.")  # fmt: skip
@click.option("--share", type=NUMBER, metavar="X",
              help="Marginal gain below which the knee of that name is, with --scaling (default: a tenth).")  # fmt: skip
@click.option("--errors", type=click.Choice(["relative", "absolute"]), default="relative", show_default=True,
              help="What --scaling makes least: relative errors, or absolute ones as in R's usl.")  # fmt: skip
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the bootstrap.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a picture there."
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page there."
)
@verbose_option
@format_option()
def command(
    campaign: Path | None,
    own: Path | None,
    columns: str | None,
    scaling: bool,
    factor: str | None,
    outcome: str,
    hold_out: str | None,
    seed: int,
    svg: Path | None,
    html: Path | None,
    verbose: bool,
    form: Form,
    **of_scaling: Any,
) -> None:
    """Fit queues and scaling laws to the points of CAMPAIGN, a line each combination of the other factors.

    Closed loops: rate against operations in flight. Open loops: mean response time against the offered rate, with the
    measured variance of service times. The model that predicts each load best from the others is chosen, its parameters
    have intervals, and what the points do not carry is refused.

    --scaling fits X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) to rates of a closed loop, beside Amdahl's law and a
    closed queue; every knee has its definition, and one that no point lies beyond is not given.

    \b
    Examples:
      iodyno model fit campaigns/NAME
      iodyno model fit campaigns/NAME --hold-out largest:2 --svg fit.svg
      iodyno model fit campaigns/NAME --scaling --outcome goodput_bits_per_s
      iodyno model fit --csv threads-vs-rate.csv --at 24,48 --extrapolate \\
        --svg curve.svg
    """
    asked = {**of_scaling, "seed": seed, "svg": svg, "verbose": verbose, "form": form}
    if (campaign is None) == (own is None):
        raise ExperimentError(
            "name the points once: a campaign or a table",
            where="CAMPAIGN, --csv",
            advice="iodyno model fit --csv threads-vs-rate.csv",
        )
    own = campaign if campaign is not None and campaign.is_file() else own
    _refuse_others(given(click.get_current_context()), own is not None, scaling)
    # Imported here: what it needs is slow to load, and `--help` does not need it.
    if own is not None:
        from iodyno.cli.model.scaling import scale_table

        scale_table(own, columns, asked)
        return
    from iodyno.cli.model.fitted import fit_campaign

    assert campaign is not None
    fit_campaign(campaign, factor, outcome, scaling, {**asked, "hold_out": hold_out, "html": html})


def _refuse_others(typed: set[str], own: bool, scaling: bool) -> None:
    """Raises ExperimentError for an option without an effect."""
    whose = {
        "a campaign": () if not own else ("factor", "outcome", "hold_out", "html"),
        "--csv": () if own else ("columns",),
        "--scaling": () if own or scaling else ("at", "extrapolate", "share", "errors"),
        "queues, which --scaling does not fit": ("hold_out", "html") if scaling else (),
    }
    for of, names in whose.items():
        for name in names:
            if name in typed:
                raise ExperimentError(
                    f"it is for {of}", where=f"--{name.replace('_', '-')}", advice="leave it out"
                )
