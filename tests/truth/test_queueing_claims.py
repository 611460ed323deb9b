"""The claims about queues in source 2's article (a shared M/M/8, buffers of a port), each with the right value.

Where the article is wrong the right value stands here, and the article's beside it in a comment.
"""

from __future__ import annotations

import math

import pytest

from iodyno.analysis.queueing.credits import covered_distance_m, credit_rate_per_s, credits_for
from iodyno.analysis.queueing.ggc import ggc
from iodyno.analysis.queueing.laws import number_in_system, response_time_s, servers_needed, utilisation
from iodyno.analysis.queueing.md1 import md1, md1k
from iodyno.analysis.queueing.mdc import mdc
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.mmc import mmc, separate_queues
from iodyno.analysis.queueing.mmck import mm1k
from iodyno.core.errors import ExperimentError

US = 1e-6
FOUR = 5e-5
"""Half a unit in the fourth digit of a number that begins with 1."""


def same(value: float) -> object:
    return pytest.approx(value, rel=FOUR)


@pytest.mark.parametrize(
    ("utilisation", "mean_us"), [(0, 127.000), (0.2, 127.005), (0.4, 127.489), (0.6, 132.538), (0.8, 163.326)]
)
def test_claim_1_table_of_127_us_was_cut_and_not_rounded(utilisation: float, mean_us: float) -> None:
    # Printed: .000127 .000127 .000127 .000132 .000163; 132.538 us is .000133.
    found = mmc(utilisation * 8 / (127 * US), 127 * US, 8)
    assert found.response_time_s / US == same(mean_us)
    assert f"{found.response_time_s:.6f}" == {0.6: "0.000133"}.get(utilisation, f"{mean_us / 1e6:.6f}")


@pytest.mark.parametrize(
    ("utilisation", "mean_us"), [(0, 81.000), (0.2, 81.003), (0.4, 81.312), (0.6, 84.532), (0.8, 104.168)]
)
def test_claims_2_and_3_the_table_of_81_us_is_the_second_version(utilisation: float, mean_us: float) -> None:
    found = mmc(utilisation * 8 / (81 * US), 81 * US, 8)
    assert found.response_time_s / US == same(mean_us)
    assert round(found.response_time_s / US) == {0.0: 81, 0.2: 81, 0.4: 81, 0.6: 85, 0.8: 104}[utilisation]


def test_claim_4_the_usual_approximation_is_7_per_cent_low() -> None:
    # s / (1 - rho^c) is what an approximate solver would have given: 152.6 us, where Erlang C says 163.3 us.
    exact = mmc(0.8 * 8 / (127 * US), 127 * US, 8).response_time_s
    assert same(152.60) == 127 / (1 - 0.8**8)
    assert exact / US == same(163.326)


def test_claim_5_copes_well_only_with_one_shared_queue() -> None:
    shared, apart = (model(0.8 * 8 / (81 * US), 81 * US, 8) for model in (mmc, separate_queues))
    assert apart.response_time_s / US == same(405.0)
    assert shared.response_time_quantile_s(0.99) == same(417.327 * US)
    assert apart.response_time_quantile_s(0.99) == same(81 * US / 0.2 * math.log(100))
    assert mmc(0.9 * 8 / (81 * US), 81 * US, 8).response_time_quantile_s(0.99) == same(574.075 * US)


def test_claim_5_with_constant_service() -> None:
    load = 0.8 * 8 / (81 * US)
    assert ggc(load, 81 * US, 8, 1, 0).response_time_s == same(92.584 * US)
    # The research note has the approximation; the exact mean is 0.8 % above it.
    assert mdc(load, 81 * US, 8).response_time_s == same(93.308 * US)


def test_claim_9_cores_need_a_target_utilisation() -> None:
    # 70 000 IOPS: 6 and 3 cores in the article, at 100 %; 80.54 and 41.10 us are its own times.
    assert utilisation(70_000, 80.54 * US) == same(5.6378)
    assert utilisation(70_000, 41.10 * US) == same(2.877)
    assert [servers_needed(70_000, s * US, 1.0) for s in (80.54, 41.10)] == [6, 3]
    assert [servers_needed(70_000, s * US, 0.7) for s in (80.54, 41.10)] == [9, 5]


def test_claim_13_the_time_of_a_frame_is_right_by_luck() -> None:
    # 2112 bytes at 8 Gb/s are 2.64 us with 10 bits a byte; the line runs at 8.5 GBd, the frame has 2148 bytes.
    assert same(2.64 * US) == 2112 * 10 / 8.0e9
    assert same(2.4847 * US) == 2112 * 10 / 8.5e9
    assert same(2.5271 * US) == 2148 * 10 / 8.5e9


def test_claim_14_50_us_is_a_mean() -> None:
    found = mm1(0.95 / (2.5 * US), 2.5 * US)
    assert found.response_time_s / US == same(50.0)
    assert found.response_time_quantile_s(0.99) == same(230.259 * US)
    # Frames are of one size: half the wait, and a 99 % quantile that is still most of an array's 150 us.
    constant = md1(0.95 / (2.5 * US), 2.5 * US)
    assert constant.response_time_s == same(26.25 * US)
    assert constant.response_time_quantile_s(0.99) == same(114.844 * US)


