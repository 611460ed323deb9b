"""What the comparison with other tools says of measurements that are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import network
from bench.network_figures import SAME, SIZES, Cell, figures


def cell(name: str, ours: dict[str, list[float]], peers: dict[str, list[float]], cost: float = 1.0) -> Cell:
    """A cell with these rates; ours cost `cost`, the peers 1."""
    return Cell(
        name,
        {side: {"rate": rates, "cost": [cost] * len(rates)} for side, rates in ours.items()},
        {side: {"rate": rates, "cost": [1.0] * len(rates)} for side, rates in peers.items()},
    )


def test_the_best_peer_of_the_cell_is_what_ours_are_held_against() -> None:
    ours = {"threads": [10.0, 10.0, 10.0], "splice": [30.0, 28.0, 32.0]}
    found = cell("bulk-1024x4", ours, {"iperf3": [5.0, 5.0, 5.0], "nuttcp": [20.0, 20.0, 20.0]}, cost=0.5)
    same, cost, _, best = figures({found.name: found})
    assert (same["ours"], same["peer"], same["ratio"], same["verdict"]) == (
        "threads",
        "nuttcp",
        0.5,
        "missed",
    )
    assert (cost["ratio"], cost["bar"], cost["verdict"]) == (0.5, "<= 1", "met")
    assert (best["ratio"], best["least"], best["greatest"], best["verdict"]) == (1.5, 1.4, 1.6, "met")


def test_the_cost_of_who_moves_most_and_of_who_needs_least_are_two_figures() -> None:
    def series(rate: float, cost: float) -> dict[str, list[float]]:
        return {"rate": [rate, rate], "cost": [cost, cost]}

    ours = {"epoll": series(30.0, 0.6), "round robin": series(20.0, 0.4)}
    peers = {"iperf3": series(25.0, 0.8), "nuttcp": series(15.0, 0.5)}
    _, most, least, _ = figures({"bulk-65536x32": Cell("bulk-65536x32", ours, peers)})
    assert (most["ours"], most["peer"], most["ratio"]) == ("epoll", "iperf3", 0.75)
    assert (least["ours"], least["peer"], least["ratio"]) == ("round robin", "nuttcp", 0.8)


@pytest.mark.parametrize("size", SIZES)
def test_ours_of_each_size_make_the_peers_calls_and_others(size: int) -> None:
    ours = network.bulk(size)
    assert set(SAME["bulk"]) < set(ours)
    # A call for each message is not the same as one for many.
    assert not any("syscalls" in ours[name] or "receive" in ours[name] for name in SAME["bulk"])
    assert all(int(str(how["batch"])) * size == network.BATCH_BYTES for how in ours.values())


def test_a_figure_that_some_pairs_miss_is_said_to_be_unsure() -> None:
    found = cell("tcp-rr-16", {"epoll": [11.0, 9.0, 12.0]}, {"qperf": [10.0, 10.0, 10.0]})
    same, best = figures({found.name: found})
    assert same["verdict"] == "met by the median, not by every pair"
    assert best["verdict"] == "missed by the median, not by every pair"


def test_the_mean_over_cells_is_geometric() -> None:
    cells = {
        name: cell(name, {"epoll": [ratio, ratio]}, {"iperf3": [1.0, 1.0]})
        for name, ratio in (("bulk-1024x1", 4.0), ("bulk-8192x1", 1.0))
    }
    last = figures(cells)[-1]
    assert last["ratio"] == pytest.approx(2.0) and str(last["cell"]).startswith("2 of 15")


def test_a_cell_without_a_peer_or_other_calls_says_nothing_of_it() -> None:
    sent = cell("udp-send-64", {"read_write": [1.0], "segments": [9.0]}, {"iperf3": [1.0]})
    assert [row["figure"] for row in figures({sent.name: sent})] == [
        "datagrams/s, plain sockets", "datagrams/s, segmentation offload",
    ]  # fmt: skip
    alone = cell("udp-send-64", {"read_write": [1.0]}, {})
    assert figures({alone.name: alone})[0]["verdict"] == "open"


def test_kept_measurements_are_not_made_again_and_others_are_refused(tmp_path: Path) -> None:
    kept = {
        "ours": {"epoll": {"rate": [2.0]}},
        "peers": {"qperf": {"rate": [1.0]}},
        "refused": {},
        "pairs": 1,
    }
    file = tmp_path / "kept.json"
    machine = network._kept(None)["machine"]
    file.write_text(json.dumps({"machine": machine, "cells": {"tcp-rr-1": kept}}))
    rows = network.asyncio.run(network.run(1, ["tcp-rr-1"], str(file)))
    assert [row["ratio"] for row in rows] == [2.0, 2.0]
    file.write_text(json.dumps({"machine": "another", "cells": {}}))
    with pytest.raises(SystemExit, match="another machine"):
        network._kept(file)
    file.write_text("[]")
    with pytest.raises(SystemExit, match="is no file of this comparison"):
        network._kept(file)
    with pytest.raises(SystemExit, match="no cell is called bulk-1"):
        network.asyncio.run(network.run(1, ["bulk-1"]))
