"""Metrics that the agent knows are read, or left out on purpose; one that nobody declared is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.held_rows import METRICS_NOT_USED, METRICS_USED, METRICS_USED_IN_PART, fill
from iodyno.core.errors import StoreError
from iodyno.store.schema import PARTS

CATALOGUE = Path(__file__).parents[2] / "schema" / "metrics.json"


def test_every_metric_of_the_agent_is_declared_once() -> None:
    declared = [*METRICS_USED, *METRICS_USED_IN_PART, *METRICS_NOT_USED]
    sensors = json.loads(CATALOGUE.read_text())["sensors"]
    known = {metric["name"].partition(".")[0] for sensor in sensors for metric in sensor["metrics"]}
    assert len(declared) == len(set(declared))
    assert known == set(declared)


def test_a_metric_that_nobody_declared_is_an_error_that_names_it(tmp_path: Path) -> None:
    made = make_campaign(
        tmp_path / "c", [({"connections": 4}, Truth())], layout=Layout(replicates=1, intervals=2)
    )
    dataset = read_dataset(made)
    assert dataset.stored is not None
    renamed = "(SELECT * REPLACE (replace(metric, 'cpu.', 'cpus.') AS metric) FROM series)"
    with dataset.stored.reading() as connection, pytest.raises(StoreError) as told:
        fill(connection, {**{part: part for part in PARTS}, "series": renamed}, dataset.trials)
    assert "holds the metric cpus." in str(told.value)
    assert "trials/00000-1/series.parquet" in str(told.value)
