"""Progress of `iodyno run` on stderr while it runs: a live line on a terminal, one plain line a trial elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from iodyno.campaign.runner import Watcher
from iodyno.campaign.strategy import Answer
from iodyno.cli.console import VisibleConsole
from iodyno.cli.stderr import forgiven, to_stderr
from iodyno.core.decision import Standing
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of, told_by_variant
from iodyno.core.quantity import show_rough
from iodyno.core.search import Found
from iodyno.core.warnings import Warning
from iodyno.core.workload import EXCHANGES, Level


def watcher(experiment: Experiment, design: Design) -> LiveWatcher | PlainWatcher:
    """The watcher that fits stderr. Use it as a context manager."""
    console = VisibleConsole(stderr=True)
    if console.is_terminal:
        return LiveWatcher(experiment, design, console)
    return PlainWatcher(experiment, design)


class PlainWatcher(Watcher):
    """One line for each stage, trial and warning."""

    def __init__(self, experiment: Experiment, design: Design) -> None:
        self._experiment = experiment
        self._trials = len(design.trials)
        self._left_ns = 0
        self._rate = ""
        self._settings: Mapping[str, Level] = {}
        self._moved: dict[str, tuple[int, int]] = {}

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
        self._settings = self._experiment.settings(planned.point.levels)
        self._moved = {}

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        """Keeps the goodput of the measured window so far: what a script does at its very end says nothing of all of it."""
        length_ns = progress["end_ns"] - progress["begin_ns"]
        if progress["window"] != "measured" or length_ns <= 0:
            return
        if host in self._experiment.workload.hosts:
            self._rate = f"{self._per_s(host, progress['operations'], length_ns):.0f} IO/s"
        elif self._experiment.workload.script is not None:
            self._rate = _bits(8 * self._moved_per_s(host, progress["bytes"], length_ns))
        elif (got := self._delivered(host, progress)) is not None:
            self._rate = _bits(8 * self._per_s(host, got, length_ns))

    def _delivered(self, host: str, progress: Mapping[str, Any]) -> int | None:
        """Bytes that the application of this end got, which make the goodput of reports, too; None where it gets none."""
        workload = self._experiment.workload
        listens = host in workload.receivers
        if not listens and host != workload.sender:
            return None
        if workload.kind in EXCHANGES:
            # An operation of the end that asks is a request whose whole answer came.
            answer = int(self._settings.get("response_size", 1))
            return int(progress["bytes"] if listens else progress["operations"] * answer)
        way = self._settings.get("direction", "forward")
        gets = way == "both" or listens == (way == "forward")
        return int(progress["bytes"]) if gets else None

    def _per_s(self, host: str, amount: int, length_ns: int) -> float:
        """Return what the hosts have moved a second, all together, with this interval of one of them."""
        before, before_ns = self._moved.get(host, (0, 0))
        self._moved[host] = (before + amount, before_ns + length_ns)
        return sum(moved * 1e9 / lasted_ns for moved, lasted_ns in self._moved.values())

    def _moved_per_s(self, host: str, amount: int, length_ns: int) -> float:
        """The same of a script: as much as the end that moved least. Both ends together get no more than that; what it was is in
        the accounts at the end.
        """
        self._per_s(host, amount, length_ns)
        workload = self._experiment.workload
        ends = [
            [name for name in end if name in self._moved] for end in ((workload.sender,), workload.receivers)
        ]
        moved = [[self._moved[name] for name in end] for end in ends if end]
        return min(sum(bytes_ * 1e9 / lasted_ns for bytes_, lasted_ns in end) for end in moved)

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        """Says how the trial went."""
        reason = manifest["reason"]
        if self._experiment.workload.script is not None:
            from iodyno.analysis.script_time import goodput_bits_per_s

            found = goodput_bits_per_s(list(manifest.get("hosts", {}).values()))
            self._rate = _bits(found) if found is not None else "done"
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
        elif isinstance(found := answer.shown, Found):
            from iodyno.report.search import so_far

            assert self._experiment.search is not None
            if found.trials and not found.ended:
                more = f", at most {show_rough(time_left_ns)} more" if time_left_ns else ""
                self.say(f"  {so_far(self._experiment.search, found)}{more}")

    def say(self, text: str) -> None:
        """A line on stderr."""
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
        told = told_by_variant(self._experiment.factors)
        for name, level in planned.point.levels.items():
            if name in told:
                continue
            parameter = parameter_of(workload, name)
            shown.append(f"{name} {parameter.show(level) if parameter else level}")
        if (change := planned.perturbation) and change.setting and change.after is not None:
            parameter = parameter_of(workload, change.setting)
            shown.append(f"{change.setting} {parameter.show(change.after) if parameter else change.after}")
        return ", ".join(shown)


class LiveWatcher(PlainWatcher):
    """The same lines above one that shows the trial under way and is gone in the end."""

    def __init__(self, experiment: Experiment, design: Design, console: Console) -> None:
        super().__init__(experiment, design)
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
        with forgiven():
            self._live.console.print(Text(text))

    def _draw(self) -> None:
        table = Table.grid(padding=(0, 2))
        left = f"{show_rough(self._left_ns)} left" if self._left_ns else ""
        table.add_row(Text(self._now), Text(self._rate, style="bold"), Text(left, style="dim"))
        with forgiven():
            self._live.update(table, refresh=True)


def _bits(per_s: float) -> str:
    """A goodput in the unit that shows it: requests of 64 bytes are no `0.00 Gbit/s`.

    >>> _bits(21.4e9), _bits(3.26e6), _bits(512.0)
    ('21.40 Gbit/s', '3.26 Mbit/s', '0.51 kbit/s')
    """
    factor, unit = next(
        (one for one in ((1e9, "Gbit/s"), (1e6, "Mbit/s")) if per_s >= one[0]), (1e3, "kbit/s")
    )
    return f"{per_s / factor:.2f} {unit}"
