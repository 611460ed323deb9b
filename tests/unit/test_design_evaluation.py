"""What a plan promises before any time is spent: aliases, widths and power, against simulation and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from made_design import WORDS, coded, experiment, numbers
from scipy import stats

from iodyno import designs
from iodyno.core.errors import ExperimentError
from iodyno.core.factor import Factor
from iodyno.designs.evaluation import Evaluation, evaluate, jain_runs


def evaluated(factors: list[Factor], *, about: dict[str, Any] | None = None, **options: Any) -> Evaluation:
    made = experiment(factors, **options)
    found = evaluate(made, designs.plan(made), **(about or {}))
    assert found is not None
    return found


def test_the_width_of_a_two_level_design_is_the_closed_form() -> None:
    """An effect is the difference of two means of N/2 trials: t x 2 s / sqrt(N)."""
    found = evaluated(
        numbers(3), kind="full_factorial", replicates=4, blocks=False, about={"noise_ratio": 0.05}
    )
    left = 32 - 1 - 3 - 3
    wanted = stats.t.ppf(0.975, left) * 2 * 0.05 / math.sqrt(32)
    assert {entry.degrees_of_freedom for entry in found.terms} == {left}
    assert [entry.half_width_ratio for entry in found.terms] == pytest.approx([wanted] * 6)
    assert found.condition_number == pytest.approx(1)
    assert found.correlated is None
    assert len(found.clear) == 6


def test_blocks_cost_their_degrees_of_freedom() -> None:
    found = evaluated(numbers(3), kind="full_factorial", replicates=4, about={"noise_ratio": 0.05})
    assert {entry.degrees_of_freedom for entry in found.terms} == {32 - 1 - 3 - 3 - 3}


@pytest.mark.parametrize("effect", [0.02, 0.05, 0.08])
def test_power_and_width_are_those_of_simulated_campaigns(effect: float) -> None:
    """2000 campaigns of a half-fraction in two blocks, analysed by least squares as an analyst would."""
    made = experiment([*numbers(3), *WORDS], kind="fractional", resolution=5, replicates=2)
    design = designs.plan(made)
    found = evaluate(made, design, noise_ratio=0.05, effect_ratio=effect)
    assert found is not None
    columns = coded(design)
    pairs = [columns[:, a] * columns[:, b] for a in range(5) for b in range(a + 1, 5)]
    blocks = np.array([1.0 if trial.block else -1.0 for trial in design.trials])
    matrix = np.column_stack([np.ones(32), blocks, columns, *pairs])
    source = np.random.default_rng(20081217)
    outcomes = 1 + 0.1 * blocks + effect / 2 * columns[:, 0] + 0.05 * source.standard_normal((2000, 32))
    coefficients, squares, *_ = np.linalg.lstsq(matrix, outcomes.T, rcond=None)
    left = 32 - matrix.shape[1]
    errors = 2 * np.sqrt(squares / left / 32)
    widths = stats.t.ppf(0.975, left) * errors
    found_share = (np.abs(2 * coefficients[2]) > widths).mean()
    first = found.terms[0]
    assert first.degrees_of_freedom == left
    assert first.power_ratio is not None
    # Four standard errors of a share of 2000, 0.045 at most.
    assert found_share == pytest.approx(first.power_ratio, abs=0.045)
    # The expected width takes the noise as known; the mean of the estimated ones is 2 % below it with 15 degrees.
    assert widths.mean() == pytest.approx(first.half_width_ratio, rel=0.03)


def test_no_trials_left_is_said_and_no_width_is_made_up() -> None:
    found = evaluated(
        numbers(3),
        kind="full_factorial",
        replicates=1,
        about={"noise_ratio": 0.05, "model": ("interactions", "size:send_buffer:receive_buffer")},
    )
    assert {entry.half_width_ratio for entry in found.terms} == {None}
    assert {entry.power_ratio for entry in found.terms} == {None}
    assert all("add replicates" in entry.reason for entry in found.terms)


def test_without_a_noise_widths_are_in_multiples_of_it() -> None:
    plain = evaluated(numbers(3), kind="full_factorial", replicates=2)
    stated = evaluated(numbers(3), kind="full_factorial", replicates=2, about={"noise_ratio": 0.07})
    for one, other in zip(plain.terms, stated.terms, strict=True):
        assert one.half_width_ratio is not None
        assert other.half_width_ratio == pytest.approx(0.07 * one.half_width_ratio)
        assert one.power_ratio is None


def test_aliased_effects_are_told_with_the_first_of_them() -> None:
    found = evaluated([*numbers(3), *WORDS], kind="fractional", generators=("D = AB", "E = AC"), replicates=2)
    told = {entry.name: set(entry.aliases) for entry in found.terms}
    assert told["size"] == {"send_buffer:nagle", "receive_buffer:congestion_control"}
    assert told["nagle"] == {"size:send_buffer"}
    assert len(told) == 7
    assert found.clear == ()
    assert found.dropped == ()
    assert found.word_lengths == {3: 2, 4: 1}


def test_opposite_halves_have_opposite_aliases() -> None:
    found = evaluated(numbers(3), kind="fractional", generators=("C = -AB",), replicates=2)
    assert [(entry.name, entry.aliases) for entry in found.terms] == [
        ("size", ("-send_buffer:receive_buffer",)),
        ("send_buffer", ("-size:receive_buffer",)),
        ("receive_buffer", ("-size:send_buffer",)),
    ]


def test_plackett_burman_of_twelve_runs_biases_by_a_third() -> None:
    """Each main effect is biased by 1/3 of every interaction of two others (Plackett and Burman 1946; Hamada and Wu 1992)."""
    found = evaluated(numbers(8), kind="plackett_burman", replicates=2)
    assert found.runs == 24
    assert len(found.partial) == 8
    assert {round(size, 6) for _, _, size in found.partial} == {0.333333}


@pytest.mark.parametrize(("factors", "runs"), [(23, 24), (24, 32), (27, 32), (33, 40), (43, 48), (47, 48)])
def test_plackett_burman_has_a_design_for_each_number_of_factors(factors: int, runs: int) -> None:
    """Of 28, 36 and 44 runs there is none here: the next size takes their place."""
    design = designs.plan(experiment(numbers(factors), kind="plackett_burman", replicates=1))
    columns = coded(design)
    assert columns.shape == (runs, factors)
    assert np.array_equal(columns.T @ columns, runs * np.eye(factors))


def test_slow_factors_are_told_between_whole_plots() -> None:
    """2 x 2^2 in 4 replicates, one of the factors slow: 8 plots of 4. Its variance is that of two means of 4 plots:
    4 (s_plot^2 / 8 + s^2 / 32), with 8 - 1 - 3 - 1 degrees of freedom; the others' is 4 s^2 / 32 (Goos and Jones, chapter 10).
    """
    found = evaluated(
        numbers(3),
        kind="full_factorial",
        replicates=4,
        slow=("size",),
        about={"noise_ratio": 0.05, "plot_noise_ratio": 0.03},
    )
    slow, fast = found.terms[0], found.terms[1]
    assert (found.plots, slow.slow, fast.slow) == (8, True, False)
    assert slow.degrees_of_freedom == 3
    assert fast.degrees_of_freedom == 32 - 1 - 3 - 6 - 3
    wanted = stats.t.ppf(0.975, 3) * math.sqrt(4 * (0.03**2 / 8 + 0.05**2 / 32))
    assert slow.half_width_ratio == pytest.approx(wanted)
    assert fast.half_width_ratio == pytest.approx(stats.t.ppf(0.975, 19) * 2 * 0.05 / math.sqrt(32))


def test_designs_that_are_not_orthogonal_say_so() -> None:
    found = evaluated(numbers(2), kind="latin_hypercube", runs=9)
    assert found.condition_number is not None
    assert found.condition_number > 1
    assert found.correlated is not None


def test_terms_that_the_points_cannot_tell_are_named() -> None:
    rows = "size,send_buffer\n1000,1000\n9000,9000\n1000,1000\n9000,9000\n"
    found = evaluated(numbers(2), kind="csv", rows=rows, about={"model": ("main",)})
    assert [entry.name for entry in found.terms] == ["size"]
    assert found.terms[0].aliases == ("send_buffer",)


def test_what_is_there_already_counts() -> None:
    rows = "size,send_buffer\n" + "1000,1000\n9000,9000\n1000,9000\n9000,1000\n" * 2
    alone = evaluated(numbers(2), kind="d_optimal", runs=4, model=("interactions",), replicates=2)
    more = evaluated(numbers(2), kind="d_optimal", runs=4, model=("interactions",), rows=rows, replicates=2)
    assert (alone.runs_before, more.runs_before) == (0, 8)
    for one, other in zip(alone.terms, more.terms, strict=True):
        assert one.half_width_ratio is not None
        assert other.half_width_ratio is not None
        assert other.half_width_ratio < one.half_width_ratio


def test_jains_number_of_runs() -> None:
    """Table of modelling.md 6: with t, +-1 % at 95 %."""
    noises = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
    assert [jain_runs(noise, 0.01) for noise in noises] == [4, 7, 18, 99, 387, 1540]
    # The mean of source 2's cells, whose noise was 14 %.
    assert jain_runs(0.14, 0.01) == pytest.approx(765, abs=12)
    for noise in (0, -1):
        with pytest.raises(ValueError, match="above 0"):
            jain_runs(noise, 0.01)


def test_a_model_of_unknown_terms_is_refused() -> None:
    with pytest.raises(ExperimentError, match="'rate'"):
        evaluated(numbers(2), about={"model": ("rate",)})


def test_a_model_that_names_aliased_terms_is_refused() -> None:
    asked = {"model": ("main", "send_buffer:receive_buffer")}
    with pytest.raises(ExperimentError, match="send_buffer:receive_buffer is aliased with size") as raised:
        evaluated(numbers(3), kind="fractional", generators=("C = AB",), about=asked)
    assert "higher resolution" in raised.value.advice
    rows = "size,send_buffer\n1000,1000\n9000,9000\n1000,9000\n"
    with pytest.raises(ExperimentError, match="cannot be estimated beside"):
        evaluated(numbers(2), kind="csv", rows=rows, about={"model": ("main", "size:send_buffer")})


def test_a_search_has_nothing_to_evaluate() -> None:
    made = experiment([])
    assert evaluate(made, designs.plan(made)) is None
