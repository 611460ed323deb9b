"""Wall of a closed loop, located in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.wall import Wall
from iodyno.report.layout import layout_of, place_of
from iodyno.report.numbers import between, quantity


def wall_sentences(summary: CampaignSummary) -> Iterator[str]:
    """One for each line of a closed loop of requests, those that are located first; nothing where the clients are not varied."""
    names = [factor.name for factor in layout_of(summary).lines]
    for wall in sorted(summary.walls, key=lambda wall: wall.clients.missing is not None):
        yield sentence(wall, place_of(wall.labels, names))


def sentence(wall: Wall, where: str = "") -> str:
    """State the place of one wall, or why it is not known."""
    of = f"The wall of {where}" if where else "The wall"
    at_it = f" (at {_listed(wall.plateau)} clients the rate is {between(wall.rate)})" if wall.plateau else ""
    if wall.clients.missing:
        return f"{of} cannot be located: {wall.clients.missing}{at_it}."
    tail = "".join(f" {note[:1].upper()}{note[1:]}." for note in wall.notes)
    return (
        f"{of} lies at {between(wall.clients)} clients: beyond it the rate stays at {between(wall.rate)}"
        f" ({_listed(wall.plateau)} clients), and each further client only adds waiting,"
        f" {quantity(wall.added_wait.estimate, 'ns')} to every request.{tail}"
    )


def _listed(loads: tuple[int, ...]) -> str:
    return f"{loads[0]} to {loads[-1]}" if len(loads) > 1 else str(loads[0])
