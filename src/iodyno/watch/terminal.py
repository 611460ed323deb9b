"""The terminal's view of a campaign: one frame of at most 80 x 24 characters, drawn from what the board knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iodyno.analysis.histogram import Histogram, merge
from iodyno.core.errors import StoreError
from iodyno.core.quantity import show_rough
from iodyno.watch.board import Board
from iodyno.watch.facts import Sample

WIDTH, HEIGHT = 80, 24
"""Size that fits every terminal (that of a VT100)."""
_SPARKS = " ▁▂▃▄▅▆▇█"
_SHADES = " ·░▒▓█"
_MOST_HOSTS = 6
_SPARK_CELLS = 12
_STRIP_CELLS = 60
_CLASSES = {"usr": "usr", "sys": "sys", "app": "app", "irq": "irq", "softirq": "soft", "other": "oth"}
"""Classes of CPU time, and what fits into a column of them."""
_DECADES = (
    "1 ns",
    "10 ns",
    "100 ns",
    "1 us",
    "10 us",
    "100 us",
    "1 ms",
    "10 ms",
    "100 ms",
    "1 s",
    "10 s",
    "100 s",
    "1000 s",
)
_PHASES = {
    "waiting": "not finished, and nobody is at work on it",
    "running": "running",
    "ended": "ended",
    "over": "finished",
}


def frame(board: Board) -> RenderableType:
    """Return what the terminal shows now."""
    with board.lock:
        shown = board.current or _last(board)
        try:
            samples, broken = _samples(board, shown), False
        except StoreError:
            samples, broken = [], True
        if shown != board.current:
            # Of a trial that is over, what counts is shown, not what came after it.
            samples = [sample for sample in samples if sample.window == "measured"] or samples
        # No more than the strip holds: a frame must not take longer the longer a trial is.
        last = max((sample.index for sample in samples), default=0)
        samples = [sample for sample in samples if sample.index > last - _STRIP_CELLS]
        parts: list[RenderableType] = [_head(board), _bar(board)]
        parts.append(_trial_line(board, shown))
        if broken:
            parts.append(Text("warning: its files are damaged, and it does not count: see `iodyno report`"))
        if samples:
            parts += [_hosts(samples), Text(), *_latency(samples)]
        if metrics := [f"{each['name']} {amount(each['value'], each['unit'])}" for each in board.metrics()]:
            parts.append(Text(", ".join(metrics), no_wrap=True, overflow="ellipsis"))
        parts += [
            Text(f"warning: {warning}", no_wrap=True, overflow="ellipsis")
            for warning in board.progress.warnings[-1:]
        ]
    return Group(*parts)


def ending(board: Board) -> str:
    """One sentence on how the campaign ended, or stands."""
    state = board.state()
    counts = f"{state['finished']} of {state['planned'] or '?'} trials finished"
    counts += f", {state['failed']} failed" if state["failed"] else ""
    how = state["how"]
    if state["phase"] == "over" or how == "finished":
        return f"the campaign has ended: {counts}"
    if how == "killed":
        return f"iodyno is gone without a word: {counts}; `iodyno run --resume` goes on"
    return f"the campaign was {how or 'left unfinished'}: {counts}; `iodyno run --resume` goes on"


def amount(value: float, unit: str) -> str:
    """A rate in three digits and a prefix of 1000: `1.23 G`."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def duration(time_ns: float) -> str:
    """A time in three digits."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if time_ns >= factor:
            return f"{time_ns / factor:.3g} {unit}"
    return f"{time_ns:.3g} ns"


def spark(values: Sequence[float], cells: int = _SPARK_CELLS) -> str:
    """The last values as bars from 0 to the greatest."""
    shown = list(values)[-cells:]
    most = max(shown, default=0.0)
    return "".join(_SPARKS[0 if most <= 0 else _level(value / most, len(_SPARKS))] for value in shown)


def _level(share: float, steps: int) -> int:
    """1 to steps - 1 for what is more than 0."""
    return 0 if share <= 0 else max(1, min(steps - 1, round(share * (steps - 1))))


def _last(board: Board) -> str | None:
    trials = board.trial_list()
    return trials[-1]["trial"] if trials else None


def _samples(board: Board, shown: str | None) -> Sequence[Sample]:
    """The samples of a trial. Raises StoreError where its files are damaged."""
    if shown is None:
        return []
    if shown == board.current:
        return list(board.samples)
    if board.trials[shown]["status"] not in ("finished", "failed"):
        return []
    return board.samples_of(shown)


def _head(board: Board) -> Text:
    left_ns = board.left_ns()
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(str(board.header.get("name", "")), style="bold")
    text.append(f"  {_PHASES[board.progress.phase]}")
    if board.progress.how not in ("", "finished"):
        text.append(f" ({board.progress.how})")
    if board.progress.stage:
        text.append(f": {board.progress.stage}")
    if left_ns is not None:
        text.append(f", {show_rough(left_ns)} left")
    return text


def _bar(board: Board) -> Text:
    state = board.state()
    planned = max(state["planned"], state["finished"] + state["failed"], 1)
    cells = 40
    done, failed = (round(cells * state[name] / planned) for name in ("finished", "failed"))
    text = Text("█" * done, style="green")
    text.append("x" * failed, style="red")
    text.append("░" * max(0, cells - done - failed), style="dim")
    text.append(f" {state['finished']} of {planned} finished")
    if state["failed"]:
        text.append(f", {state['failed']} failed")
    return text


def _trial_line(board: Board, shown: str | None) -> Text:
    if shown is None:
        return Text("no trial yet", style="dim")
    trial = board.trials[shown]
    again = f", attempt {trial['attempt']}" if trial["attempt"] > 1 else ""
    what = "trial" if shown == board.current else "last trial"
    text = Text(f"{what} {trial['order'] + 1}{again}: ", no_wrap=True, overflow="ellipsis")
    text.append(trial["label"], style="bold")
    running = shown == board.current
    text.append(
        f"  {board.samples[-1].window} {board.now_s() - trial['start_s']:.0f} s"
        if running and board.samples
        else ""
    )
    if trial["status"] not in ("running", "finished"):
        text.append(f"  {trial['status']}: {trial['reason'] or ''}")
    return text


def _hosts(samples: Sequence[Sample]) -> Table:
    """A line a host: rates, connections and CPU classes of the last interval, and what the payload rate was before."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", width=WIDTH)
    for name, justify in (("host", "left"), ("payload", "right"), ("operations", "right"), ("CPUs", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("of which, %", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("rate", no_wrap=True, width=_SPARK_CELLS)
    by_host: dict[str, list[Sample]] = {}
    for sample in samples:
        by_host.setdefault(sample.host, []).append(sample)
    for host, own in sorted(by_host.items())[:_MOST_HOSTS]:
        last = own[-1]
        span = max(1, last.length_ns)
        classes = {name: last.amount("cpu", first=name) / span for name in _CLASSES}
        busy = sum(classes.values())
        parts = " ".join(
            f"{_CLASSES[c]} {100 * v / busy:.0f}" for c, v in classes.items() if v >= 0.005 * busy > 0
        )
        rates = [_rate(each) for each in own[-_SPARK_CELLS:]]
        table.add_row(
            Text(host),
            amount(last.amount("payload") * 1e9 / span, "B/s"),
            amount(last.amount("operations") * 1e9 / span, "/s"),
            f"{busy:.2f}",
            parts,
            spark(rates),
        )
    if len(by_host) > _MOST_HOSTS:
        table.add_row(f"and {len(by_host) - _MOST_HOSTS} more")
    return table


def _rate(sample: Sample) -> float:
    count = sample.amount("payload") or sample.amount("operations")
    return count / sample.length_ns if sample.length_ns else 0.0


def _latency(samples: Sequence[Sample]) -> Iterable[RenderableType]:
    """Quantiles of the last interval by kind of time, and a strip of how many operations fell into each decade."""
    last = max(sample.index for sample in samples)
    kinds: dict[str, list[Histogram]] = {}
    for sample in samples:
        for kind, histogram in sample.times.items():
            if sample.index >= last - 1:
                kinds.setdefault(kind, []).append(histogram)
    if not kinds:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("time of", "count", "p50", "p99", "p99.9", "mean"):
        table.add_column(name, justify="left" if name == "time of" else "right", no_wrap=True)
    for kind, found in kinds.items():
        whole = merge(found)
        quantiles = [duration(whole.quantile(q) or 0) for q in (0.5, 0.99, 0.999)]
        table.add_row(Text(kind.replace("_", " ")), f"{whole.count}", *quantiles, duration(whole.mean or 0))
    yield table
    yield Text()
    yield from _strip(samples)


def _strip(samples: Sequence[Sample]) -> Iterable[Text]:
    """Rows are decades of time, the longest first, columns intervals; a shade is a share of the fullest cell, by logarithm."""
    cells: dict[tuple[int, int], int] = {}
    for sample in samples:
        for decade, count in sample.decades.items():
            cells[decade, sample.index] = cells.get((decade, sample.index), 0) + count
    if not cells:
        return
    decades = sorted({decade for decade, _ in cells}, reverse=True)[:7]
    last = max(index for _, index in cells)
    columns = range(max(0, last - _STRIP_CELLS + 1), last + 1)
    most = max(cells.values()).bit_length()
    for decade in decades:
        shades = "".join(
            _SHADES[_level(cells.get((decade, c), 0).bit_length() / most, len(_SHADES))] for c in columns
        )
        yield Text(f"{_DECADES[decade]:>7}+ {shades}")
