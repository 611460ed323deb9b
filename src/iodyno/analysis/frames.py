"""A campaign as polars frames, for notebooks: what `iodyno.load` returns."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from iodyno.analysis.dataset import open_campaign, read_dataset
from iodyno.analysis.summary import CampaignSummary, analyse, unit_of


class CampaignFrames:
    """Frames of a campaign; each is made when it is first asked for.

    `records`, `histograms`, `series`, `sensors` hold what was stored, in base units, of all finished trials;
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
    def trials(self) -> pl.DataFrame:
        """A row per trial, failed ones too: place in the design, status, and its levels in base units."""
        rows = [
            {
                "trial": trial.name,
                "order": trial.order,
                "attempt": trial.attempt,
                "block": trial.block,
                "replicate": trial.replicate,
                "point": trial.point,
                "status": trial.status,
                "reason": trial.reason,
                "started_wall": trial.started_wall,
                "overhead_ns": trial.overhead_ns,
                "skew_ns": trial.skew_ns,
                "doubts": len(trial.doubts),
            }
            | self._levels.get(trial.point, {})
            for trial in self.summary.trials
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @cached_property
    def records(self) -> pl.DataFrame:
        """A row per interval of a host: bytes, operations, connections."""
        return self._view("records")

    @cached_property
    def histograms(self) -> pl.DataFrame:
        """A row per interval of a host: service times, counts per bucket of the layout."""
        return self._view("histograms")

    @cached_property
    def series(self) -> pl.DataFrame:
        """A row per value of a sensor reading."""
        return self._view("series")

    @cached_property
    def sensors(self) -> pl.DataFrame:
        """A row per sensor reading: its cost, and why something is missing."""
        return self._view("sensors")

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """A row per finished trial and outcome; the value is null where it could not be had."""
        rows: list[dict[str, Any]] = [
            {"trial": trial.name, "point": trial.point}
            | self._levels.get(trial.point, {})
            | {"outcome": name, "value": value, "unit": unit_of(name)}
            for trial in self.summary.trials
            for name, value in trial.outcomes.items()
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @cached_property
    def points(self) -> pl.DataFrame:
        """A row per point and outcome: estimate, 95 % interval, trials, and how the interval was made."""
        rows: list[dict[str, Any]] = [
            {"point": point.id}
            | dict(point.levels)
            | {
                "outcome": name,
                "estimate": found.estimate,
                "low": found.low,
                "high": found.high,
                "n": found.n,
                "unit": found.unit,
                "method": found.method,
                "missing": found.missing,
            }
            for point in self.summary.points
            for name, found in point.outcomes.items()
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def _levels(self) -> dict[str, dict[str, Any]]:
        return {point.id: dict(point.levels) for point in self.summary.points}

    def _view(self, view: str) -> pl.DataFrame:
        with self._campaign.connect() as connection:
            frame: pl.DataFrame = connection.sql(f'SELECT * FROM {view} ORDER BY trial, host, "index"').pl()
            return frame
