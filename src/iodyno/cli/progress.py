"""Progress of `iodyno run` on stderr while it runs: a live line on a terminal, one plain line a trial elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from iodyno.campaign.strategy import Answer
from iodyno.campaign.watcher import Watcher
from iodyno.cli.console import VisibleConsole
from iodyno.cli.stderr import forgiven, to_stderr
from iodyno.core.decision import Standing
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.experiment import Experiment
from iodyno.core.factor import named_by_variant, parameter_of
from iodyno.core.quantity import show_rough
from iodyno.core.search import LoadTrial
from iodyno.core.warnings import Warning
from iodyno.loads.base.watch import load_in


def watcher(experiment: Experiment, design: Design, *, quiet: bool = False) -> LiveWatcher | PlainWatcher:
    """The watcher that fits stderr; use it as a context manager. `quiet`: it says nothing that stays."""
    console = VisibleConsole(stderr=True)
    if console.is_terminal:
        return LiveWatcher(experiment, design, console, quiet=quiet)
    return PlainWatcher(experiment, design, quiet=quiet)


class PlainWatcher(Watcher):
    """One line for each stage, trial and warning."""

    def __init__(self, experiment: Experiment, design: Design, *, quiet: bool = False) -> None:
        self._experiment = experiment
        self._quiet = quiet
        self._trials = len(design.trials)
        self._left_ns = 0
        self._told = 0
        self._rate = ""
        self._load = load_in(experiment.workload, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_stage(self, text: str) -> None:
        """Names the stage."""
        self.say(f"{text} ...")

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """Forgets the numbers of the trial before."""
        self._rate = ""
        settings = self._experiment.settings(planned.point.levels)
        self._load = load_in(self._experiment.workload, settings)

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        """Keeps the rate of the measured window so far."""
        length_ns = progress["end_ns"] - progress["begin_ns"]
        if progress["window"] != "measured" or length_ns <= 0:
            return
        self._rate = self._load.rate(host, progress, length_ns) or self._rate

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        """Says how the trial went."""
        reason = manifest["reason"]
        self._rate = self._load.whole_rate(manifest) or self._rate
        outcome = f"failed: {reason['where']}: {reason['what']}" if reason else self._rate
        left = f", {show_rough(self._left_ns)} left" if self._left_ns else ""
        self.say(f"{self.trial(planned)}: {outcome}{left}")
        for warning in manifest["warnings"]:
            self.say(f"  warning: {warning['where'] + ': ' if warning['where'] else ''}{warning['text']}")

    def on_warning(self, warning: Warning) -> None:
        """Says it."""
        self.say(f"warning: {warning.line}")

    def on_time_left(self, time_left_ns: int) -> None:
        """Keeps it for the next line."""
        self._left_ns = time_left_ns

    def on_answer(self, answer: Answer, time_left_ns: int) -> None:
        """Says where a decision or a search stands."""
        # Imported here: the package of reports draws in what a plain run does not need.
        if isinstance(standing := answer.shown, Standing):
            from iodyno.report.decision import look_line

            self.say(f"{standing.rule}: {look_line(standing)}")
        elif (spec := self._experiment.search) and isinstance(answer.shown, tuple):
            from iodyno.report.search import so_far, step_line

            if tried := self._tried(answer):
                self.say(f"  {step_line(spec, tried)}")
            more = f", at most {show_rough(time_left_ns)} more" if time_left_ns else ""
            for found in answer.shown:
                if found.trials and not found.ended:
                    self.say(f"  {so_far(spec, found)}{more}")

    def _tried(self, answer: Answer) -> LoadTrial | None:
        """Return the trial of a search that told something since the last answer; None: there is none."""
        every = [trial for trials in answer.content["load_trials"].values() for trial in trials]
        before, self._told = self._told, len(every)
        return LoadTrial(**every[-1]) if len(every) > before else None

    def say(self, text: str) -> None:
        """A line on stderr."""
        if not self._quiet:
            to_stderr(text)

    def place(self, planned: PlannedTrial) -> str:
        """Such as `3 of 36`; of a proof or a search, which may take more or fewer trials, `5 of the proof`."""
        if planned.perturbation:
            return f"{planned.order + 1 - self._trials} of the proof"
        if not self._trials:
            return f"{planned.order + 1} of the search"
        if self._experiment.until:
            return f"{planned.order + 1} of at most {self._trials}"
        return f"{planned.order + 1} of {self._trials}"

    def trial(self, planned: PlannedTrial, again: str = "") -> str:
        """Such as `trial 3 of 36: connections 4, size 64KiB`."""
        return ": ".join(filter(None, (f"trial {self.place(planned)}{again}", self.levels(planned))))

    def levels(self, planned: PlannedTrial) -> str:
        """Such as `connections 4, size 64KiB`; nothing where nothing varies."""
        workload = self._experiment.workload.workload
        shown = []
        named = named_by_variant(self._experiment.factors)
        for name, level in planned.point.levels.items():
            if name in named:
                continue
            parameter = parameter_of(workload, name)
            shown.append(f"{name} {parameter.show(level) if parameter else level}")
        if (change := planned.perturbation) and change.setting and change.after is not None:
            parameter = parameter_of(workload, change.setting)
            shown.append(f"{change.setting} {parameter.show(change.after) if parameter else change.after}")
        return ", ".join(shown)


class LiveWatcher(PlainWatcher):
    """The same lines above one that shows the trial under way and is gone in the end."""

    def __init__(
        self, experiment: Experiment, design: Design, console: Console, *, quiet: bool = False
    ) -> None:
        super().__init__(experiment, design, quiet=quiet)
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._now = ""

    def __enter__(self) -> Self:
        with forgiven():
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with forgiven():
            self._live.stop()

    def on_stage(self, text: str) -> None:
        """Shows the stage."""
        self._now, self._rate = f"{text} ...", ""
        self._draw()

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """Shows the trial."""
        super().on_trial_start(planned, attempt)
        again = f" (attempt {attempt})" if attempt > 1 else ""
        self._now = self.trial(planned, again)
        self._draw()

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        """Shows goodput and time left."""
        super().on_progress(host, progress)
        if host == self._experiment.workload.ends[-1]:
            length_ns = progress["end_ns"] - progress["begin_ns"]
            self._left_ns = max(0, self._left_ns - length_ns)
            self._draw()

    def say(self, text: str) -> None:
        """A line above the live one."""
        if self._quiet:
            return
        with forgiven():
            self._live.console.print(Text(text))

    def _draw(self) -> None:
        table = Table.grid(padding=(0, 2))
        left = f"{show_rough(self._left_ns)} left" if self._left_ns else ""
        table.add_row(Text(self._now), Text(self._rate, style="bold"), Text(left, style="dim"))
        with forgiven():
            self._live.update(table, refresh=True)
