"""Functions of the command line: read or make an experiment, run it, look at what it found."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from html import escape
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iodyno import designs, quick, strategies
from iodyno.analysis.frames import CampaignFrames
from iodyno.campaign import refused_points
from iodyno.campaign.folder import new_folder
from iodyno.campaign.runner import run_campaign
from iodyno.campaign.strategy import Strategy
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import ExperimentError, StoreError, TrialError
from iodyno.core.experiment import Experiment, SensorLevel
from iodyno.core.invalid import for_key, invalid
from iodyno.core.noise import NoiseSpec
from iodyno.core.quantity import counted
from iodyno.core.search import parse_goal
from iodyno.core.warnings import Warning
from iodyno.designs import noise_ladder
from iodyno.formats import shipped
from iodyno.formats.experiment_file import experiment_text, parse_experiment, read_experiment
from iodyno.formats.mistakes import MistakesError
from iodyno.formats.tunable_sections import refuse_unknown
from iodyno.loads.base.campaign import load_for
from iodyno.store.schema import CAMPAIGN
from iodyno.strategies.explore import Explore

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from iodyno.analysis.cost_model.shown import CostStudy
    from iodyno.analysis.decisions.ladder import Ladder
    from iodyno.analysis.decisions.sides import PairVerdicts
    from iodyno.campaign.strategy import Answer

Folder = str | PathLike[str]
_T = TypeVar("_T")


class Campaign(CampaignFrames):
    """Measurements of a campaign, read from its folder. `answers`: what the strategies of the run that made it know at its end.

    Its frames hold everything (`trials`, `records`, `outcomes`, ...); `frame()` is what a table of results shows.
    """

    answers: Mapping[str, Answer] = {}

    def frame(self) -> DuckDBPyRelation:
        """A row for each point: its levels, each outcome with the ends of its 95 % interval, what limits, and warnings."""
        names = self.summary.asked
        columns = {"point": "VARCHAR"} | self._factors
        for name in names:
            columns |= {name: "DOUBLE", f"{name}.low": "DOUBLE", f"{name}.high": "DOUBLE"}
        columns |= {"trials": "BIGINT", "limiter": "VARCHAR", "warnings": "BIGINT"}
        rows = []
        for point in self.summary.points:
            row: list[Any] = [point.id, *self._levels(point.id)]
            for name in names:
                found = point.outcomes.get(name)
                row += [found.estimate, found.low, found.high] if found else [None, None, None]
            rows.append([*row, point.finished, point.limiter.name, len(point.warnings)])
        return self._table(columns, rows)

    @property
    def warnings(self) -> Sequence[Warning]:
        """Warnings that change the reading of a number, with the numbers that they are about."""
        return self.summary.warnings

    def report(self, path: Folder | None = None) -> Path:
        """Write the page, `report.html` in the campaign's folder unless `path` says where. Raises StoreError."""
        from iodyno.analysis.dataset import read_dataset
        from iodyno.analysis.function_study import study_functions
        from iodyno.report.html import write_dataset

        dataset = read_dataset(self.folder)
        place = self.folder / "report.html" if path is None else Path(path)
        return write_dataset(dataset, self.summary, place, study_functions(dataset))

    def heatmap(self, operation: str | None = None, path: Folder | None = None) -> str:
        """Draw the times of an operation (`write`, `request`, ...) over all trials, as SVG, and into `path` where one is named.

        Raises StoreError where no trial recorded it, with those that were, and where `path` cannot be written.
        """
        from iodyno.analysis.dataset import read_dataset
        from iodyno.analysis.heat_map.stored import Range, edges_for, grid_of
        from iodyno.analysis.operation_times import of_all, times_of
        from iodyno.report.heat_map import svg
        from iodyno.report.heat_map.layout import Look, lay_out

        trials = [trial for trial in read_dataset(self.folder).trials if trial.finished]
        known = {times.key: times for times in of_all(map(times_of, trials))}
        found = [times for key, times in known.items() if operation in (None, key[1])]
        if not found:
            there = ", ".join(sorted({key[1] for key in known})) or "none"
            raise StoreError(
                f"no trial recorded {operation!r}", where=str(self.folder), advice=f"operations: {there}"
            )
        shown = Range()
        grid = grid_of(found[0], edges_for(found[:1], shown), shown.scale)
        picture = svg.document([(lay_out(grid, {}, Look()), svg.script_data(grid))])
        if path is None:
            return picture
        if Path(path).suffix != ".svg":
            other = f"iodyno heatmap {self.folder} -o {path}"
            raise StoreError(
                "a name that ends with .svg is expected",
                where=str(path),
                advice=f"`{other}` for .html and .png",
            )
        try:
            Path(path).write_text(picture, encoding="utf-8")
        except OSError as error:
            raise StoreError(
                f"the heat map cannot be written: {error.strerror}", where=str(path), advice="another place"
            ) from error
        return picture

    def cost(
        self, outcome: str | None = None, formula: str | None = None, per: str | None = None
    ) -> CostStudy:
        """Find what an outcome is made of, by default the cost that the experiment names first: an equation, and its checks.

        `formula`: such as `cost ~ size + connections`; `per`: the factor that is the load. Raises ExperimentError.
        """
        from iodyno.analysis.cost_model.fit import fit
        from iodyno.analysis.cost_model.study import data_of, study, usual_studies

        data = data_of(self.summary, outcome)
        return study(fit(data, formula), per) if formula or per else usual_studies(data)[0]

    def functions(self, point: str, host: str | None = None) -> list[dict[str, Any]]:
        """List which functions take the CPU time of a host, by default the sender, at a point: `p01`, or as tables name it.

        Raises StoreError where no stacks were sampled.
        """
        from iodyno.analysis.dataset import read_dataset
        from iodyno.analysis.functions import read_profiles
        from iodyno.analysis.stacks import SAMPLED_BY
        from iodyno.report.function_json import function_rows

        chosen = next((p for p in self.summary.points if point in (p.id, self.summary.name_of(p))), None)
        if chosen is None:
            there = ", ".join(p.id for p in self.summary.points)
            raise StoreError(f"no point {point!r}", where=str(self.folder), advice=f"points: {there}")
        sender = self.summary.host("send") or self.summary.hosts[0]
        wanted = (chosen.id, host or sender.name)
        profiles = read_profiles(read_dataset(self.folder), (chosen.id,))
        if wanted not in profiles.found:
            reason = profiles.missing.get(wanted, "no such host, or no finished trial")
            raise StoreError(
                f"there is no profile: {reason}",
                where=str(self.folder),
                advice=SAMPLED_BY,
            )
        return [dict(row) for row in function_rows(profiles.found[wanted])]

    def __repr__(self) -> str:
        return f"Campaign({str(self.folder)!r}, {len(self.summary.points)} points, {len(self.summary.trials)} trials)"

    def _repr_html_(self) -> str:
        """A notebook shows the question, the first figure and the table."""
        from iodyno.report.figures import FIGURES, draw
        from iodyno.report.tables import source_tables

        shown = [f"<p><b>{escape(self.summary.question)}</b></p>"]
        figure = next((made for entry in FIGURES if (made := entry.make(self.summary)) is not None), None)
        shown += draw(figure)[:1] if figure is not None else []
        for table in source_tables(self.summary):
            heading = "".join(f"<th>{escape(column.title)}</th>" for column in table.columns)
            rows = "".join(
                f"<tr>{''.join(f'<td>{escape(cell.text)}</td>' for cell in row)}</tr>" for row in table.rows
            )
            shown.append(f"<table><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>")
        return "".join(shown)


