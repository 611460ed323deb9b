"""`iodyno model credits`: a line with credit flow control, and how far its credits reach."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.credits import (
    LIGHT_IN_FIBRE_M_PER_S,
    covered_distance_m,
    credit_flow,
    credit_rate_per_s,
    credits_for,
)
from iodyno.cli.model import options
from iodyno.cli.model.rows import scaled, show_stations
from iodyno.cli.number import NUMBER
from iodyno.core.errors import ExperimentError


@click.command(name="credits")
@options.integer("--credits", "number", "Frames that may be on their way without an answer.")
@options.time_option("--frame", "frame_s", "Time to send a frame, such as 2.5us.")
@click.option("--round-trip", "round_trip_s", callback=options.seconds, metavar="TIME",
              help="From the end of a frame to its credit's return.")  # fmt: skip
@click.option("--distance", "distance_km", type=NUMBER, metavar="KM",
              help="Kilometres of fibre, instead: 5 us each way for each.")  # fmt: skip
@options.open_load
@options.percentiles
@options.as_json
def command(
    number: int,
    frame_s: float,
    round_trip_s: float | None,
    distance_km: float | None,
    utilisations: Any,
    rates: Any,
    percents: Any,
    as_json: bool,
) -> None:
    """A line with credits: frames wait for the line and for credits, and none is lost. Poisson arrivals, constant frames.

    --utilisation is a share of the line. Under the table stand the rate that the credits allow, and how far they reach. Where
    they do not cover the round trip, waits are lower bounds.

    \b
    Examples:
      iodyno model credits --credits 8 --frame 2.5us --distance 2 \\
        --utilisation .5:.8:.1
      iodyno model credits --credits 32 --frame 2.5us --round-trip 60us \\
        --rate 200k/s,350k/s --json
    """
    quantiles = options.quantiles(percents)
    trip_s = _round_trip_s(round_trip_s, distance_km)
    most_per_s = credit_rate_per_s(number, frame_s, trip_s)
    loads = options.arrivals_per_s(utilisations, rates, frame_s)
    results = [credit_flow(load, frame_s, trip_s, number) for load in loads]
    reach_km = covered_distance_m(number, frame_s) / 1000
    rule_km = covered_distance_m(number, frame_s, own_time=False) / 1000
    notes = [
        f"Round trip {scaled(trip_s, 's')}: {number} credits allow {scaled(most_per_s, 'per_s')},"
        f" {most_per_s * frame_s:.1%} of the line; {credits_for(frame_s, trip_s)} keep it busy.",
        f"{number} credits reach {reach_km:.4g} km ({rule_km:.4g} km by the rule that forgets the frame's own time).",
    ]
    more = [{"most_per_s": most_per_s, "covered_distance_km": reach_km} for _ in results]
    show_stations(results, quantiles, as_json, more=more, notes=notes)


def _round_trip_s(round_trip_s: float | None, distance_km: float | None) -> float:
    if (round_trip_s is None) == (distance_km is None):
        found = (
            "neither --round-trip nor --distance"
            if distance_km is None
            else "both --round-trip and --distance"
        )
        raise ExperimentError(f"found {found}, allowed: one of them", advice="--distance 2")
    if round_trip_s is not None:
        return round_trip_s
    assert distance_km is not None
    if not distance_km >= 0:
        raise ExperimentError(f"found {distance_km:g} km, allowed: 0 or more", where="--distance")
    return 2000 * distance_km / LIGHT_IN_FIBRE_M_PER_S
