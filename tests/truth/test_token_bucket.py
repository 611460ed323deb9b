"""A token bucket is found in rates that come from one, with intervals that hold the truth, and in no others."""

from __future__ import annotations

import random

from iodyno.analysis.token_bucket import in_words, token_bucket

INTERVAL_S, BEFORE_S = 0.02, 0.3


def rates(source: random.Random, first: float, then: float, empty_s: float, count: int = 150) -> list[float]:
    found = []
    for number in range(count):
        share = min(1.0, max(0.0, (empty_s - BEFORE_S) / INTERVAL_S - number))
        found.append((first * share + then * (1 - share)) * source.gauss(1, 0.03))
    return found


def test_its_rates_what_it_held_and_when_it_was_empty() -> None:
    source, held = random.Random(7), [0, 0, 0, 0]
    for _ in range(200):
        empty_s = source.uniform(0.6, 2.8)
        found = token_bucket(rates(source, 800e6, 100e6, empty_s), INTERVAL_S, BEFORE_S, "bit/s")
        assert found is not None
        truths = (800e6, 100e6, 700e6 * empty_s, empty_s)
        estimates = (found.burst_rate, found.refill_rate, found.held, found.empty_after_s)
        for place, (estimate, truth) in enumerate(zip(estimates, truths, strict=True)):
            assert estimate.low is not None and estimate.high is not None
            held[place] += estimate.low <= truth <= estimate.high
    assert min(held) >= 180, held


def test_what_comes_a_moment_late_hides_no_bucket() -> None:
    """What is missing in an interval of 20 ms is in the next one, as where a device is served by a timer on a busy machine."""
    source, found = random.Random(11), 0
    for _ in range(200):
        steady = rates(source, 380e6, 95e6, 0.84, 54)
        late = [each * abs(source.gauss(0, 0.2)) for each in steady]
        shifted = [
            each - ours + before for each, ours, before in zip(steady, late, [0.0, *late], strict=False)
        ]
        bucket = token_bucket(shifted, INTERVAL_S, BEFORE_S, "bit/s")
        found += bucket is not None and abs(bucket.empty_after_s.estimate / 0.84 - 1) < 0.05
    assert found >= 190


def test_what_is_no_bucket_is_none() -> None:
    source = random.Random(3)
    for _ in range(200):
        walk, noise = [0.0], [1e9 * source.gauss(1, 0.05) for _ in range(50)]
        for _ in range(50):
            walk.append(0.8 * walk[-1] + source.gauss(0, 0.1))
        ramp = [1e9 * (2 - number / 50) * source.gauss(1, 0.02) for number in range(50)]
        rising = rates(source, 100e6, 800e6, 1.0)
        wild = [1e9 * abs(source.gauss(1, 0.3)) for _ in range(50)]
        for values in (
            noise,
            wild,
            [1e9 * (1 + each) for each in walk],
            ramp,
            rising,
            [],
            [1.0] * 50,
            [0.0] * 50,
        ):
            assert token_bucket(values, INTERVAL_S, BEFORE_S, "bit/s") is None


def test_operations_have_a_bucket_of_operations() -> None:
    found = token_bucket(rates(random.Random(1), 3000, 500, 1.5), INTERVAL_S, BEFORE_S, "1/s")
    assert found is not None
    assert in_words(found, "the rate").startswith("the rate falls from 3.01 k/s to 499 /s after 1.50 s")
