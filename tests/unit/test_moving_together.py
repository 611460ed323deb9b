"""What changes together cannot be told apart, and is said to."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_campaign import Truth, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.factors import FactorLevels, moving_together
from iodyno.analysis.summary import analyse
from iodyno.core.workload import Level
from iodyno.report.sentences import sentences


def factor(name: str, *levels: Level, together: tuple[str, ...] = ()) -> FactorLevels:
    return FactorLevels(name, levels, together, "", isinstance(levels[0], int))


SIZE, CONNECTIONS = factor("size", 64, 1024, 8192), factor("connections", 1, 4, 32)
ENGINE, TRANSPORT = factor("engine", "threads", "epoll"), factor("transport", "tcp", "udp")


@pytest.mark.parametrize(
    ("factors", "points", "told"),
    [
        ((SIZE, CONNECTIONS), [(64, 1), (1024, 4), (8192, 32)], True),
        ((SIZE, CONNECTIONS), [(64, 32), (1024, 4), (8192, 1)], True),
        ((SIZE, CONNECTIONS), [(s, c) for s in SIZE.levels for c in CONNECTIONS.levels], False),
        # One factor at a time, and a Latin square: each level of one stands with several of the other, or out of order.
        ((SIZE, CONNECTIONS), [(64, 1), (1024, 1), (8192, 1), (64, 4), (64, 32)], False),
        ((SIZE, CONNECTIONS), [(64, 4), (1024, 32), (8192, 1)], False),
        ((ENGINE, TRANSPORT), [("threads", "tcp"), ("epoll", "udp"), ("epoll", "udp")], True),
        ((ENGINE, TRANSPORT), [("threads", "tcp"), ("epoll", "udp"), ("epoll", "tcp")], False),
    ],
)
def test_two_factors_of_which_one_follows_the_other(
    factors: tuple[FactorLevels, ...], points: list[tuple[Level, Level]], told: bool
) -> None:
    first, second = factors
    found = list(moving_together(factors, [{first.name: a, second.name: b} for a, b in points]))
    assert [warning.text for warning in found] == (
        [f"{first.name} and {second.name} change together: what either does by itself cannot be told"]
        if told
        else []
    )


def test_what_is_set_together_is_named_and_that_of_a_variant_is_not() -> None:
    points = [
        {"connections": 1, "window": 256},
        {"connections": 4, "window": 256},
        {"connections": 32, "window": 32},
    ]
    several = factor("connections", 1, 4, 32, together=("window",))
    assert len(list(moving_together([several], points))) == 1
    assert not list(moving_together([several], [point | {"window": 256} for point in points]))
    named = [{"variant": str(number)} | point for number, point in enumerate(points)]
    assert not list(moving_together([factor("variant", "0", "1", "2", together=("window",))], named))


def test_a_sentence_on_a_factor_names_what_changes_with_it(tmp_path: Path) -> None:
    points = [
        (
            {"connections": n, "window": 262144 if n < 16 else 32768},
            Truth(bytes_per_s=1e8, cost_ns_per_kib={"client": 400.0 * n, "server": 300.0}),
        )
        for n in (1, 4, 32)
    ]
    windows = {"window": [262144, 262144, 32768]}
    factors = [{"name": "connections", "levels": [1, 4, 32], "together": windows}]
    folder = make_campaign(tmp_path / "c", points, factors=factors)
    summary = analyse(read_dataset(folder))
    said = " ".join(sentence.text for sentence in sentences(summary))
    assert "From 1 to 32 connections, and window from 256KiB to 32KiB with it, the cost of a KiB" in said
    assert any(str(warning.code) == "factors_together" for warning in summary.warnings)
