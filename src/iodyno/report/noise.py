"""Findings of a noise ladder: a table, sentences, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from iodyno.analysis.decisions.ladder import Ladder
from iodyno.analysis.decisions.noise import POWER, Allocation, Component, Noise, trials_for
from iodyno.core.decision import LEAST_EFFECT
from iodyno.core.quantity import counted
from iodyno.report.form import Block, Headline, Row, Shown
from iodyno.report.tables import Cell, Column, Table, outcome_name

_TITLES = {"block": "blocks", "restart": "restarts", "trial": "trials", "interval": "intervals"}
_MOST = 6
"""Outcomes of which the answer has a line (chosen: with the others it has ten)."""
SEEN = 2 * LEAST_EFFECT
"""Effect whose number of trials is told. Chosen: as far beyond the least effect as that is from none."""


def noise_shown(found: Ladder, saved: str, *, verbose: bool) -> Shown:
    """Return what there is to show of a ladder; `saved`: its folder."""

    def blocks() -> Iterator[Block]:
        yield _headline(found)
        if verbose:
            yield ""
            yield noise_table(found)
            yield from noise_sentences(found)
            yield noise_note(found)
        yield saved

    return Shown(blocks, lambda: {"campaign": saved, **noise_json(found)}, lambda: map(_row, found.outcomes))


def _headline(found: Ladder) -> Headline:
    """Return the smallest effects that can be seen, and how many trials see one of twice the least effect."""
    spec = found.spec
    many = next((each.trials for each in found.outcomes), 0)
    rows: list[tuple[str, tuple[str, ...]]] = []
    for each in found.outcomes[:_MOST]:
        if each.missing:
            rows.append((_name(each), (each.missing,)))
            continue
        most = max(each.components, key=lambda component: component.share)
        rows.append(
            (
                _name(each),
                (
                    _percent(each.floor_within),
                    _percent(each.floor_between),
                    f"varies between {_TITLES[most.level]}",
                ),
            )
        )
    if len(found.outcomes) > _MOST:
        rows.append(("", (f"{counted(len(found.outcomes) - _MOST, 'more outcome')} with -v",)))
    needed = []
    for each in found.outcomes[:2]:
        trials = trials_for(each, SEEN)
        # To two digits: no more is known of what is to come.
        number = (
            counted(round(float(f"{trials:.2g}")), "trial") if trials else "more trials than are sensible"
        )
        needed += [] if each.missing else [f"{number} a side for {_name(each)}"]
    if needed:
        rows.append((f"To see {_percent(SEEN)}", ("; ".join(needed),)))
    rows.append(
        (
            "From",
            (
                f"{counted(found.trials, 'trial')}: {spec.blocks} blocks of {spec.restarts} starts of {spec.trials}",
            ),
        )
    )
    title = f"Smallest effects that {many} trials a side see: in one campaign, and between two"
    return Headline(title, tuple(rows), ("one campaign", "two campaigns", ""))


def _row(each: Noise) -> Row:
    """Return an outcome as a line of CSV."""
    row: dict[str, object] = {
        "outcome": each.outcome,
        "mean": each.mean,
        "trials": each.trials,
        "floor_within_ratio": each.floor_within,
        "floor_between_ratio": each.floor_between,
        "missing": each.missing or None,
    }
    for level in _TITLES:
        one = each.component(level)
        bounds = (one.sd_ratio, one.low, one.high, one.share) if one else (None,) * 4
        names = (
            f"sd_{level}_ratio",
            f"sd_{level}_ratio_low",
            f"sd_{level}_ratio_high",
            f"share_{level}_ratio",
        )
        row |= dict(zip(names, bounds, strict=True))
    return row


def noise_table(found: Ladder) -> Table:
    """An outcome a row: standard deviation of each level in per cent of the mean, and the floors."""
    columns = [Column("outcome"), *(Column(_TITLES[level], "sd between, % of the mean") for level in _TITLES)]
    columns += [Column("one campaign", "smallest effect"), Column("two campaigns", "smallest effect")]
    rows = []
    for each in found.outcomes:
        cells = [Cell(_name(each), each.outcome)]
        cells += [_component(each.component(level), each) for level in _TITLES]
        cells += [Cell(_percent(each.floor_within)), Cell(_percent(each.floor_between))]
        rows.append(tuple(cells))
    return Table("Where the noise is", tuple(columns), tuple(rows))


def noise_sentences(found: Ladder) -> Iterator[str]:
    """Yield the conclusion for each outcome."""
    for each in found.outcomes:
        if each.missing:
            yield f"{each.outcome}: {each.missing}."
            continue
        most = max(each.components, key=lambda component: component.share)
        text = f"{each.outcome}: {100 * most.share:.0f} % of the variance is between {_TITLES[most.level]}"
        text += (
            f". With {each.trials} trials a point, an effect of {_percent(each.floor_within)} within one campaign and one of "
            f"{_percent(each.floor_between)} between two are claimed with a chance of {100 * POWER:g} %"
        )
        where = [_where(one) for one in found.allocations.get(each.outcome, ())]
        yield f"{text}. Repeat: {', '.join(where)}." if where else f"{text}."


def noise_note(found: Ladder) -> str:
    """State how the ladder was made."""
    spec = found.spec
    return (
        f"{found.trials} trials: {spec.blocks} blocks of {spec.restarts} starts of the agents of {spec.trials} trials. "
        "In brackets: 95 % (modified large-sample method). Smallest effect: claimed by iodyno compare to be beyond "
        f"{_percent(LEAST_EFFECT)} with a chance of {100 * POWER:g} %, in one campaign by pairs (--levels), between two with "
        "--noise. Repeat: the narrowest interval in a given time (Kalibera and Jones), by the time that each level took here."
    )


def noise_json(found: Ladder) -> dict[str, Any]:
    """Return the ladder as values that JSON knows."""
    return {
        "blocks": found.spec.blocks,
        "restarts": found.spec.restarts,
        "trials": found.spec.trials,
        "finished": found.trials,
        "costs_s": found.costs_s,
        "outcomes": {
            each.outcome: {
                **asdict(each),
                "allocation": [asdict(one) for one in found.allocations.get(each.outcome, ())],
            }
            for each in found.outcomes
        },
        "note": noise_note(found),
    }


def _name(each: Noise) -> str:
    host, _, name = each.outcome.rpartition(".")
    return f"{host + ': ' if host else ''}{outcome_name(name)}"


def _where(one: Allocation) -> str:
    if one.count is None:
        return f"{_TITLES[one.level]} as often as time allows ({_TITLES[one.within]} do not differ)"
    many = _TITLES[one.level] if one.count != 1 else one.level
    return f"{one.count} {many} a {one.within}"


def _component(found: Component | None, each: Noise) -> Cell:
    if found is None or each.missing:
        return Cell("–", each.missing or "a quantile of all operations has no intervals")
    high = _two(found.high) if found.high is not None else "?"
    return Cell(f"{_two(found.sd_ratio)} [{_two(found.low)}, {high}]")


def _two(ratio: float) -> str:
    """Per cent to two digits, written out."""
    return f"{float(f'{100 * ratio:.2g}'):g}"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{_two(ratio)} %"
