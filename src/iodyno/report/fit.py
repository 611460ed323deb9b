"""Models fitted to a campaign: tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iodyno.analysis.fitting.campaign import LineFit
from iodyno.analysis.fitting.usl import Predicted
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.estimate_json import estimate_values
from iodyno.report.form import Block, Headline, Row, Shown, flat
from iodyno.report.numbers import between, digits, quantity, with_interval
from iodyno.report.scaling import model_name, point_values
from iodyno.report.tables import Cell, Column, Table

_MEANING = {
    "service_s": "time that an operation needs of the station",
    "delay_s": "time that it spends elsewhere",
    "cycle_s": "time from one operation to the next of a lone client",
    "crossing": "wall: where the bounds of operational analysis meet",
    "capacity_per_s": "greatest rate of the station",
    "utilisation_at_most": "busy share of the station at the greatest load",
    "lambda": "rate of one",
    "sigma": "contention: share of the work that waits its turn",
    "kappa": "coherency: cost of each pair",
    "power": "greatest power, X / R",
    "marginal": "one more adds less than a tenth of lambda",
    "peak": "peak: greatest rate",
    "peak_rate": "rate at the peak",
}


def load_name(found: LineFit) -> str:
    """Name the load of the line."""
    return "operations offered per second" if found.line.is_open else "operations in flight"


def title_of(found: LineFit) -> str:
    """The line and its model."""
    model = model_name(found.chosen.model.name) if found.chosen else "no model"
    return f"{found.line.title}: {model}" if found.line.title else model


def fit_sentences(summary: CampaignSummary) -> Iterator[str]:
    """One for each line that a model is fitted to."""
    for found in summary.fits:
        if found.chosen is not None:
            yield sentence(found)


def sentence(found: LineFit) -> str:
    """Describe the fit of one line, or say why there is none."""
    of = f" ({found.line.title})" if found.line.title else ""
    if found.chosen is None:
        return f"No model is fitted{of}: {found.refused}."
    fit, each = found.chosen, found.compared[0]
    name = model_name(fit.model.name)
    text = (
        f"The {'response time' if found.line.is_open else 'rate'}{of} goes as that of {_article(name)}: each load is"
        f" predicted from the others to within {100 * each.left_out_error:.1f} %"
    )
    service = found.parameters.get("service_s")
    if service is not None and service.estimate is not None:
        text += f"; an operation needs {between(_ns(service))} of the station"
        delay = found.parameters["delay_s"]
        text += f" and {between(_ns(delay))} elsewhere"
    if (wall := found.derived.get("crossing")) is not None and wall.missing:
        text += "; where its wall is, these points do not say"
    capacity = found.derived.get("capacity_per_s") or found.derived.get("peak_rate")
    if capacity is not None and capacity.estimate is not None:
        text += f", and the station does {between(capacity)} at most"
    return text + "."


def fit_shown(found: Sequence[LineFit], campaign: str, *, verbose: bool) -> Shown:
    """Return what there is to show of the models of a campaign's lines."""
    fits = any(one.chosen is not None for one in found)
    return Shown(
        # What is refused of all is said by the error.
        blocks=lambda: (block for one in found for block in blocks(one, verbose=verbose, refusal=fits)),
        values=lambda: {"campaign": campaign, "lines": [values(one) for one in found]},
        rows=lambda: (row for one in found for row in _rows(one)),
    )


def blocks(found: LineFit, *, verbose: bool, refusal: bool = True) -> Iterator[Block]:
    """Yield the model of a line, and its parameters; `verbose`: what it was chosen by, too; without `refusal` not why there is
    none.
    """
    if found.chosen is None:
        if refusal:
            yield Headline(title_of(found), (("Refused", (found.refused or "",)),))
        elif not found.compared:
            return
    else:
        known = [
            (row[0].text, (row[1].text, f"[{row[2].text}, {row[3].text}]", row[4].text))
            for name, each in (*found.parameters.items(), *found.derived.items())
            if each.estimate is not None
            for row in (_row(name, each),)
        ]
        yield Headline(sentence(found), tuple(known))
    if found.held_out and not verbose:
        yield ""
        yield _held_out(found)
    if verbose:
        yield ""
        yield from tables(found)
        yield from notes(found)


def _rows(found: LineFit) -> Iterator[Row]:
    """Yield a row for each parameter, and for each quantity that follows."""
    of = {
        **found.line.levels,
        "outcome": found.outcome,
        "model": found.chosen.model.name if found.chosen else None,
    }
    if found.chosen is None:
        yield {**of, "refused": found.refused}
    for name, each in (*found.parameters.items(), *found.derived.items()):
        yield {**of, "name": name, **flat(estimate_values(each))}


