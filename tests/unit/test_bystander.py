"""Who gains and who pays when two workloads share a path: contrasts with a known answer."""

from __future__ import annotations

from iodyno.analysis.bystander import Trade, trades
from iodyno.core.outcome import Estimate
from iodyno.report.bystander import sentence


def about(value: float, half: float, unit: str = "1/s") -> Estimate:
    return Estimate(value, value - half, value + half, 5, unit, "made")


def found(goodput: tuple[float, float], rate: tuple[float, float]) -> Trade:
    """The contrast of GRO off and on: goodput of the workload, rate of the bystander, half-width 5 % each."""
    points = [
        (
            {"server.gro": level, "connections": 4},
            {"server.gro": "on" if level else "off", "connections": "4"},
            {
                "goodput_bits_per_s": about(bits, 0.05 * bits, "bit/s"),
                "bystander.operations_per_s": about(per_s, 0.05 * per_s),
            },
        )
        for level, bits, per_s in ((False, goodput[0], rate[0]), (True, goodput[1], rate[1]))
    ]
    (trade,) = trades(points, {"server.gro": (False, True)}, ("stream", "request_response"))
    return trade


def test_a_gain_at_the_others_cost_is_said_with_both_changes() -> None:
    trade = found((5e9, 8e9), (1000, 600))
    assert trade.at_its_cost
    assert sentence(trade) == (
        "From server.gro off to on, the workload is better off (its goodput goes from 5.00 [4.75, 5.25] Gbit/s to"
        " 8.00 [7.60, 8.40] Gbit/s), and the bystander is worse off (its rate goes from 1.000 [0.950, 1.050] k/s to"
        " 600 [570, 630] /s): one is favoured at the other's cost."
    )


def test_the_other_way_round_counts_too() -> None:
    assert found((8e9, 5e9), (600, 1000)).at_its_cost


def test_what_is_good_for_both_or_undecided_is_no_trade() -> None:
    assert not found((5e9, 8e9), (600, 1000)).at_its_cost
    assert not found((5e9, 8e9), (1000, 980)).at_its_cost
    assert not found((5e9, 5.1e9), (1000, 600)).at_its_cost


def test_only_neighbouring_levels_at_the_same_others_are_contrasted() -> None:
    points = [
        ({"rate": rate, "connections": n}, {"rate": str(rate), "connections": str(n)}, {})
        for rate in (1, 2, 3)
        for n in (1, 8)
        if (rate, n) != (2, 8)
    ]
    levels = {"rate": (1, 2, 3), "connections": (1, 8)}
    told = [
        (t.factor, t.before, t.after, dict(t.others)) for t in trades(points, levels, ("stream", "stream"))
    ]
    assert told == [
        ("rate", "1", "2", {"connections": "1"}),
        ("rate", "2", "3", {"connections": "1"}),
        ("connections", "1", "8", {"rate": "1"}),
        ("connections", "1", "8", {"rate": "3"}),
    ]
