"""`iodyno model cost`: from the trials of a campaign, or your own, to an equation of what an operation costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.campaign_argument import complete_campaign
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.given import given
from iodyno.cli.number import NUMBER, NumberRange
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.report.form import Block, Form, Shown

if TYPE_CHECKING:
    from iodyno.analysis.cost_model.data import CostData
    from iodyno.analysis.cost_model.derived import Cores, Derived, FactoredTerm
    from iodyno.analysis.cost_model.fit import Errors, Method
    from iodyno.analysis.cost_model.model import CostModel
    from iodyno.analysis.cost_model.shown import CostStudy


@dataclass(frozen=True)
class Asked:
    """Quantities that are to be derived from the model."""

    at: dict[str, str]
    ratios: tuple[str, ...]
    per: str | None
    cores: bool
    load_per_s: float | None
    target_utilisation: float | None
    beyond_range: bool
    keep: tuple[str, ...] | None


@click.command(name="cost")
@click.argument("campaign", type=click.Path(path_type=Path), shell_complete=complete_campaign, required=False)
@click.option("--csv", "own", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Own data: a line of names, then a line a trial. A file in the campaign's place is that too.")  # fmt: skip
@click.option(
    "--outcome",
    help="What is modelled (default: the CPU per operation that the experiment names first, else the sender's; the last"
    " column of --csv).",
)
@click.option(
    "--formula", help="Such as 'cost ~ (read + log(size) + protocol)**2' (default: all effects and pairs)."
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
@click.option("--published", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
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
    from iodyno.analysis.cost_model.fit import fit
    from iodyno.analysis.cost_model.study import study

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
    data = _data(campaign, own, outcome, formula, unit)
    found = fit(data, formula, method=method, errors=errors, quantile=quantile)
    made = study(found, per)
    derived, needed = _derive(found.model, asked, data.carried_per_s)
    from iodyno.report.cost_answer import coefficient_rows
    from iodyno.report.cost_model import study_json

    shown = Shown(
        blocks=lambda: study_blocks(made, derived, needed, found.model, asked, verbose=verbose),
        values=lambda: study_json(made, derived, needed, _factored(found.model, asked)),
        rows=lambda: coefficient_rows(made, derived, needed),
    )
    show(shown, form)


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
    from iodyno.analysis.cost_model.published import read_published
    from iodyno.report.cost_answer import derived_rows
    from iodyno.report.cost_model import published_json

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
    derived, needed = _derive(model, asked)
    terms = _factored(model, asked)

    def blocks() -> Iterator[Block]:
        yield from _factored_blocks(model, asked, terms)
        yield from _what_follows(derived, needed)
        yield f"{model.method[:1].upper()}{model.method[1:]}. Intervals are 95 %."
        yield from _warned(derived, needed)

    shown = Shown(
        blocks=blocks,
        values=lambda: published_json(model, terms, derived, needed),
        rows=lambda: derived_rows(derived, needed),
    )
    show(shown, form)


def _what_follows(derived: list[Derived], cores: Cores | None) -> Iterator[Block]:
    from iodyno.report.cost_model import cores_sentence, derived_table

    if cores:
        yield cores_sentence(cores) + "\n"
    if derived or cores:
        yield derived_table(derived, cores)


def _warned(derived: list[Derived], cores: Cores | None) -> Iterator[Block]:
    texts: dict[str, list[str]] = {}
    for one in (*derived, *((cores.busy,) if cores else ())):
        for warning in one.warnings:
            texts.setdefault(warning.code, []).append(warning.text)
    for first, *others in texts.values():
        yield f"warning: {first}{f'; and {len(others)} more like it' if others else ''}"


def _factored(model: CostModel, asked: Asked) -> tuple[FactoredTerm, ...]:
    """The equation of what one of the load costs, where one is named."""
    from iodyno.analysis.cost_model.derived import factored

    if asked.per is None:
        if asked.keep is not None:
            raise ExperimentError("it is of the equation of --per", where="--keep", advice="--per FACTOR")
        return ()
    names = [factor.name for factor in (coding.factor for coding in model.formula.codings.values())]
    for name in asked.keep or ():
        if name not in names:
            raise ExperimentError(invalid(name, ", ".join(names)), where="--keep")
    try:
        return factored(model, asked.per, asked.keep)
    except ExperimentError:
        # Not every model can be written so; who names what to keep asks for it, and is told why not.
        if asked.keep is not None:
            raise
        return ()


def _factored_blocks(model: CostModel, asked: Asked, terms: tuple[FactoredTerm, ...]) -> Iterator[Block]:
    from iodyno.report.cost_model import factored_lines, factored_table

    if terms and asked.per:
        yield "\n".join((*factored_lines(model, asked.per, terms), ""))
        yield factored_table(model, asked.per, terms)


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
    campaign: Path | None, own: Path | None, outcome: str | None, formula: str | None, unit: str | None
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
    from iodyno.analysis.cost_model.study import campaign_data, costs_of
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse

    assert campaign is not None
    summary = analyse(read_dataset(campaign))
    sender = summary.host("send")
    if wanted is None:
        known = {
            name for trial in summary.trials for name, value in trial.outcomes.items() if value is not None
        }
        costs = costs_of(summary)
        wanted = next(
            (name for name in costs if name in known), costs[0] if costs else "cpu_ns_per_operation"
        )
    elif "." not in wanted and sender and not any(wanted in trial.outcomes for trial in summary.trials):
        wanted = f"{sender.name}.{wanted}"
    return campaign_data(summary, wanted)


def _derive(
    model: CostModel, asked: Asked, carried_per_s: float | None = None
) -> tuple[list[Derived], Cores | None]:
    from iodyno.analysis.cost_model.derived import (
        cores_needed,
        cost_per_operation,
        cost_unit,
        difference_of_levels,
        operations_per_core,
        predicted,
        ratio_of_levels,
    )

    found: list[Derived] = []
    options: dict[str, Any] = {"load": asked.per, "beyond_range": asked.beyond_range}
    try:
        of_one = bool(cost_unit(model.unit).per)
    except ExperimentError:
        of_one = False
    if asked.cores or asked.per or (of_one and (asked.at or asked.ratios)):
        point = asked.at
        found.append(cost_per_operation(model, point, **options))
        found.append(operations_per_core(model, point, **options))
    if asked.at and not found:
        found.append(predicted(model, asked.at, beyond_range=asked.beyond_range))
    for written in asked.ratios:
        factor, _, pair = written.partition("=")
        levels = None
        if pair:
            above, slash, below = pair.partition("/")
            if not slash:
                raise ExperimentError(
                    invalid(written, "two words of one factor"), where="--ratio", advice=f"{factor}=a/b"
                )
            levels = (above.strip(), below.strip())
        rest = {name: level for name, level in asked.at.items() if name != factor.strip()}
        found.append(ratio_of_levels(model, factor.strip(), rest, levels=levels, **options))
        found.append(difference_of_levels(model, factor.strip(), rest, levels=levels, **options))
    if not asked.cores:
        return found, None
    assert asked.load_per_s is not None
    assert asked.target_utilisation is not None
    needed = cores_needed(
        model,
        asked.at,
        load_per_s=asked.load_per_s,
        target_utilisation=asked.target_utilisation,
        carried_per_s=carried_per_s,
        **options,
    )
    return found, needed


def study_blocks(
    made: CostStudy,
    derived: list[Derived],
    cores: Cores | None,
    model: CostModel,
    asked: Asked,
    *,
    verbose: bool,
) -> Iterator[Block]:
    """Yield a model and what follows from it; `verbose`: its coefficients and checks, too."""
    from iodyno.report.cost_answer import study_headline

    terms = _factored(model, asked)
    # What was asked for comes before what it is from.
    yield from _what_follows(derived, cores)
    yield from _factored_blocks(model, asked, terms)
    yield study_headline(made)
    yield from _warned(derived, cores)
    if verbose:
        yield ""
        yield from model_blocks(made)


def model_blocks(made: CostStudy) -> Iterator[Block]:
    """Yield the equation with all digits, its coefficients, what explains the variation, and checks."""
    from iodyno.report.cost_model import (
        check_lines,
        coefficient_table,
        effects_table,
        equation_lines,
        variation_table,
    )

    yield from equation_lines(made)
    yield ""
    yield coefficient_table(made)
    yield variation_table(made)
    effects = effects_table(made)
    if effects:
        yield effects
    yield "Checks (! is a warning)"
    yield from check_lines(made)
    left = f" {counted(made.left_out, 'trial')} left out, without this outcome." if made.left_out else ""
    yield f"\n{made.model.method[:1].upper()}{made.model.method[1:]}.{left} Intervals are 95 %."


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
