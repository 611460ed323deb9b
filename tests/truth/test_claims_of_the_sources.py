"""Claims in the sources' texts against the numbers of their own tables: the right value stands here, also where the text is
wrong. What is said of queues is in `test_queueing_claims.py`, of the published equation in `test_published_equation.py`,
of scaling curves in `test_scaling.py`, of cycles in `tests/golden/test_source_arithmetic.py`.
"""

from __future__ import annotations

import pytest

from iodyno.analysis.compare import change
from iodyno.analysis.queueing.laws import number_in_system
from iodyno.core.outcome import Estimate

KIB8 = 8192


def exact(value: float, unit: str) -> Estimate:
    """A printed number, taken to be as exact as its last digit."""
    half = 0.5 * 10 ** -len(f"{value!r}".partition(".")[2])
    return Estimate(value, value - half, value + half, 1, unit, "printed")


def test_more_connections_cost_more_of_the_cpu_and_carry_less() -> None:
    """The text: utilisation drops with the number of connections, and throughput follows it. Its 64K table, 8 to 6000
    connections: cost and utilisation rise, throughput falls.
    """
    cost = change(exact(2815, "cycles/KiB"), exact(17053, "cycles/KiB"))
    busy = change(exact(100 - 92, "%"), exact(100 - 63, "%"))
    rate = change(exact(7.42, "Gbit/s"), exact(6.37, "Gbit/s"))
    assert (cost.verdict, busy.verdict, rate.verdict) == ("rises", "rises", "falls")
    assert cost.ratio == pytest.approx(6.058, abs=5e-4)
    # And with smaller writes, at 8 connections: 64K, 8K, 1K.
    for first, second in ((2815, 4385), (4385, 20890)):
        assert change(exact(first, "cycles/KiB"), exact(second, "cycles/KiB")).verdict == "rises"
    for first, second in ((100 - 92, 100 - 89), (100 - 89, 100 - 60)):
        assert change(exact(first, "%"), exact(second, "%")).verdict == "rises"


@pytest.mark.parametrize(
    ("uncached", "cached", "per_cent", "within_15_to_20"),
    [(871.0, 1012.6, 16.26, True), (924.2, 1005.9, 8.840, False)],
    ids=["one thread", "twenty threads against ten"],
)
def test_what_caching_gains(uncached: float, cached: float, per_cent: float, within_15_to_20: bool) -> None:
    """The text: 15 to 20 %. It holds for one of the two pairs of rows, and the other compares 20 threads with 10."""
    gain = change(exact(uncached, "MB/s"), exact(cached, "MB/s")).ratio
    assert gain is not None
    assert 100 * (gain - 1) == pytest.approx(per_cent, rel=5e-4)
    assert (15 <= 100 * (gain - 1) <= 20) is within_15_to_20


def test_a_wire_carries_at_least_its_payload() -> None:
    """24 555 synchronous writes of 8 KiB a second are 201.2 MB/s, and the network is said to have carried 111."""
    assert pytest.approx(201.15, abs=5e-3) == 24_555 * KIB8 / 1e6
    assert pytest.approx(191.8, abs=0.05) == 24_555 * KIB8 / 2**20
    assert 24_555 * KIB8 / 1e6 > 111
    # 7047 reads a second need MiB for their 57 to hold; in MB they are more than the wire had.
    assert pytest.approx(57.73, abs=5e-3) == 7047 * KIB8 / 1e6
    assert pytest.approx(55.05, abs=5e-3) == 7047 * KIB8 / 2**20


def test_eighteen_clients_and_their_disks() -> None:
    """48.4 MB/s a client and 360 GB hold; 150 to 180 operations a disk are more than its table has on 48 or 45 disks."""
    assert pytest.approx(48.39, abs=5e-3) == 871.0 / 18
    assert 18 * 20 == 360
    on_48, on_45 = ([rate / disks for rate in (6204, 7047)] for disks in (48, 45))
    assert on_48 == [pytest.approx(129.25), pytest.approx(146.8, abs=0.05)]
    assert on_45 == [pytest.approx(137.9, abs=0.05), pytest.approx(156.6)]
    assert max(on_48) < 150


@pytest.mark.parametrize(
    ("connections", "all_rings", "two_rings", "cost_ratio", "rate_ratio"),
    [(12, (4.9, 11.1), (6.3, 9.0), 1.233, 1.286), (40, (5.8, 15.7), (8.2, 10.8), 1.454, 1.414)],
)
def test_what_two_transmit_rings_save(
    connections: int,
    all_rings: tuple[float, float],
    two_rings: tuple[float, float],
    cost_ratio: float,
    rate_ratio: float,
) -> None:
    """The text: up to 50 % more efficient. It is 45 %, and 23 % with 12 connections."""
    cost = change(exact(two_rings[1], "1"), exact(all_rings[1], "1"))
    rate = change(exact(all_rings[0], "Gbit/s"), exact(two_rings[0], "Gbit/s"))
    assert (cost.verdict, rate.verdict) == ("rises", "rises")
    assert cost.ratio == pytest.approx(cost_ratio, abs=5e-4)
    assert rate.ratio == pytest.approx(rate_ratio, abs=5e-4)
    assert cost.ratio < 1.5


def test_a_server_that_sleeps_longer_than_its_blocks_last() -> None:
    """Half idle with 13.7 polls a second is 36 ms of sleep each, and a block is handed over after 10 ms at the latest."""
    sleep_s = 0.5 / 13.7
    assert sleep_s == pytest.approx(0.0365, abs=5e-5)
    assert sleep_s > 3 * 0.010
    # If the polls were of a millisecond, they would hardly sleep at all: neither reading is explained by the text.
    assert 0.5 / 13_700 < 0.010


def test_what_a_zone_gains_over_a_guest() -> None:
    """Four and five times: 4.33 in packets, 5.04 in bits; and a look into a zone takes 49.7 us more."""
    assert change(exact(18_000, "1/s"), exact(78_000, "1/s")).ratio == pytest.approx(4.333, abs=5e-4)
    assert change(exact(0.9, "Gbit/s"), exact(4.54, "Gbit/s")).ratio == pytest.approx(5.044, abs=5e-4)
    assert pytest.approx(49.67) == (594_254 - 544_584) / 1e3


def test_little_s_law_of_a_disk_that_was_printed() -> None:
    """220 writes a second of 4.6 ms, and 203 of 5.1 ms: one in progress, as its column says."""
    assert number_in_system(220, 4.6e-3) == pytest.approx(1.012)
    assert number_in_system(203, 5.1e-3) == pytest.approx(1.0353)
