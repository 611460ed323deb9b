"""Measuring right now, without a file: options become an experiment, a campaign runs, its one point is shown."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from iodyno.cli import expect as expectations
from iodyno.cli.again import again as command_again
from iodyno.cli.form import format_option, show
from iodyno.cli.number import Seconds
from iodyno.cli.signals import named_when_stopped
from iodyno.core.errors import ExperimentError, IodynoError, TrialError
from iodyno.core.expectation import Expectation, parse
from iodyno.core.experiment import SENSOR_LEVELS, Experiment
from iodyno.core.invalid import for_key
from iodyno.core.warnings import WarningCode
from iodyno.core.workload import SOCKET_NUMBERS, Workload
from iodyno.quick import is_open
from iodyno.report.form import Form

if TYPE_CHECKING:
    from iodyno.analysis.dataset import Dataset
    from iodyno.analysis.results import CampaignSummary
    from iodyno.formats.mistakes import Mistake

_LONGEST_METAVAR = 44
"""Chosen: with it a line of help stays within 80 columns; words that are longer together stand in the text."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

_IN_TIME = "ask for a lower rate, or give the sender CPUs to itself"
_PAST_THE_CACHE = "take --direct or a larger --size, or leave --cached out"
"""Advice where every trial is void: its generator fell behind, or its page cache was not as asked."""


def level(
    workload: Workload, option: str, name: str, default: str | None = None
) -> Callable[[_Function], _Function]:
    """An option that holds a level of the workload's parameter as it was written."""
    parameter = workload.parameter(name)
    assert parameter is not None
    words = "|".join(parameter.words)
    help_text = parameter.help
    if len(words) > _LONGEST_METAVAR:
        help_text, words = f"{help_text} One of {', '.join(parameter.words)}.", ""

    def checked(ctx: click.Context, _option: click.Parameter, written: str | None) -> str | None:
        try:
            if written is not None:
                parameter.parse(written)
        except ValueError as problem:
            raise click.BadParameter(str(problem), ctx, param_hint=option) from None
        return written

    return click.option(
        option,
        name,
        metavar=words or parameter.kind.upper(),
        default=default,
        show_default=True,
        callback=checked,
        help=help_text,
        shell_complete=lambda _ctx, _option, begun: [w for w in parameter.words if w.startswith(begun)],
    )


def socket_numbers(workload: Workload) -> Callable[[_Function], _Function]:
    """Add the options of sockets that are one number."""

    def add(function: _Function) -> _Function:
        for parameter in reversed(SOCKET_NUMBERS):
            function = level(workload, f"--{parameter.name.replace('_', '-')}", parameter.name)(function)
        return function

    return add


_MEASURES = (
    click.option(
        "--profile", is_flag=True, help="Sample call stacks, to tell which functions the cost is of."
    ),
    click.option(
        "--sensors",
        type=click.Choice(SENSOR_LEVELS),
        default="light",
        show_default=True,
        help="How much is read beside the load: light is what rates, costs and the limiter need, off rates and times alone.",
    ),
    click.option(
        "--background",
        "background_window",
        metavar="DURATION",
        help="Measure the idle machine for so long before and after.  [default: a tenth of --seconds, 100ms to 1s]",
    ),
    format_option(),
    click.option(
        "--into",
        type=click.Path(path_type=Path),
        default=Path("campaigns"),
        show_default=True,
        help="Folder in which the campaign's folder is made.",
    ),
)


def alone(function: _Function) -> _Function:
    """Options of every command that measures right now: --profile, --sensors, --background, --format, --into."""
    for option in reversed(_MEASURES):
        function = option(function)
    return function


def common(function: _Function) -> _Function:
    """The same for a command that measures between two hosts, the argument HOST, and --to, which means the same."""

    @functools.wraps(function)
    def reaching(*args: Any, host: str | None, to: str | None, **more: Any) -> Any:
        if host and to:
            raise click.UsageError("--to cannot be used with HOST: they mean the same")
        return function(*args, to=host or to, **more)

    to = click.option(
        "--to", metavar="[USER@]HOST", help="The other host, by ssh; without it, two hosts in this machine."
    )
    return cast(_Function, click.argument("host", required=False, metavar="[HOST]")(to(alone(reaching))))


seconds = click.option(
    "--seconds",
    type=Seconds(0.1, 86_400),
    default=3,
    show_default=True,
    help="Measured time: of up to three trials together, each of a second or more, or of each with --repeat.",
)
clients = click.option(
    "--clients",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Hosts on this machine that load the one server, each with as many connections.",
)
repeat = click.option("--repeat", type=click.IntRange(1, 1000), help="Number of trials, each of --seconds.")


def experiment_of(keys: Mapping[str, Any]) -> Experiment:
    """The experiment with these keys, which the options of the running command ask for.

    Raises ExperimentError, which names options where a file has keys, and no line: nobody wrote one.
    """
    # Imported here: slow, and not needed for `--help`.
    from iodyno import designs
    from iodyno.campaign import refused_points
    from iodyno.formats.experiment_file import experiment_text, parse_experiment
    from iodyno.formats.mistakes import MistakesError

    context = click.get_current_context()
    if keys["profile"] and keys["sensors"] == "off":
        raise click.UsageError("--profile cannot be used with --sensors off")
    try:
        experiment = parse_experiment(experiment_text(keys), file=context.command_path, environment={})
        refused_points.refuse(experiment, designs.plan(experiment), context.command_path)
        return experiment
    except MistakesError as error:
        options = {p.name or "": p.opts[0] for p in context.command.params if isinstance(p, click.Option)}
        kind = keys["workload"]["kind"]
        said = [_of_option(mistake, options, kind) for mistake in error.mistakes]
        if len(said) == 1:
            where, what = said[0]
        else:
            where = context.command_path
            what = f"{len(said)} mistakes" + "".join(f"\n  {for_key(option, text)}" for option, text in said)
        raise ExperimentError(what, where=where, advice=f"{context.command_path} --help") from None


