"""`iodyno model simulate`: a queue by simulation, for what has no closed form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.number import NUMBER, SEED
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError

if TYPE_CHECKING:
    from iodyno.analysis.queueing.simulation import Interval, Simulated

_SHOWN = (
    ("throughput_per_s", "throughput", "/s"),
    ("blocking_ratio", "turned away", "%"),
    ("utilisation", "utilisation", "%"),
    ("waiting_time_s", "mean waiting time", "s"),
    ("response_time_s", "mean response time", "s"),
    ("number_in_system", "mean number in system", ""),
)


@click.command(name="simulate")
@click.option(
    "--service",
    "services",
    multiple=True,
    required=True,
    metavar="TIME",
    help="Mean service time, such as 2.5us; given again: the next station of a tandem.",
)
@click.option(
    "--service-law",
    default="exponential",
    show_default=True,
    metavar="LAW",
    help="constant, exponential, erlang(4), hyperexponential(4), lognormal(2).",
)
@click.option("--rate", metavar="RATE", help="Arrivals per second, such as 300k/s.")
@click.option("--utilisation", type=NUMBER, help="Instead: offered to the (slowest) station, of 1.")
@click.option(
    "--arrivals",
    default="poisson",
    show_default=True,
    metavar="LAW",
    help="Law of the times between arrivals: poisson, or one of those above.",
)
@click.option("--servers", type=int, default=1, show_default=True, help="Servers at the one queue.")
@click.option(
    "--places",
    multiple=True,
    metavar="K",
    help="Customers there is room for, in service too; of a tandem for each station, `-` for any number.",
)
@click.option(
    "--credits", "held", type=int, help="Credits of the sender, instead of places: what has none waits."
)
@click.option("--round-trip", metavar="TIME", help="After which a credit comes back (with --credits).")
@click.option("--percentiles", metavar="P,P", default="", help="Of the response time, such as 50,99.")
@click.option(
    "--precision",
    metavar="P%",
    default="2%",
    show_default=True,
    help="Half-width of the 95 % interval of the mean response time.",
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="The same seed gives the same numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    services: tuple[str, ...],
    service_law: str,
    rate: str | None,
    utilisation: float | None,
    arrivals: str,
    servers: int,
    places: tuple[str, ...],
    held: int | None,
    round_trip: str | None,
    percentiles: str,
    precision: str,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate a queue that has no formula: any arrivals, any service times, few places, credits, or a tandem.

    How long to simulate is planned by Whitt's formula (1989) for the precision asked for; every number has a 95 %
    interval by batch means. First come, first served.

    \b
    Examples:
      iodyno model simulate --service 2.5us --service-law constant --places 8 \\
        --utilisation .9 --percentiles 50,99
      iodyno model simulate --service 127us --service-law 'lognormal(2)' \\
        --servers 8 --rate 50k/s
      iodyno model simulate --service 2.5us --service-law constant --credits 8 \\
        --round-trip 10us --utilisation .6
      iodyno model simulate --service 1ms --service 1ms --places - --places 4 \\
        --rate 700/s --json
    """  # fmt: skip
    # Imported here: numpy is slow to load, and `--help` does not need it.
    from iodyno.analysis.queueing import random_times, simulation

    means_s = [_duration("--service", written) for written in services]
    of_arrivals = random_times.law(arrivals, 1 / _rate(rate, utilisation, max(means_s), servers))
    of_service = [random_times.law(service_law, mean_s) for mean_s in means_s]
    room = [_place(written) for written in places]
    wanted: dict[str, Any] = {
        "precision_ratio": _ratio(precision), "percentiles": _percentiles(percentiles), "seed": seed,
    }  # fmt: skip
    if (held is None) != (round_trip is None):
        raise _wrong(
            "--credits", "--credits and --round-trip belong together", "--credits 8 --round-trip 10us"
        )
    if held is not None and (room or servers != 1 or len(means_s) > 1):
        raise _wrong("--credits", "credits are simulated at one station of one server", "leave --places out")
    if held is not None and round_trip is not None:
        back_s = _duration("--round-trip", round_trip)
        found = simulation.credits_station(of_arrivals, of_service[0], held, back_s, **wanted)
    elif len(of_service) > 1:
        if servers != 1:
            raise _wrong("--servers", "stations of a tandem have one server each", "leave --servers out")
        found = simulation.tandem(of_arrivals, of_service, room or [None] * len(of_service), **wanted)
    else:
        if len(room) > 1:
            raise _wrong("--places", f"found {len(room)} for one station", "give --service for each station")
        found = simulation.station(of_arrivals, of_service[0], servers, room[0] if room else None, **wanted)
    click.echo(json.dumps(_as_json(found, seed)) if as_json else _as_text(found))


