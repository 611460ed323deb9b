"""`iodyno model cost`: from the trials of a campaign, or your own, to an equation of what an operation costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.campaign_argument import complete_campaign, tell_lost
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.given import given
from iodyno.cli.model.own_file import OwnFile
from iodyno.cli.number import NUMBER, NumberRange
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.report.form import Form

if TYPE_CHECKING:
    from iodyno.analysis.cost_model.asked import Asked
    from iodyno.analysis.cost_model.data import CostData
    from iodyno.analysis.cost_model.fit import Errors, Method


@click.command(name="cost")
@click.argument("campaign", type=OwnFile(), shell_complete=complete_campaign, required=False)
@click.option("--csv", "own", type=OwnFile(dir_okay=False), metavar="FILE",
              help="Own data: a line of names, then a line a trial. A file in the campaign's place is that too.")  # fmt: skip
@click.option(
    "--outcome",
    help="What is modelled (default: the cost that the experiment names first, else the sender's; with --cores CPU time of an"
    " operation; the last column of --csv).",
)
@click.option(
    "--formula",
    help="Such as 'cost ~ (read + log(size) + protocol)**2' (default: all effects and pairs, as lines or, where no line fits,"
    " every level for itself).",
)
@click.option("--method", type=click.Choice(["auto", "ols", "wls", "huber", "quantile"]), default="auto",
              show_default=True, help="How it is fitted; auto weights trials whose spread grows with the mean.")  # fmt: skip
@click.option("--errors", type=click.Choice(["auto", "classical", "hc3"]), default="auto", show_default=True,
              help="Standard errors; auto takes HC3 where the spread is uneven.")  # fmt: skip
@click.option("--quantile", type=NumberRange(0, 1, min_open=True, max_open=True), default=0.5, show_default=True,
              help="Of --method quantile.")  # fmt: skip
@click.option(
    "--at", "at", metavar="LEVELS", default="", help="A point or a mix: 'read=50%,protocol=tcp:70%+udp:30%'."
)
@click.option(
    "--ratio",
    "ratios",
    multiple=True,
    metavar="FACTOR",
    help="Ratio of two levels: protocol, or protocol=udp/tcp.",
)
@click.option(
    "--per", metavar="FACTOR", help="The load, where the outcome is busy cores: its slope is the cost of one."
)
@click.option("--cores", is_flag=True, help="Cores needed for --load at --target-utilisation.")
@click.option("--load", metavar="RATE", help="Operations per second to be carried, such as 70000/s.")
@click.option("--target-utilisation", metavar="SHARE", help="How busy a core may be, such as 70%.")
@click.option("--unit", help="Unit of the outcome of --csv: 'ns/operation', cores, '% of 8 cores'.")
@click.option("--published", type=OwnFile(dir_okay=False), metavar="FILE",
              help="A published table of coefficients (term,coefficient,low,high) in the place of trials.")  # fmt: skip
@click.option(
    "--standard-error", type=NUMBER, metavar="NUMBER", help="Of each coefficient of --published, in --unit."
)
@click.option(
    "--residual-df", type=int, metavar="N", help="Degrees of freedom of that error: trials less terms."
)
@click.option(
    "--keep",
    metavar="FACTORS",
    help="Factors that the factored equation of --per keeps, joined by commas (default: all).",
)
@click.option("--beyond-range", is_flag=True, help="Predict outside of the levels measured, with a warning.")
@verbose_option
@format_option()
def command(
    campaign: Path | None,
    own: Path | None,
    outcome: str | None,
    formula: str | None,
    method: Method,
    errors: Errors,
    quantile: float,
    at: str,
    ratios: tuple[str, ...],
    per: str | None,
    cores: bool,
    load: str | None,
    target_utilisation: str | None,
    unit: str | None,
    published: Path | None,
    standard_error: float | None,
    residual_df: int | None,
    keep: str | None,
    beyond_range: bool,
    verbose: bool,
    form: Form,
) -> None:
    """Find what an outcome of a CAMPAIGN (or of --csv) is made of.

    Prints the equation in natural units, and what explains the variation; with -v coefficients with 95 % intervals, and checks
    of the model; then what follows: cost of an operation at a point or mix of levels, ratios, cores needed. Levels that --at does
    not name stand at the middle of their range, or an even mix of words.

    \b
    Examples:
      iodyno model cost campaigns/NAME
      iodyno model cost campaigns/NAME --at 'size=4KiB' --ratio protocol
      iodyno model cost campaigns/NAME --at 'protocol=udp' --cores \\
        --load 70000/s --target-utilisation 70%
      iodyno model cost --published table.csv --unit '% of 8 cores' \\
        --standard-error 0.018 --residual-df 624 --per iops
      iodyno model cost --csv trials.csv \\
        --formula 'cpu ~ (read + protocol + iops)**2' --per iops \\
        --unit '% of 8 cores'
    """
    # Imported here: numpy and scipy are slow, and `--help` needs neither.
    from iodyno.analysis.cost_model.asked import Asked, derive
    from iodyno.analysis.cost_model.fit import fit
    from iodyno.analysis.cost_model.study import study, usual_studies
    from iodyno.report.cost_answer import study_shown

    kept = tuple(filter(None, (name.strip() for name in keep.split(",")))) if keep is not None else None
    asked = Asked(
        _levels(at), ratios, per, cores, _rate(load), _share(target_utilisation), beyond_range, kept
    )
    _check(asked)
    typed = given(click.get_current_context())
    for name in ("method", "errors", "quantile") if published is not None else ():
        if name in typed:
            raise ExperimentError(
                "nothing is fitted beside --published", where=f"--{name}", advice="leave it out"
            )
    if "quantile" in typed and method != "quantile":
        raise ExperimentError(
            f"it is for --method quantile, and the method is {method}",
            where="--quantile",
            advice="--method quantile",
        )
    if "errors" in typed and method not in ("auto", "ols", "wls"):
        raise ExperimentError(
            f"it is for least squares, and the method is {method}", where="--errors", advice="leave it out"
        )
    if published is not None:
        trials: dict[str, object] = {"CAMPAIGN": campaign, "--csv": own, "--formula": formula}
        _published(published, trials, outcome, unit, standard_error, residual_df, asked, form)
        return
    if standard_error is not None or residual_df is not None:
        raise ExperimentError("it is for --published", where="--standard-error, --residual-df")
    data = _data(campaign, own, outcome, formula, unit, of_an_operation=cores)
    how: dict[str, Any] = {"method": method, "errors": errors, "quantile": quantile}
    made, *others = [study(fit(data, formula, **how), per)] if formula or per else usual_studies(data, **how)
    try:
        derived, needed = derive(made.model, asked, data.carried_per_s)
    except ExperimentError:
        if not others:
            raise
        # Between the levels that were measured only lines say something.
        made = others[0]
        derived, needed = derive(made.model, asked, data.carried_per_s)
    show(study_shown(made, derived, needed, asked, verbose=verbose), form)


def _published(
    file: Path,
    trials: dict[str, object],
    outcome: str | None,
    unit: str | None,
    standard_error: float | None,
    residual_df: int | None,
    asked: Asked,
    form: Form,
) -> None:
    """Show what follows from coefficients that somebody else has published."""
    from iodyno.analysis.cost_model.asked import derive
    from iodyno.analysis.cost_model.published import read_published
    from iodyno.report.cost_answer import published_shown

    for where, beside in trials.items():
        if beside is not None:
            raise ExperimentError(
                "there are no trials beside --published", where=where, advice="leave it out"
            )
    if standard_error is None or residual_df is None or unit is None:
        missing = (
            "--unit" if unit is None else "--standard-error" if standard_error is None else "--residual-df"
        )
        raise ExperimentError(
            "a published table needs its unit, and how sure its coefficients are",
            where=missing,
            advice="--unit '% of 8 cores' --standard-error 0.018 --residual-df 624",
        )
    model = read_published(
        file, outcome=outcome or "cost", unit=unit, standard_error=standard_error, residual_df=residual_df
    )
    derived, needed = derive(model, asked)
    show(published_shown(model, derived, needed, asked), form)


def _check(asked: Asked) -> None:
    given = asked.load_per_s is not None or asked.target_utilisation is not None
    if asked.cores and (asked.load_per_s is None or asked.target_utilisation is None):
        missing = "--load" if asked.load_per_s is None else "--target-utilisation"
        advice = (
            "--load 70000/s"
            if asked.load_per_s is None
            else "--target-utilisation 70%: 100 % has no answer time"
        )
        raise ExperimentError("--cores needs a load and how busy a core may be", where=missing, advice=advice)
    if given and not asked.cores:
        raise ExperimentError("a load and a target are for --cores", where="--load", advice="--cores")


def _data(
    campaign: Path | None,
    own: Path | None,
    outcome: str | None,
    formula: str | None,
    unit: str | None,
    *,
    of_an_operation: bool,
) -> CostData:
    if (campaign is None) == (own is None):
        raise ExperimentError(
            "a campaign cannot be used with --csv" if campaign else "missing: a campaign, or --csv",
            where="CAMPAIGN",
            advice="one of them",
        )
    left = formula.partition("~")[0].strip() if formula and "~" in formula else ""
    if left and outcome and left != outcome:
        raise ExperimentError(
            f"invalid value {outcome!r}: --formula has {left!r}",
            where="--outcome",
            advice="one of them",
        )
    wanted = outcome or left or None
    # A file in a campaign's place can only be a table.
    own = campaign if campaign is not None and campaign.is_file() else own
    if own is not None:
        from iodyno.analysis.cost_model.data import read_csv

        return read_csv(own, wanted, unit or "", formula)
    if unit:
        raise ExperimentError(
            "the unit of a campaign's outcome is known", where="--unit", advice="leave it out"
        )
    from iodyno.analysis.cost_model.study import data_of
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse

    assert campaign is not None
    summary = analyse(read_dataset(campaign))
    tell_lost(campaign, summary.trials)
    return data_of(summary, wanted, of_an_operation=of_an_operation)


def _levels(written: str) -> dict[str, str]:
    """`read=50%,protocol=tcp` as names and levels."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, equals, level = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not level:
            raise ExperimentError(
                invalid(part, "NAME=LEVEL"), where="--at", advice="--at 'read=50%,protocol=tcp'"
            )
        if name in found:
            raise ExperimentError(f"{name} stands there twice", where="--at")
        found[name] = level
    return found


def _rate(written: str | None) -> float | None:
    if written is None:
        return None
    try:
        return float(quantity.parse("rate", written))
    except ValueError as problem:
        raise ExperimentError(str(problem), where="--load") from None


def _share(written: str | None) -> float | None:
    if written is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", written)
    if match is None:
        raise ExperimentError(
            invalid(written, "a share in per cent"), where="--target-utilisation", advice="70%"
        )
    return float(match[1]) / 100
