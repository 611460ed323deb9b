"""What the factors do to the workload and to the bystander, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iodyno.analysis.bystander import Felt, Trade
from iodyno.analysis.summary import CampaignSummary
from iodyno.core.outcome import BYSTANDER
from iodyno.report.numbers import between

_WORDS = {
    "goodput_bits_per_s": "goodput",
    "operations_per_s": "rate",
    "response_time_p99_ns": "99th percentile of the response time",
    "write_service_time_p99_ns": "99th percentile of the service time",
}


def bystander_sentences(summary: CampaignSummary) -> Iterator[str]:
    """One for each contrast in which one of the two is favoured at the other's cost; one when there is none."""
    if not summary.trades:
        return
    found = [trade for trade in summary.trades if trade.at_its_cost]
    for trade in found:
        yield sentence(trade)
    if not found:
        yield (
            f"In none of {len(summary.trades)} contrasts is one of the workload and the bystander better off and the other"
            " worse, as far as these trials can tell."
        )


def sentence(trade: Trade) -> str:
    """Who gains and who pays when the factor goes from one level to the other."""
    place = ", ".join(f"{name.replace('_', ' ')} {label}" for name, label in trade.others.items())
    name = trade.factor.replace("_", " ")
    return (
        f"From {name} {trade.before} to {trade.after}{f' ({place})' if place else ''}, "
        f"{_side('the workload', trade.workload)}, and {_side('the bystander', trade.bystander)}:"
        f" one is favoured at the other's cost."
    )


def _side(who: str, felt: Sequence[Felt]) -> str:
    told = [one for one in felt if one.better is not None]
    words = [
        f"its {_WORDS[one.outcome.removeprefix(f'{BYSTANDER}.')]} goes from {between(one.change.first)} to "
        f"{between(one.change.second)}"
        for one in told
    ]
    better = {one.better for one in told}
    verdict = (
        "is better off" if better == {True} else "is worse off" if better == {False} else "gains and loses"
    )
    return f"{who} {verdict} ({'; '.join(words)})"