def read(file: Folder, *, quick: bool = False) -> Experiment:
    """Read an experiment file, or `study:NAME` of those that ship; with `quick` its shorter form. Raises ExperimentError with all
    that is wrong in it.
    """
    return read_experiment(shipped.path_of(str(file)), quick=quick)


def plan(experiment: Experiment) -> Design:
    """Plan which trials an experiment runs, in which order. Raises ExperimentError where the design cannot be had."""
    _expect_read(experiment)
    refuse_unknown(experiment)
    return designs.plan(experiment)


def run(
    experiment: Experiment,
    *,
    into: Folder = "campaigns",
    strategy: Strategy | None = None,
    resume: Folder | None = None,
    progress: Callable[[str], None] | None = None,
    destroy: Sequence[str] = (),
) -> Campaign:
    """Run an experiment and read what it found. What is finished stays, whatever happens.

    `into`: the folder in which the campaign's own is made; `resume`: the campaign's folder to go on with. `strategy` decides
    which points run, instead of those that the experiment asks for. `progress` is called with a line for each stage and trial.
    `destroy`: targets on disks whose content may be lost. Raises AccessError and PreflightError where it cannot begin, and
    TrialError where trials failed for good.
    """
    design = plan(experiment)
    if resume is None:
        _refuse(experiment, design)
    folder = Path(resume) if resume is not None else new_folder(Path(into), experiment.name)
    again = f"run(..., resume={str(folder)!r})"
    answers = _carried_out(experiment, design, folder, resume is not None, progress, again, strategy, destroy)
    found = Campaign(folder)
    found.answers = answers
    return found


