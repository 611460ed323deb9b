"""The tables of 2008 as a summary: what the analysis would give of them. Intervals are made up: 3 % each way."""

from __future__ import annotations

from dataclasses import replace

from iodyno.analysis.cost import Background
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary, HostSummary, PointSummary
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode

CONNECTIONS = (1, 4, 8, 32, 100, 400, 1000, 2000, 4000, 6000)
SIZES = {65536: "64KiB", 8192: "8KiB", 1024: "1KiB"}
# usr/sys/intr/idle in %, cycles/Kbyte, Gb/s.
TABLES = {
    65536: [
        (0, 3, 0, 96, 11792, 0.92811), (0, 4, 0, 95, 3365, 3.71), (0, 7, 1, 92, 2815, 7.42),
        (0, 8, 1, 91, 2793, 9.22), (0, 9, 1, 90, 3161, 9.24), (0, 24, 3, 74, 8392, 8.93),
        (0, 24, 3, 74, 8406, 8.80), (0, 31, 4, 68, 12869, 7.01), (0, 32, 5, 67, 14418, 6.44),
        (0, 35, 5, 63, 17053, 6.37),
    ],
    8192: [
        (0, 4, 0, 95, 14259, 0.89623), (0, 5, 0, 93, 4276, 3.72), (0, 10, 1, 89, 4385, 7.13),
        (0, 14, 2, 85, 4951, 8.46), (0, 16, 2, 83, 5515, 8.11), (0, 29, 3, 69, 10738, 7.46),
        (0, 31, 4, 68, 11388, 7.31), (0, 36, 6, 62, 16818, 6.44), (0, 37, 7, 61, 14951, 6.28),
        (1, 34, 5, 64, 18752, 6.19),
    ],
    1024: [
        (0, 4, 1, 95, 13450, 0.91502), (0, 21, 4, 77, 19239, 3.53), (0, 38, 6, 60, 20890, 5.42),
        (0, 46, 8, 52, 18792, 5.97), (0, 48, 8, 50, 21831, 5.77), (1, 58, 9, 40, 24547, 5.81),
        (1, 53, 9, 45, 31557, 4.73), (1, 51, 9, 47, 38520, 3.89), (1, 58, 11, 40, 40116, 3.98),
        (1, 53, 9, 45, 40209, 3.97),
    ],
}  # fmt: skip


def around(value: float, unit: str) -> Estimate:
    """An estimate with 3 % each way."""
    return Estimate(value, 0.97 * value, 1.03 * value, 3, unit, "t interval over 3 trials")


def summary() -> CampaignSummary:
    """Ten loads by three message sizes; the receivers were not measured."""
    points = []
    for number, connections in enumerate(CONNECTIONS):
        for size, label in SIZES.items():
            usr, sys, intr, idle, cycles, rate = TABLES[size][number]
            window = 262144 if connections <= 100 else 32768
            outcomes = {
                "goodput_bits_per_s": around(rate * 1e9, "bit/s"),
                "sut.cycles_per_kib": around(cycles, "cycles/KiB"),
                "sut.cpu_busy_ratio": around(1 - idle / 100, "1"),
            }
            for name, share in (("usr", usr), ("sys", sys), ("intr", intr), ("idle", idle)):
                outcomes[f"sut.cpu_{name}_ratio"] = around(share / 100, "1")
                outcomes[f"clients.cpu_{name}_ratio"] = nothing("1")
            outcomes["clients.cycles_per_kib"] = nothing("cycles/KiB")
            # At the clock that the tables imply; classes as the busy time is split, hard interrupts not apart.
            outcomes["sut.cpu_ns_per_kib"] = around(cycles / 2.11, "ns/KiB")
            busy = usr + sys + intr
            for name, share in (("usr", usr), ("sys", sys), ("softirq", intr)):
                cost = around(cycles / 2.11 * share / busy, "ns/KiB")
                outcomes[f"sut.cpu_{name}_ns_per_kib"] = cost
            for name in ("irq", "other"):
                outcomes[f"sut.cpu_{name}_ns_per_kib"] = nothing("ns/KiB", "vmstat does not tell")
            points.append(
                PointSummary(
                    id=f"p{len(points) + 1:02d}",
                    levels={"connections": connections, "window": window, "size": size},
                    labels={
                        "connections": str(connections),
                        "window": "256KiB" if connections <= 100 else "32KiB",
                        "size": label,
                    },
                    outcomes=outcomes,
                    warnings=(),
                    planned=3,
                    finished=3,
                )
            )
    return CampaignSummary(
        name="tcp-transmit-2008",
        question="What does a transmitted KByte cost?",
        folder="campaigns/tcp-transmit-2008",
        created="2008-12-17T00:00:00+00:00",
        finished=True,
        quick=False,
        seed=20081217,
        tool_version="0.1.0",
        build_hash="0123456789abcdef",
        design="full_factorial",
        workload={"kind": "stream", "sender": "sut", "receiver": "clients", "settings": {}},
        windows={},
        factors=(
            FactorLevels("connections", CONNECTIONS, ("window",), "", True),
            FactorLevels("size", tuple(SIZES), (), "", True),
        ),
        factor_labels={"connections": tuple(map(str, CONNECTIONS)), "size": tuple(SIZES.values())},
        hosts=(host("sut", "send", 16), host("clients", "receive", 2)),
        tier="tsc",
        asked=("goodput_bits_per_s", "sut.cycles_per_kib"),
        points=tuple(points),
        trials=(),
        planned=90,
        sockets=(),
        warnings=(Warning(WarningCode.TICK_ACCOUNTING, "the split is sampled", "sut"),),
        experiment_text="name: tcp-transmit-2008\n",
    )


def nothing(unit: str, why: str = "the clients were not measured") -> Estimate:
    """Not measured, and why."""
    return Estimate(None, None, None, 0, unit, "none", missing=why)


def host(name: str, role: str, cpus: int) -> HostSummary:
    """A host of which little is known."""
    return HostSummary(
        name, role, "local", tuple(range(cpus)), None, {}, {}, {}, (), {}, (),
        Background(name, 0.001, 0.001, 0.001), {"sensors": 0.001}, {},
    )  # fmt: skip


def flat() -> CampaignSummary:
    """The same with every cost equal: nothing can be told apart."""
    made = summary()
    costs = {
        "sut.cycles_per_kib": around(3000, "cycles/KiB"),
        "sut.cpu_ns_per_kib": around(1420, "ns/KiB"),
    }
    points = [replace(point, outcomes=dict(point.outcomes) | costs) for point in made.points]
    return replace(made, points=tuple(points))


def single() -> CampaignSummary:
    """One point, nothing varies."""
    made = summary()
    factors = tuple(replace(factor, levels=factor.levels[:1]) for factor in made.factors)
    labels = {name: texts[:1] for name, texts in made.factor_labels.items()}
    return replace(made, points=made.points[:1], factors=factors, factor_labels=labels, planned=3)


def named(names: tuple[str, ...]) -> CampaignSummary:
    """The first loads under names, as levels of a variant: no quantity any more."""
    made = summary()
    numbers = dict(zip(CONNECTIONS, names, strict=False))
    points = [
        replace(
            point,
            levels={"variant": numbers[point.levels["connections"]], "size": point.levels["size"]},
            labels={"variant": numbers[point.levels["connections"]], "size": point.labels["size"]},
        )
        for point in made.points
        if point.levels["connections"] in numbers
    ]
    factors = (FactorLevels("variant", names, (), "", False), made.factors[1])
    labels = {"variant": names, "size": made.factor_labels["size"]}
    return replace(made, points=tuple(points), factors=factors, factor_labels=labels)