def _of_option(mistake: Mistake, options: Mapping[str, str], kind: str) -> tuple[str, str]:
    """Which option a mistake is of, and what it is; that of a key that no option stands for is told by its key."""
    key = mistake.path.rpartition(".")[2].partition("[")[0]
    option = options.get(key, mistake.path)
    if mistake.text.startswith("unknown key") and key in options:
        return option, f"cannot be used with {kind.replace('_', ' ')}"
    return option, mistake.text


def measure(
    experiment: Experiment,
    into: Path,
    *,
    stored: Callable[[Path], None] = lambda folder: None,
    **more: Any,
) -> Path:
    """Runs the experiment as `iodyno run` does; the campaign's folder. `stored` is called with it when all is on the disk; `more`
    is for `execute`. Raises TrialError.
    """
    from iodyno import designs
    from iodyno.cli.execute import execute, folder_for, raise_for
    from iodyno.session.locate import find_agent
    from iodyno.store.schema import EXPERIMENT

    design = designs.plan(experiment)
    program = find_agent()
    folder = folder_for("run", experiment.name, into, None)
    again = command_again(
        "run",
        folder / EXPERIMENT,
        folder,
        destroy=more.get("destroy"),
        remove_targets=more.get("remove_targets"),
    )
    outcome = execute(
        experiment,
        design,
        folder,
        resume=False,
        again=again,
        program=program,
        stored=lambda: stored(folder),
        **more,
    )
    raise_for(outcome, len(design.trials), folder, again)
    return folder


def gate(function: _Function) -> _Function:
    """Add --expect and --junit."""
    return expectations.expect(expectations.junit(function))


def measure_and_show(
    keys: Mapping[str, Any],
    into: Path,
    *,
    form: Form,
    verbose: bool,
    expect: Sequence[Expectation],
    junit: Path | None,
    **more: Any,
) -> None:
    """Runs the experiment with these keys and shows what it found, which is read while the agents close.

    Raises ExpectationError where that is not as expected, TrialError and Interrupted.
    """
    if junit is not None and not expect:
        raise click.UsageError("--junit can only be used with --expect")
    if is_open(keys["workload"]):
        expect = [parse(each.text, keys["name"], opened=True) for each in expect]
    asked = list(keys["outcomes"])
    others = dict.fromkeys(each.outcome for each in expect if each.outcome not in asked)
    experiment = experiment_of({**keys, "outcomes": [*asked, *others]})
    reading: list[Future[tuple[Dataset, CampaignSummary]]] = []
    try:
        with ThreadPoolExecutor(1) as pool:
            folder = measure(
                experiment,
                into,
                ahead=_import,
                stored=lambda at: reading.append(pool.submit(_read, at)),
                quiet=not verbose,
                **more,
            )
            with named_when_stopped(folder):
                dataset, summary = reading[0].result()
                show_found(folder, dataset, summary, form=form, verbose=verbose)
    except IodynoError as problem:
        if junit is not None:
            checked = [expectations.Checked(each.text, error=str(problem)) for each in expect]
            expectations.write_junit(f"iodyno {experiment.name}", checked, junit)
        raise
    if expect:
        checked = expectations.check(expect, summary.points[0].outcomes)
        expectations.conclude(f"iodyno {experiment.name}", checked, junit)


def _import() -> None:
    """Import what `_read` and `show` need, while the load drains and the trial is stored."""
    for module in (
        "store.rows",
        "analysis.dataset",
        "analysis.summary",
        "store.documents",
        "report.headline",
    ):
        importlib.import_module(f"iodyno.{module}")


def _read(folder: Path) -> tuple[Dataset, CampaignSummary]:
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse

    dataset = read_dataset(folder)
    return dataset, analyse(dataset)


def show_found(
    folder: Path, dataset: Dataset, summary: CampaignSummary, *, form: Form, verbose: bool = False
) -> None:
    """Shows what a campaign of one point found. Raises TrialError where trials are void."""
    from iodyno.report.headline import point_shown

    void = {trial.name: str(trial.reason) for trial in dataset.trials if trial.status == "void"}
    show(point_shown(summary, str(folder), void, verbose=verbose), form)
    from_cache = any(
        d.code is WarningCode.READ_FROM_CACHE for trial in dataset.trials for d in trial.warnings
    )
    _refuse_void(folder, void, summary.points[0].finished, _PAST_THE_CACHE if from_cache else _IN_TIME)


def _refuse_void(folder: Path, void: Mapping[str, str], finished: int, advice: str) -> None:
    """Raises TrialError where a trial is void, which counts as failed as in any campaign."""
    if not void:
        return
    name, why = next(iter(void.items()))
    count = (
        f"{len(void)} of {finished + len(void)} trials are void, the first of them"
        if finished
        else "no trial counts"
    )
    raise TrialError(f"{count}: {why}", where=str(folder / "trials" / name), advice=advice)
