"""A campaign as frames, for notebooks: what `iodyno.load` returns. Each frame is a relation of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection, DuckDBPyRelation

from iodyno.analysis.dataset import open_campaign, read_dataset
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse, unit_of
from iodyno.core.workload import Level

_TRIALS = {
    "trial": "VARCHAR",
    "order": "BIGINT",
    "attempt": "BIGINT",
    "block": "BIGINT",
    "replicate": "BIGINT",
    "point": "VARCHAR",
    "status": "VARCHAR",
    "reason": "VARCHAR",
    "started_wall": "VARCHAR",
    "overhead_ns": "BIGINT",
    "skew_ns": "BIGINT",
    "warnings": "BIGINT",
}
_OUTCOMES = {"outcome": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR"}
_POINTS = {
    "outcome": "VARCHAR",
    "estimate": "DOUBLE",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "n": "BIGINT",
    "unit": "VARCHAR",
    "method": "VARCHAR",
    "missing": "VARCHAR",
}


class CampaignFrames:
    """Frames of a campaign; each is made when it is first asked for, and reads its rows when they are.

    `records`, `histograms`, `series`, `sensors`, `metrics` hold what was stored, in base units, of all finished trials;
    `outcomes` and `points` what the analysis makes of it; `summary` is the same as values.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.folder = Path(path)
        self._campaign = open_campaign(self.folder)

    def __repr__(self) -> str:
        return f"CampaignFrames({str(self.folder)!r}, {len(self._campaign.trials)} trials)"

    @cached_property
    def summary(self) -> CampaignSummary:
        """Everything that a report shows, as values."""
        return analyse(read_dataset(self.folder))

    @cached_property
    def trials(self) -> DuckDBPyRelation:
        """A row per trial, failed ones too: place in the design, status, and its levels in base units."""
        rows = (
            [
                *(trial.name, trial.order, trial.attempt, trial.block, trial.replicate, trial.point),
                *(trial.status, trial.reason, trial.started_wall, trial.overhead_ns, trial.skew_ns),
                *(len(trial.warnings), *self._levels(trial.point)),
            ]
            for trial in self.summary.trials
        )
        return self._table(_TRIALS | self._factors, rows)

    @cached_property
    def records(self) -> DuckDBPyRelation:
        """A row per interval of a host: bytes, operations, connections."""
        return self._view("records")

    @cached_property
    def histograms(self) -> DuckDBPyRelation:
        """A row per interval of a host: service times, counts per bucket of the layout."""
        return self._view("histograms")

    @cached_property
    def series(self) -> DuckDBPyRelation:
        """A row per value of a sensor reading."""
        return self._view("series")

    @cached_property
    def sensors(self) -> DuckDBPyRelation:
        """A row per sensor reading: its cost, and why something is missing."""
        return self._view("sensors")

    @cached_property
    def metrics(self) -> DuckDBPyRelation:
        """A row per reading of a metric that another program holds."""
        return self._connection.sql("SELECT * FROM metrics ORDER BY trial, source, metric, before_ns")

    @cached_property
    def outcomes(self) -> DuckDBPyRelation:
        """A row per finished trial and outcome; the value is null where it could not be had."""
        units = {metric.name: metric.unit for metric in self.summary.metrics}
        rows = (
            [
                trial.name,
                trial.point,
                *self._levels(trial.point),
                name,
                value,
                units.get(name) or unit_of(name),
            ]
            for trial in self.summary.trials
            for name, value in trial.outcomes.items()
        )
        return self._table({"trial": "VARCHAR", "point": "VARCHAR"} | self._factors | _OUTCOMES, rows)

    @cached_property
    def points(self) -> DuckDBPyRelation:
        """A row per point and outcome: estimate, 95 % interval, trials, and how the interval was made."""
        rows = (
            [
                *(point.id, *self._levels(point.id), name, found.estimate, found.low, found.high),
                *(found.n, found.unit, found.method, found.missing),
            ]
            for point in self.summary.points
            for name, found in point.outcomes.items()
        )
        return self._table({"point": "VARCHAR"} | self._factors | _POINTS, rows)

    @cached_property
    def _factors(self) -> dict[str, str]:
        """The type of each factor's levels; that of levels of several types is text."""
        levels: dict[str, list[Level]] = {}
        for point in self.summary.points:
            for name, level in point.levels.items():
                levels.setdefault(name, []).append(level)
        return {name: _type(of_factor) for name, of_factor in levels.items()}

    def _levels(self, point: str) -> Iterable[Level | None]:
        found = next((dict(one.levels) for one in self.summary.points if one.id == point), {})
        for name, kind in self._factors.items():
            level = found.get(name)
            yield level if level is None or kind != "VARCHAR" else str(level)

    @cached_property
    def _connection(self) -> DuckDBPyConnection:
        return self._campaign.connect()

    def _view(self, view: str) -> DuckDBPyRelation:
        return self._connection.sql(f'SELECT * FROM {view} ORDER BY trial, host, "index"')

    def _table(self, columns: Mapping[str, str], rows: Iterable[list[Any]]) -> DuckDBPyRelation:
        whole = list(rows)
        chosen = ", ".join(
            f'unnest(${place}::{kind}[]) AS "{name}"' for place, (name, kind) in enumerate(columns.items(), 1)
        )
        values = [[row[place] for row in whole] for place in range(len(columns))]
        return self._connection.sql(f"SELECT {chosen}", params=values).materialize()


def _type(levels: Iterable[Level]) -> str:
    kinds = {type(level) for level in levels}
    return {frozenset({bool}): "BOOLEAN", frozenset({int}): "BIGINT"}.get(frozenset(kinds), "VARCHAR")