def explore(
    experiment: Experiment,
    *,
    outcome: str | None = None,
    least: float = 0.05,
    into: Folder = "campaigns",
    resume: Folder | None = None,
    progress: Callable[[str], None] | None = None,
) -> Explore:
    """Find which factors matter, in stages: `answer()` of what it returns says which and by how much, `study()` is the model.

    `least`: change of the mean that matters. Each stage is a campaign in the exploration's folder; `resume`: that folder. Raises
    as `run` does.
    """
    _refuse(experiment, plan(experiment))
    _expect_share(least)
    found = Explore(experiment, outcome, least, Path())
    folder = found.begin(Path(into), None if resume is None else Path(resume))
    again = f"explore(..., resume={str(folder)!r})"
    while stage := found.ask():
        there = (stage.campaign / CAMPAIGN).is_file()
        stage.campaign.mkdir(exist_ok=True)
        _carried_out(stage.experiment, stage.design, stage.campaign, there, progress, again)
        found.tell(stage)
    return found


def noise(
    experiment: Experiment,
    *,
    point: str = "",
    blocks: int = 3,
    restarts: int = 3,
    trials: int = 4,
    pause_s: float = 0,
    into: Folder = "campaigns",
    resume: Folder | None = None,
    progress: Callable[[str], None] | None = None,
) -> Ladder:
    """Repeat a point (`size=1KiB`; else the first) at every level at which something may vary, to know how small an effect shows.

    `blocks` of `restarts` of the agents with `trials` each, `pause_s` before a block; `resume`: the ladder's folder. Raises as
    `run` does.
    """
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.decisions.ladder import ladder

    _expect_read(experiment)
    spec = NoiseSpec(blocks, restarts, trials, round(pause_s * 1e9))
    repeated = noise_ladder.of_point(experiment, noise_ladder.levels_of(experiment, point), spec)
    design = noise_ladder.plan(repeated)
    folder = Path(resume) if resume is not None else new_folder(Path(into), f"{experiment.name}-noise")
    if resume is None:
        _refuse(repeated, design)
    again = f"noise(..., resume={str(folder)!r})"
    _carried_out(repeated, design, folder, resume is not None, progress, again)
    return ladder(read_dataset(folder), trials=max(2, experiment.design.replicates))


def tcp(
    connections: int = 1, size: str | int | None = None, seconds: float = 3, *, to: str | None = None, clients: int = 1,
    repeat: int | None = None, into: Folder = "campaigns",
    sensors: SensorLevel = "light", **parameters: Any,
) -> Campaign:  # fmt: skip
    """Measure rate and cost of streams between two namespaces of this machine, or to the host `to` (`user@host`).

    `clients`: hosts on this machine that load the one server, each with so many connections. `parameters`: of the workload
    `stream`, as in an experiment file. What is not asked for is as of `iodyno tcp`: messages of 64 KiB, 1400 B over UDP.
    Raises as `run` does.
    """
    _expect_call("tcp", seconds, to, clients)
    levels = {"connections": connections, "size": size, "transport": "tcp", **parameters}
    keys = quick.tcp(
        _written(levels), seconds=seconds, to=to, clients=clients, repeat=repeat, sensors=sensors
    )
    return run(_parsed(keys), into=into)


