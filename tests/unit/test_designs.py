"""Designs: every point as often as asked, complete blocks, an order that the seed decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given

from iodyno import designs
from iodyno.core.design import DESIGN_KINDS
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.designs.duration import estimate


def experiment(spec: DesignSpec, *level_counts: int) -> Experiment:
    names = ("connections", "size", "send_buffer")
    return Experiment(
        name="made",
        question="",
        hosts={name: HostSpec(name, "local") for name in ("a", "b")},
        workload=WorkloadSpec("stream", ("a",), ("b",)),
        factors=tuple(
            Factor(name, tuple(range(1, n + 1))) for name, n in zip(names, level_counts, strict=False)
        ),
        design=spec,
    )


SPECS = st.builds(
    DesignSpec,
    replicates=st.integers(1, 5),
    blocks=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
)
EXPERIMENTS = st.builds(
    lambda spec, counts: experiment(spec, *counts), SPECS, st.lists(st.integers(1, 4), max_size=3)
)


@given(EXPERIMENTS)
def test_every_combination_is_a_point_once_and_is_visited_as_often_as_asked(made: Experiment) -> None:
    design = designs.plan(made)
    combinations = {tuple(sorted(point.levels.items())) for point in design.points}
    expected = 1
    for factor in made.factors:
        expected *= len(factor.levels)
    assert len(design.points) == len(combinations) == expected
    visits = Counter(trial.point.id for trial in design.trials)
    assert visits == {point.id: made.design.replicates for point in design.points}
    replicates = Counter((trial.point.id, trial.replicate) for trial in design.trials)
    assert set(replicates.values()) == {1}
    assert {trial.replicate for trial in design.trials} == set(range(made.design.replicates))
    assert [trial.order for trial in design.trials] == list(range(len(design.trials)))


@given(EXPERIMENTS)
def test_every_level_of_every_factor_is_met_equally_often(made: Experiment) -> None:
    design = designs.plan(made)
    for factor in made.factors:
        met = Counter(trial.point.levels[factor.name] for trial in design.trials)
        assert met == dict.fromkeys(factor.levels, len(design.trials) // len(factor.levels))


@given(EXPERIMENTS)
def test_every_block_is_complete_and_follows_the_one_before(made: Experiment) -> None:
    made = replace(made, design=replace(made.design, blocks=True))
    design = designs.plan(made)
    size = len(design.points)
    for block in range(made.design.replicates):
        trials = design.trials[block * size : (block + 1) * size]
        assert {trial.block for trial in trials} == {block}
        assert {trial.replicate for trial in trials} == {block}
        assert {trial.point.id for trial in trials} == {point.id for point in design.points}


@given(EXPERIMENTS)
def test_the_same_seed_gives_the_same_design(made: Experiment) -> None:
    assert designs.plan(made) == designs.plan(made)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2, unique=True), st.booleans())
def test_another_seed_gives_another_order_of_the_same_points(seeds: list[int], blocks: bool) -> None:
    # 64 points, 3 replicates: two seeds agree by chance once in more than 10^89 draws.
    one, other = (designs.plan(experiment(DesignSpec(seed=s, blocks=blocks), 4, 4, 4)) for s in seeds)
    assert one.points == other.points
    assert [trial.point.id for trial in one.trials] != [trial.point.id for trial in other.trials]


def test_the_order_of_a_seed_never_changes() -> None:
    """A campaign that was begun with an older release has to be resumed in its own order."""
    design = designs.plan(experiment(DesignSpec(replicates=2, seed=20081217), 3, 2))
    order = " ".join(trial.point.id for trial in design.trials)
    assert order == "p01 p04 p03 p05 p02 p06 p02 p01 p03 p04 p06 p05"


def test_point_ids_do_not_depend_on_replicates_seed_or_blocks() -> None:
    some = designs.plan(experiment(DesignSpec(replicates=1, seed=1), 3, 4))
    others = designs.plan(experiment(DesignSpec(replicates=5, seed=2, blocks=False), 3, 4))
    assert some.points == others.points
    assert [point.id for point in some.points] == [f"p{n:02}" for n in range(1, 13)]


def test_what_is_set_together_stands_in_the_point() -> None:
    factor = Factor("connections", (1, 400), {"window": (262144, 32768)})
    made = replace(experiment(DesignSpec(), 0), factors=(factor, Factor("size", (1024, 8192))))
    assert [dict(point.levels) for point in designs.plan(made).points] == [
        {"connections": 1, "window": 262144, "size": 1024},
        {"connections": 1, "window": 262144, "size": 8192},
        {"connections": 400, "window": 32768, "size": 1024},
        {"connections": 400, "window": 32768, "size": 8192},
    ]


def test_an_experiment_without_factors_is_one_point() -> None:
    design = designs.plan(experiment(DesignSpec(replicates=3)))
    assert [dict(point.levels) for point in design.points] == [{}]
    assert len(design.trials) == 3


def test_every_word_for_a_design_has_one() -> None:
    assert set(designs.POINTS) == set(DESIGN_KINDS)


def test_the_duration_is_that_of_the_windows_and_grows_with_connections() -> None:
    few, many = (experiment(DesignSpec(replicates=1), n) for n in (1, 2))
    short, long = (estimate(made, designs.plan(made)) for made in (few, many))
    assert short.load_ns == few.windows.load_ns
    assert long.load_ns == 2 * short.load_ns
    assert long.overhead_ns > 2 * short.overhead_ns
    assert short.total_ns == short.load_ns + short.overhead_ns + short.background_ns
