"""A fitted scaling law as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iodyno.analysis.fitting.usl import Compared, Predicted, Scaling
from iodyno.core.outcome import Estimate
from iodyno.report.estimate_json import estimate_values
from iodyno.report.form import Block, Headline, Row, flat
from iodyno.report.numbers import digits, with_interval
from iodyno.report.tables import Cell, Column, Table

_MEANING = {
    "lambda": "rate of one",
    "sigma": "contention: share of the work that waits its turn",
    "kappa": "coherency: cost of each pair",
}
_KNEES = {
    "crossing": "N*: lambda N meets the greatest rate",
    "power": "greatest power, X / R",
    "marginal": "one more adds less than the stated share",
    "peak": "peak: greatest rate",
    "peak_rate": "rate at the peak",
}
_NAMES = {
    "usl": "Universal Scalability Law",
    "amdahl": "Amdahl's law",
    "closed_queue": "closed queue, one server and a delay",
    **{f"closed_queue_{m}": f"closed queue, {m} servers and a delay" for m in (2, 4, 8)},
    "closed_general": "closed queue, measured variance of service times",
    "closed_bounds": "closed queue, constant times",
}


def model_name(name: str) -> str:
    """A model in words; an open queue has its name in Kendall's notation."""
    return _NAMES.get(name) or f"open queue {name} and a delay"


def tables(found: Scaling, *, load: str, rate: str) -> Iterator[Table]:
    """Parameters with knees, then measured beside predicted, then the models compared."""
    rows = [
        *(_row(name, each, _MEANING[name]) for name, each in found.parameters.items()),
        *(_row(name.replace("_", " "), each, _KNEES[name]) for name, each in found.knees.items()),
    ]
    law = _NAMES[found.fit.model.name]
    columns = ("", "estimate", "low", "high", "what it is")
    yield Table(f"{law}: {rate} against {load}", tuple(map(Column, columns)), tuple(rows))
    points = tuple(
        tuple(map(Cell, _point(each))) for each in (*found.points, *found.beyond)
    )  # fmt: skip
    heads = (load, "measured", "curve", "error", "95 % of the curve", "95 % of a new one")
    yield Table("Measured and predicted", tuple(map(Column, heads)), points)
    models = tuple(tuple(map(Cell, _compared(each))) for each in found.compared)
    titles = ("model", "rms error", "worst", "left out", "AICc")
    yield Table("Models, the best first", tuple(map(Column, titles)), models)


def blocks(found: Scaling, *, load: str, rate: str, title: str, verbose: bool) -> Iterator[Block]:
    """Yield the law with its parameters and knees; `verbose`: points and the other models, too."""
    every = list(tables(found, load=load, rate=rate))
    known: list[tuple[str, tuple[str, ...]]] = [
        (row[0].text, (row[1].text, f"[{row[2].text}, {row[3].text}]", row[4].text))
        for row in every[0].rows
        if row[2].text
    ]
    unknown = [row[0].text for row in every[0].rows if not row[2].text]
    if unknown:
        known.append(("Not given", (f"{', '.join(unknown)}: these points do not carry it; -v says why",)))
    if found.beyond:
        known += [
            (
                f"at {point.load:g}",
                (digits(point.value), f"[{digits(point.least)}, {digits(point.most)}]", "predicted"),
            )
            for point in found.beyond
        ]
    said = list(notes(found))
    yield Headline(f"{title}: {every[0].title}" if title else every[0].title, (*known, ("Fit", (said[0],))))
    if verbose:
        yield ""
        yield from every
        yield from said


def rows(found: Scaling, load: str, rate: str, levels: Row) -> Iterator[Row]:
    """Yield a row for each parameter, knee and prediction."""
    of = {**levels, "load": load, "rate": rate, "model": found.fit.model.name}
    for name, each in (*found.parameters.items(), *found.knees.items()):
        yield {**of, "name": name, **flat(estimate_values(each))}
    for point in found.beyond:
        bounds = {"low": point.least, "high": point.most}
        yield {**of, "name": f"rate at {point.load:g}", "estimate": point.value, **bounds}


def notes(found: Scaling) -> Iterator[str]:
    """State how good the fit is, how its intervals were made, and what its reader must know."""
    fit = found.fit
    worst = max(zip(fit.relative_errors, fit.loads, strict=True), key=lambda each: abs(each[0]))
    yield (
        f"Errors of the curve: rms {100 * fit.rms_error:.1f} %, worst {100 * worst[0]:+.1f} % at N = {worst[1]:g}"
        f" (least squares in {fit.errors} errors)."
    )
    yield f"Low and high: 95 %, {found.parameters['lambda'].method}."
    for note in found.notes:
        yield f"{note[:1].upper()}{note[1:]}."


def values(found: Scaling) -> dict[str, Any]:
    """For JSON. Estimates of null have `missing`, which says why."""
    fit = found.fit
    return {
        "model": fit.model.name,
        "errors": fit.errors,
        "parameters": {name: estimate_values(each) for name, each in found.parameters.items()},
        "knees": {name: estimate_values(each) for name, each in found.knees.items()},
        "rms_error_ratio": fit.rms_error,
        "worst_error_ratio": fit.worst_error,
        "models": [
            {
                "model": each.name,
                "parameters": dict(each.parameters),
                "rms_error_ratio": each.rms_error,
                "worst_error_ratio": each.worst_error,
                "left_out_error_ratio": each.left_out_error,
                "aicc": each.aicc,
                **({"missing": each.missing} if each.missing else {}),
            }
            for each in found.compared
        ],
        "points": [point_values(each) for each in found.points],
        "predicted": [point_values(each) for each in found.beyond],
        "notes": list(found.notes),
    }


def point_values(each: Predicted) -> dict[str, float | None]:
    """A prediction beside what was measured."""
    return {
        "load": each.load,
        "measured": each.measured,
        "predicted": each.value,
        "error_ratio": None if each.measured is None else each.value / each.measured - 1,
        "low": each.low,
        "high": each.high,
        "new_low": each.least,
        "new_high": each.most,
    }


def refused(what: str) -> Mapping[str, str]:
    """Of a line whose points carry no curve."""
    return {"refused": what}


def _row(name: str, each: Estimate, meaning: str) -> tuple[Cell, ...]:
    if each.estimate is None:
        return Cell(name), Cell("–"), Cell(""), Cell(""), Cell(f"{meaning}; {each.missing}")
    bounds = [None if end is None else digits(end) for end in (each.low, each.high)]
    return (
        Cell(name),
        Cell(f"{digits(each.estimate)} {'' if each.unit == '1' else each.unit}".rstrip()),
        Cell(bounds[0] or "none"),
        Cell(bounds[1] or "none"),
        Cell(meaning, with_interval(each)),
    )


def _point(each: Predicted) -> tuple[str, ...]:
    error = None if each.measured is None else each.value / each.measured - 1
    return (
        f"{each.load:g}",
        "–" if each.measured is None else digits(each.measured),
        digits(each.value),
        "–" if error is None else f"{100 * error:+.1f} %",
        f"[{digits(each.low)}, {digits(each.high)}]",
        f"[{digits(each.least)}, {digits(each.most)}]",
    )


def _compared(each: Compared) -> tuple[str, ...]:
    return (
        model_name(each.name),
        f"{100 * each.rms_error:.1f} %",
        f"{100 * each.worst_error:.1f} %",
        f"{100 * each.left_out_error:.1f} %",
        each.missing or f"{each.aicc or 0.0:.1f}",
    )