def rr(
    connections: int | None = None, size: str | int | None = None, response_size: str | int = 64, seconds: float = 3, *,
    to: str | None = None, clients: int = 1, repeat: int | None = None, into: Folder = "campaigns",
    sensors: SensorLevel = "light", **parameters: Any,
) -> Campaign:  # fmt: skip
    """Measure requests and answers: rate, times and cost. `parameters`: of the workload `request_response`.

    What is not asked for is as of `iodyno rr`: requests of 64 B, 1 connection, 64 with a `rate`, and the engine for so many.
    Raises as `run` does.
    """
    _expect_call("rr", seconds, to, clients)
    levels = {
        "connections": connections,
        "size": size,
        "response_size": response_size,
        "transport": "tcp",
        **parameters,
    }
    keys = quick.rr(_written(levels), seconds=seconds, to=to, clients=clients, repeat=repeat, sensors=sensors)
    return run(_parsed(keys), into=into)


def disk(
    target: Folder, size: str | int | None = None, seconds: float = 3, *, queue_depth: int = 1, block: str | int = "4KiB",
    to: str | None = None, repeat: int | None = None, into: Folder = "campaigns",
    sensors: SensorLevel = "light", **parameters: Any,
) -> Campaign:  # fmt: skip
    """Measure reads and writes of a file, a device, or `null`: rate, times and cost. A file that is not there is laid out.

    `size`: of the working set; without it that of the file, or 1 GiB. `parameters`: of the workload `disk`, as `read="70%"`.
    Raises as `run` does.
    """
    _expect_call("disk", seconds, to)
    place = str(target) if to else quick.absolute(str(target))
    asked = {"target": place, "working_set": size, "queue_depth": queue_depth, "block": block, **parameters}
    levels = _written(asked)
    levels |= quick.unasked_of_target(levels, to=to)
    return run(_parsed(quick.disk(levels, seconds=seconds, to=to, repeat=repeat, sensors=sensors)), into=into)


def search(
    *goals: str, min_load: str | int = quick.SEARCH_LOADS[0], max_load: str | int = quick.SEARCH_LOADS[1],
    width: str = quick.SEARCH_WIDTH, search_duration: str = f"{quick.SEARCH_DURATION_S}s", seconds: float = 1,
    to: str | None = None, into: Folder = "campaigns", sensors: SensorLevel = "light", **parameters: Any,
) -> Campaign:  # fmt: skip
    """Find the largest rate that meets each goal, as `loss = 0` or `p99 <= 1ms`; `campaign.summary.goal_results` has them.

    `width`: how near to each other the bounds of the rate are at the end; `search_duration`: time that the trials may take.
    Raises as `run` does.
    """
    _expect_call("search", seconds, to)
    try:
        missing = "" if [parse_goal(each) for each in goals] else "a goal is missing"
    except ValueError as problem:
        missing = str(problem)
    if missing:
        advice = "search('p99 <= 1ms'), or search('loss = 0', transport='udp')"
        raise ExperimentError(missing, where="search", advice=advice)
    asked = {
        "goals": list(goals),
        "min_load": min_load,
        "max_load": max_load,
        "width": width,
        "search_duration": search_duration,
    }
    levels = _written(quick.SEARCHED | parameters)
    keys = quick.search(levels, search_for=asked, seconds=seconds, to=to, profile=False, sensors=sensors)
    return run(_parsed(keys), into=into)


def load(path: Folder) -> Campaign:
    """Read the campaign in a folder. Raises StoreError when it is none."""
    return Campaign(path)


def compare(
    before: Campaign | Folder, after: Campaign | Folder, *, least: float = 0.02
) -> list[PairVerdicts]:
    """Compare two campaigns at the points that both have: better, worse, same or undecided, each with its interval.

    `least`: the relative change that matters. Verdicts are corrected together (Holm). Raises StoreError.
    """
    from iodyno.analysis.decisions.sides import compare, shared_points

    _expect_share(least)
    one, other = (each if isinstance(each, Campaign) else Campaign(each) for each in (before, after))
    pairs = shared_points(one.summary, other.summary)
    return compare(pairs, (one.summary, other.summary), least=least, control="holm")


