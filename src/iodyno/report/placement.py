"""Machine and setting told apart, of trials on pairs of machines: sentence, tables, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from iodyno.analysis.placement import Apart, PairEffect, Part
from iodyno.analysis.results import CampaignSummary
from iodyno.report.numbers import digits
from iodyno.report.sentence import Sentence
from iodyno.report.table import Cell, Column, Table
from iodyno.report.tables import outcome_name

_SURE = 0.05


def placement_sentences(summary: CampaignSummary) -> Iterator[Sentence]:
    """Yield the answer, machine or setting, and which pair is out of line: of the first outcome, of the others as cases."""
    told = [_sentence(found) for found in summary.placement]
    if told:
        yield Sentence(told[0], tuple(told[1:]), about="placement", title="the other outcomes")


def _sentence(found: Apart) -> str:
    name = _name(found)
    if found.missing or found.machine is None or found.rest is None:
        return f"{name}: it cannot be told whether it is the machine or the setting, as {found.missing}."
    shares = {"the machine": found.machine.share, "the rest": found.rest.share}
    if found.setting is not None:
        shares = {"the setting": found.setting.share, **shares}
    settings_differ = found.p_setting is not None and found.p_setting < _SURE
    sure = ["the setting"] * settings_differ + ["the machine"] * found.differs
    most = max(shares, key=lambda source: shares[source])
    answer = "neither machine nor setting for sure"
    if sure:
        answer = f"mostly {most}" if most in sure else f"{' and '.join(sure)}, but not for the most part"
    parts = ", ".join(f"{100 * share:.0f} % {source}" for source, share in shares.items())
    text = f"{name}: {answer}. Of the variance {parts}; pairs differ by {_sd(found.machine)}"
    text += "" if found.differs else ", which may be none"
    return f"{text}, trials on a pair by {_sd(found.rest)} (standard deviations). {_farthest(found)}"


def _farthest(found: Apart) -> str:
    strange = [pair for pair in found.pairs if pair.out_of_line]
    if strange:
        each = "; ".join(f"{pair.name} is out of line, {_against(pair)} the other pairs" for pair in strange)
        return f"{each}."
    pair = found.farthest
    if pair is None or pair.p is None:
        first, second = found.pairs
        return f"{first.name} is {_against(first)} {second.name}."
    return f"No pair is out of line: the farthest, {pair.name}, is {_against(pair)} the others."


def _against(pair: PairEffect) -> str:
    """A pair against others: `48 % [45, 51] below`."""
    below = pair.change < 0
    ends = sorted((-pair.low, -pair.high) if below else (pair.low, pair.high))
    return f"{_percent(abs(pair.change), ends[0], ends[1])} {'below' if below else 'above'}"


def _percent(value: float, low: float, high: float | None) -> str:
    half = 100 * (high - low) / 2 if high is not None and high > low else None
    end = "?" if high is None else digits(100 * high, half)
    return f"{digits(100 * value, half)} % [{digits(100 * low, half)}, {end}]"


def _sd(part: Part) -> str:
    return digits(100 * part.sd) + " %" if part.low is None else _bounded(part)


def _bounded(part: Part) -> str:
    high = "?" if part.high is None else digits(100 * part.high)
    return f"{digits(100 * part.sd)} % [{digits(100 * (part.low or 0.0))}, {high}]"


def placement_tables(summary: CampaignSummary) -> list[Table]:
    """Return the shares of variance of each outcome, each pair against the others, and each level within pairs."""
    found = [one for one in summary.placement if one.machine is not None]
    if not found:
        return []
    tables = [_shares(found), _pairs(found)]
    return [*tables, _levels(summary, found)] if found[0].effects else tables


def _shares(found: Sequence[Apart]) -> Table:
    columns = (
        Column("outcome"),
        *(Column(title, "% of the variance") for title in ("setting", "machine", "rest")),
        Column("pairs", "standard deviation between"),
        Column("trials", "standard deviation between", "trials of one setting on one pair"),
        Column("pairs / trials", hint="ratio of their variances"),
    )
    rows = []
    for one in found:
        assert one.machine and one.rest and one.ratio
        value, low, high = one.ratio
        end = "?" if high is None else digits(high)
        rows.append(
            (
                Cell(_name(one), one.outcome),
                *(Cell(f"{100 * p.share:.0f}" if p else "–") for p in (one.setting, one.machine, one.rest)),
                Cell(_sd(one.machine)),
                Cell(_sd(one.rest)),
                Cell(f"{digits(value)} [{digits(low)}, {end}]"),
            )
        )
    return Table("Machine or setting", columns, tuple(rows))


def _pairs(found: Sequence[Apart]) -> Table:
    """Return each pair against the others; one that is out of line has a mark."""
    names = dict.fromkeys(pair.name for one in found for pair in one.pairs)
    rows = []
    for name in names:
        each = [next((pair for pair in one.pairs if pair.name == name), None) for one in found]
        trials = max(pair.trials for pair in each if pair)
        rows.append(
            (
                Cell(name),
                Cell(str(trials)),
                *(
                    Cell("–")
                    if pair is None
                    else Cell(
                        _changed(pair) + (" *" if pair.out_of_line else ""), "out of line" * pair.out_of_line
                    )
                    for pair in each
                ),
            )
        )
    columns = (
        Column("pair"),
        Column("trials"),
        *(Column(_name(one), "against the other pairs") for one in found),
    )
    return Table("Pairs of machines (* out of line)", columns, tuple(rows), 2)


def _levels(summary: CampaignSummary, found: Sequence[Apart]) -> Table:
    labels = {
        (factor.name, level): text
        for factor in summary.factors
        for level, text in zip(factor.levels, summary.factor_labels[factor.name], strict=True)
    }
    rows = []
    for place, effect in enumerate(found[0].effects):
        each = [one.effects[place] if place < len(one.effects) else None for one in found]
        ends = (labels.get((effect.factor, level), str(level)) for level in (effect.base, effect.level))
        rows.append(
            (
                Cell(effect.factor.replace("_", " ")),
                *map(Cell, ends),
                *(Cell("–" if one is None else _changed(one)) for one in each),
            )
        )
    columns = (
        *map(Column, ("factor", "from", "to")),
        *(Column(_name(one), "change within a pair") for one in found),
    )
    return Table("Setting, within pairs", columns, tuple(rows), 3)


def _changed(effect: Any) -> str:
    half = 50 * (effect.high - effect.low) or None
    value, low, high = (digits(100 * number, half) for number in (effect.change, effect.low, effect.high))
    sign = "+" if effect.change > 0 else ""
    return f"{sign}{value} % [{low}, {high}]"


def _name(found: Apart) -> str:
    host, _, name = found.outcome.rpartition(".")
    shown = outcome_name(name)
    return f"{host} {shown}" if host else f"{shown[:1].upper()}{shown[1:]}"


def placement_json(summary: CampaignSummary) -> dict[str, Any]:
    """Return all of it, by outcome, with the sentence."""
    return {
        one.outcome: {
            **{key: value for key, value in asdict(one).items() if key != "outcome"},
            "ratio": None if one.ratio is None else [_finite(number) for number in one.ratio],
            "out_of_line": [pair.name for pair in one.pairs if pair.out_of_line],
            "sentence": _sentence(one),
            "method": METHOD,
        }
        for one in summary.placement
    }


METHOD = (
    "mixed model, points fixed and pairs random: variances by REML, their ratio by Wald's exact interval, trials by chi squared, "
    "pairs by a generalised interval; changes within pairs by t; a pair out of line by Grubbs' test with Bonferroni's bound"
)


def _finite(number: float | None) -> float | None:
    return None if number is None or number in (float("inf"), float("-inf")) else number
