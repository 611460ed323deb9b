"""Verdicts on planted limiters, made again from the signals that were kept of the calibration half of the corpus.

`IODYNO_UPDATE=1 python -m bench limiter` measures them anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iodyno.analysis.limiter.rules import RULES
from iodyno.analysis.limiter.signals import Signal
from iodyno.analysis.limiter.verdict import of_signals

KEPT = json.loads((Path(__file__).parent / "limiter" / "calibration.json").read_text())
NAMES, ROWS = KEPT[0][2:], KEPT[1:]
ENDS = {"send": "client", "receive": "server"}


@pytest.mark.parametrize("row", ROWS, ids=[f"{number}-{row[0]}" for number, row in enumerate(ROWS)])
def test_the_verdict_is_what_it_was(row: list[object]) -> None:
    planted, said, *values = row
    signals = {
        name: Signal({} if value is None else {0: float(str(value))}, "1", "kept", "not measured")
        for name, value in zip(NAMES, values, strict=True)
    }
    assert of_signals(signals, ENDS).name == said
    if planted != "healthy":
        assert said == planted


def test_every_signal_of_a_rule_was_kept() -> None:
    asked = {f"{ENDS[end]}.{c.name}" for rule in RULES for end in rule.ends for c in rule.criteria_at(end)}
    assert asked <= set(NAMES), "measure the calibration half anew: IODYNO_UPDATE=1 python -m bench limiter"