def _as_json(found: Simulated, seed: int) -> dict[str, Any]:
    def bounds(interval: Interval) -> dict[str, float]:
        return {"value": interval.value, "low": interval.low, "high": interval.high}

    shown: dict[str, Any] = {name: bounds(getattr(found, name)) for name, _, _ in _SHOWN}
    shown |= {f"p{p:g}_s": bounds(interval) for p, interval in found.quantiles_s.items()}
    return shown | {
        "arrivals": found.arrivals,
        "seed": seed,
        "precise": found.precise,
        "method": found.method,
    }


def _as_text(found: Simulated) -> str:
    rows = [(what, getattr(found, name), unit) for name, what, unit in _SHOWN]
    rows += [(f"response time, p{p:g}", interval, "s") for p, interval in found.quantiles_s.items()]
    lines = [f"{what:<22} {_shown(interval, unit)}" for what, interval, unit in rows]
    lines.append(f"95 % intervals; {found.method}")
    if not found.precise:
        lines.append(
            "warning: the intervals are wider than asked for: this load needs longer runs than are made"
        )
    return "\n".join(lines)


def _shown(interval: Interval, unit: str) -> str:
    factor, name = 1.0, unit
    if unit == "%":
        factor, name = 100.0, " %"
    elif unit == "s":
        factor, name = next(
            (scale, f" {short}")
            for scale, short, least in (
                (1.0, "s", 1.0),
                (1e3, "ms", 1e-3),
                (1e6, "us", 1e-6),
                (1e9, "ns", 0.0),
            )
            if interval.value >= least
        )
    low, value, high = (f"{bound * factor:.5g}" for bound in (interval.low, interval.value, interval.high))
    return f"{value}{name} [{low}, {high}]"


def _parsed(option: str, parse: Callable[[], float]) -> float:
    try:
        return parse()
    except ValueError as error:
        raise _wrong(option, str(error), "iodyno model simulate --help") from error


def _duration(option: str, written: str) -> float:
    return _parsed(option, lambda: quantity.parse("duration", written) / 1e9)


def _rate(rate: str | None, utilisation: float | None, service_s: float, servers: int) -> float:
    if (rate is None) == (utilisation is None):
        raise _wrong(
            "--rate", "the load is missing, or given twice", "give --rate 300k/s or --utilisation .9"
        )
    found = (
        (utilisation or 0.0) * max(servers, 1) / service_s
        if rate is None and service_s > 0
        else _parsed("--rate", lambda: float(quantity.parse("rate", rate or "0")))
    )
    if not 0 < found < float("inf"):
        option = "--utilisation" if rate is None else "--rate"
        raise _wrong(
            option, f"found {utilisation if rate is None else rate}, allowed: above 0", f"{option} .8"
        )
    return found


def _place(written: str) -> int | None:
    if written == "-":
        return None
    return int(_parsed("--places", lambda: quantity.parse("count", written)))


def _ratio(written: str) -> float:
    number = written.strip().removesuffix("%").strip()
    return _parsed("--precision", lambda: float(number) / (100 if "%" in written else 1))


def _percentiles(written: str) -> tuple[float, ...]:
    def all_of() -> list[float]:
        return [float(part) for part in written.split(",") if part.strip()]

    try:
        return tuple(all_of())
    except ValueError as error:
        raise _wrong(
            "--percentiles", f"found {written!r}, allowed: numbers", "--percentiles 50,99"
        ) from error


def _wrong(option: str, what: str, advice: str) -> ExperimentError:
    return ExperimentError(what, where=option, advice=advice)