def tables(found: LineFit) -> Iterator[Table]:
    """Parameters, measured beside predicted, held-out loads, and the models compared."""
    if found.chosen is not None:
        rows = [_row(name, each) for name, each in (*found.parameters.items(), *found.derived.items())]
        heads = ("", "estimate", "low", "high", "what it is")
        yield Table(title_of(found), tuple(map(Column, heads)), tuple(rows))
        unit = "s" if found.line.is_open else found.unit
        yield _points("Measured and predicted", found, found.points, unit)
        if found.responses:
            yield _points("Response time by Little's law", found, found.responses, "s")
        if found.held_out:
            yield _held_out(found)
    if found.compared:
        models = tuple(
            tuple(
                map(
                    Cell,
                    (
                        model_name(each.name),
                        f"{100 * each.left_out_error:.1f} %",
                        f"{100 * each.rms_error:.1f} %",
                        f"{100 * each.worst_error:.1f} %",
                        "–" if each.aicc is None else f"{each.aicc:.1f}",
                    ),
                )
            )
            for each in found.compared
        )
        heads = ("model", "left out", "rms error", "worst", "AICc")
        yield Table("Models, the best prediction first", tuple(map(Column, heads)), models)


def notes(found: LineFit) -> Iterator[str]:
    """Yield the notes that the reader of a fit needs."""
    for text in (*found.notes, *found.skipped):
        yield f"{text[:1].upper()}{text[1:]}."


def values(found: LineFit) -> dict[str, Any]:
    """For JSON; `refused` says why there is no model."""
    fit = found.chosen
    shown: dict[str, Any] = {
        "levels": dict(found.line.levels),
        "labels": dict(found.line.labels),
        "loop": "open" if found.line.is_open else "closed",
        "outcome": found.outcome,
        "unit": "s" if found.line.is_open else found.unit,
        "model": fit.model.name if fit else None,
        "models": [
            {
                "model": each.name,
                "parameters": dict(each.parameters),
                "left_out_error_ratio": each.left_out_error,
                "rms_error_ratio": each.rms_error,
                "worst_error_ratio": each.worst_error,
                "aicc": each.aicc,
            }
            for each in found.compared
        ],
        "notes": [*found.notes, *found.skipped],
    }
    if fit is None:
        return shown | {"refused": found.refused}
    varied = found.line.variability
    return shown | {
        "rms_error_ratio": fit.rms_error,
        "worst_error_ratio": fit.worst_error,
        "service_scv": None if varied is None else varied.scv,
        "parameters": {name: estimate_values(each) for name, each in found.parameters.items()},
        "derived": {name: estimate_values(each) for name, each in found.derived.items()},
        "points": [point_values(each) for each in found.points],
        "responses": [point_values(each) for each in found.responses],
        "held_out": [point_values(each) for each in found.held_out],
    }


def _article(name: str) -> str:
    if name.startswith(("Amdahl", "Universal")):
        return name if name.startswith("Amdahl") else f"the {name}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _ns(each: Estimate) -> Estimate:
    """Seconds as the report shows times."""

    def turned(value: float | None) -> float | None:
        return None if value is None else 1e9 * value

    return Estimate(
        turned(each.estimate),
        turned(each.low),
        turned(each.high),
        each.n,
        "ns",
        each.method,
        missing=each.missing,
    )


def _row(name: str, each: Estimate) -> tuple[Cell, ...]:
    meaning = _MEANING[name]
    title = name.removesuffix("_s").removesuffix("_per").replace("_", " ")
    if each.estimate is None:
        return Cell(title), Cell("–"), Cell(""), Cell(""), Cell(f"{meaning}; {each.missing}")
    if each.unit == "s":
        each = _ns(each)
    low, high = (None if end is None else quantity(end, each.unit) for end in (each.low, each.high))
    value = each.estimate
    assert value is not None
    return (
        Cell(title),
        Cell(quantity(value, each.unit)),
        Cell(low or "none"),
        Cell(high or "none"),
        Cell(meaning, with_interval(each)),
    )


def _held_out(found: LineFit) -> Table:
    unit = "s" if found.line.is_open else found.unit
    return _points("Held out: not seen by the fit", found, found.held_out, unit)


def _points(title: str, found: LineFit, points: Sequence[Predicted], unit: str) -> Table:
    heads = (load_name(found), "measured", "curve", "error", "95 % of the curve", "95 % of a new one")
    return Table(title, tuple(map(Column, heads)), tuple(_point(each, unit) for each in points))


def _point(each: Predicted, unit: str) -> tuple[Cell, ...]:
    factor, base = (1e9, "ns") if unit == "s" else (1.0, unit)

    def shown(value: float | None) -> str:
        return quantity(None if value is None else factor * value, base)

    error = None if each.measured is None else each.value / each.measured - 1
    texts = (
        digits(each.load) if each.load != int(each.load) else f"{each.load:g}",
        shown(each.measured),
        shown(each.value),
        "–" if error is None else f"{100 * error:+.1f} %",
        f"{shown(each.low)} to {shown(each.high)}",
        f"{shown(each.least)} to {shown(each.most)}",
    )
    return tuple(map(Cell, texts))