def test_claim_15_the_printed_queue_length_has_a_service_time_too_many() -> None:
    # Printed: L = rho^2 / ((1 - rho) s), which is 3.24e6 at .9 with s = 2.5 us, and has a unit.
    found = mm1(0.9 / (2.5 * US), 2.5 * US)
    assert found.queue_length == same(8.1)
    assert found.queue_length / (2.5 * US) == same(3.24e6)


@pytest.mark.parametrize(
    ("buffers", "waiting_at", "in_system_at"), [(8, 0.898979, 0.888889), (32, 0.970563, 0.969697)]
)
def test_claim_16_90_and_97_per_cent_are_where_means_reach_the_buffers(
    buffers: int, waiting_at: float, in_system_at: float
) -> None:
    assert mm1(waiting_at, 1.0).queue_length == pytest.approx(buffers, rel=1e-4)
    assert mm1(in_system_at, 1.0).number_in_system == pytest.approx(buffers, rel=1e-4)


@pytest.mark.parametrize(("buffers", "load"), [(8, 0.944272), (32, 0.984845)])
def test_claim_16_with_constant_service(buffers: int, load: float) -> None:
    assert md1(load, 1.0).queue_length == pytest.approx(buffers, rel=1e-4)


def test_claim_17_a_mean_of_8_is_not_the_end_of_8_buffers() -> None:
    # At that load more than 8 are in the system for 38 % of the time.
    at = 0.898979
    assert 1 - sum(mm1(at, 1.0).probability(n) or 0 for n in range(9)) == pytest.approx(at**9, rel=1e-9)
    assert at**9 == same(0.38348)
    small, large = mm1k(0.9, 1.0, 8), mm1k(0.9, 1.0, 32)
    assert small.blocking_ratio == same(0.0702712)
    assert small.utilisation == same(0.836756)
    assert large.blocking_ratio == same(0.00354318)
    assert large.utilisation == same(0.896811)


@pytest.mark.parametrize(
    ("loss", "at_8", "at_32"), [(1e-2, 0.637, 0.942), (1e-3, 0.455, 0.856), (1e-6, 0.18, 0.67)]
)
def test_claim_17_the_practical_limit_of_8_credits_is_64_per_cent(
    loss: float, at_8: float, at_32: float
) -> None:
    # The note gives loads with two or three digits: the loss wanted lies between half a unit below and above.
    half = 0.005 if loss < 1e-4 else 0.0005
    for buffers, load in ((8, at_8), (32, at_32)):
        below, above = (mm1k(load + side, 1.0, buffers).blocking_ratio for side in (-half, half))
        assert below is not None and above is not None
        assert below < loss < above


def test_claim_18_7_per_cent_of_8_gigabits() -> None:
    lost = mm1k(0.9, 1.0, 8).blocking_ratio
    assert lost is not None
    # The article has 573 Mb/s, from 7.158 %; what is offered is nine tenths of the port.
    assert same(572.64) == 0.07158 * 8000
    assert lost * 0.9 * 8000 == same(505.95)


def test_claim_17_with_constant_service() -> None:
    # Frames of one size: calculated apart, by the textbook recurrence with 80 digits.
    assert md1k(0.9, 1.0, 8).blocking_ratio == same(0.0272636)
    assert md1k(0.9, 1.0, 32).blocking_ratio == same(0.000151976)
    # 1 % is lost from 81 % and 98.7 % on, where exponential service loses it from 64 % and 94 % on.
    assert md1k(0.810236, 1.0, 8).blocking_ratio == same(0.01)
    assert md1k(0.986557, 1.0, 32).blocking_ratio == same(0.01)


def test_claim_18_credits_cover_a_distance() -> None:
    # 5 us/km each way. The rule gives 2 and 8 km; the frame's own time takes a quarter of a kilometre more.
    assert [covered_distance_m(b, 2.5 * US, own_time=False) for b in (8, 32)] == [same(2000), same(8000)]
    assert [covered_distance_m(b, 2.5 * US) for b in (8, 32)] == [same(1750), same(7750)]
    assert credits_for(2.5 * US, 20 * US) == 9
    assert credits_for(2.5 * US, 17.5 * US) == 8
    # At 2 km the 8 credits carry 8 / 9 of the line.
    assert credit_rate_per_s(8, 2.5 * US, 20 * US) * 2.5 * US == same(8 / 9)


def test_claim_26_the_two_points_on_the_wall_are_of_different_populations() -> None:
    assert number_in_system(22_000, 2600 * US) == same(57.2)
    assert number_in_system(25_000, 1800 * US) == same(45.0)
    # With 64 clients the think times differ; with 48 the first point cannot be.
    assert same(309.09 * US) == 64 / 22_000 - 2600 * US
    assert same(760.0 * US) == 64 / 25_000 - 1800 * US
    with pytest.raises(ExperimentError, match="less than the think time"):
        response_time_s(48, 22_000, 2600 * US)


def test_claim_27_response_of_64_outstanding_packets() -> None:
    found = [response_time_s(64, rate) for rate in (449_543, 419_282, 11_639)]
    assert found == [same(142.367 * US), same(152.642 * US), same(5498.75 * US)]


def test_claim_29_iostat_agrees_with_little() -> None:
    assert number_in_system(220, 4.6e-3) == same(1.012)
    assert number_in_system(203, 5.1e-3) == same(1.0353)