def _expect_read(experiment: Experiment) -> None:
    """Raises ExperimentError for the name of a file, which is read first."""
    if not isinstance(experiment, Experiment):
        text = f"an experiment is expected, not {experiment!r}"
        raise ExperimentError(text, advice="iodyno.read('FILE') makes one of a file, or of 'study:NAME'")


def _expect_share(least: float) -> None:
    """Raises ExperimentError for a share that can only be meant in per cent."""
    if not isinstance(least, (int, float)) or not 0 < least < 1:
        what = invalid(str(least), "a share above 0 and below 1", "least")
        raise ExperimentError(what, advice="least=0.05 for 5 %")


def _written(levels: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a file has them: text, but for switches; without those that are None."""
    return {
        name: value if isinstance(value, bool) else str(value)
        for name, value in levels.items()
        if value is not None
    }


def _parsed(keys: Mapping[str, Any]) -> Experiment:
    """Raises ExperimentError, which names words of the call, and no line: nobody wrote one."""
    called = f"iodyno.{keys['name']}"
    try:
        return parse_experiment(experiment_text(keys), file=called, environment={})
    except MistakesError as error:
        words = {"replicates": "repeat", "measured": "seconds"}
        said = []
        for mistake in error.mistakes:
            key = mistake.path.rpartition(".")[2].partition("[")[0]
            said.append(for_key(words.get(key, key), mistake.text))
        raise ExperimentError("; ".join(said), where=called, advice=f"help({called})") from None


def _expect_call(name: str, seconds: float, to: str | None, clients: int = 1) -> None:
    """Raises ExperimentError for what no load lasts, reaches or is sent by."""
    for word, value, wrong, allowed in (
        ("seconds", seconds, not isinstance(seconds, Real) or not seconds > 0, "a number above 0"),
        ("to", to, to is not None and not isinstance(to, str), "the name of a host, such as 'user@host'"),
        ("clients", clients, not isinstance(clients, Integral) or clients < 1, "a whole number from 1"),
    ):
        if wrong:
            text = for_key(word, invalid(value, allowed))
            raise ExperimentError(text, where=f"iodyno.{name}", advice=f"help(iodyno.{name})")


def _refuse(experiment: Experiment, design: Design) -> None:
    """Raises ExperimentError for what no trial of the design can do."""
    load_for(experiment).refuse(experiment, design)
    refused_points.refuse(experiment, design, experiment.name)


def _carried_out(
    experiment: Experiment,
    design: Design,
    folder: Path,
    resume: bool,
    progress: Callable[[str], None] | None,
    again: str,
    strategy: Strategy | None = None,
    destroy: Sequence[str] = (),
) -> Mapping[str, Answer]:
    """Run a design into a folder; what its strategies know at the end. Raises TrialError, with `again` to go on."""
    asked = [strategy] if strategy else strategies.of_experiment(experiment, design, folder)
    watcher = _Watcher(progress or (lambda line: None))
    outcome = _wait_for(
        run_campaign(experiment, design, folder, asked, resume=resume, watcher=watcher, destroy=destroy)
    )
    if outcome.failed:
        first = outcome.failed[0]
        raise TrialError(
            f"{counted(len(outcome.failed), 'trial')} failed, the first of them: {first.reason}",
            where=str(folder),
            advice=f"{again} goes on",
        )
    return outcome.answers


class _Watcher:
    """A line for each stage and each trial that ended; nothing in between."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def on_stage(self, text: str) -> None:
        self._say(text)

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        pass

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        pass

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        self._say(f"trial {manifest['trial']}: {manifest['status']}")

    def on_warning(self, warning: Warning) -> None:
        self._say(f"warning: {warning.line}")

    def on_time_left(self, time_left_ns: int) -> None:
        pass

    def on_answer(self, answer: Answer, time_left_ns: int) -> None:
        pass


def _wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """Its result, also where an event loop is running, as in a notebook; Ctrl-C ends it in order."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    finally:
        if not thread.is_alive():
            loop.close()
    return task.result()
