"""What the comparison with other tools asks of each, and what it says of measurements that are known."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.peers import BARE, PEERS, Asked
from bench.versus import MORE, cells, figures, ours
from click.testing import CliRunner

from iodyno.cli import disk, rr, tcp

COMMANDS = {one.command.name: one.command for one in (tcp, rr, disk)}
Side = dict[str, list[float]]


def cell(mine: dict[str, Side], peers: dict[str, Side]) -> dict[str, Any]:
    return {"ours": mine, "peers": peers, "refused": {}, "pairs": 3}


def side(rate: float, cost: float) -> Side:
    return {"rate": [rate, rate * 0.9, rate * 1.1], "cost": [cost, cost, cost]}


def test_a_row_holds_ours_against_who_moves_most_and_who_needs_least() -> None:
    peers = {"iperf3": side(10e9, 4e-9), "neper": side(20e9, 2e-9), "uperf": side(5e9, 1e-9)}
    # What is no tool is never the best of them.
    peers[BARE] = side(40e9, 0.5e-9)
    row, mean, whole = figures({"bulk-1024x4": cell({"as it comes": side(30e9, 1e-9)}, peers)})
    assert (row["best peer"], row["least cost"]) == ("neper 160", "uperf")
    assert (row["rate"], row["rate ratio"]) == ("240 Gbit/s", "1.50 [1.50, 1.50]")
    assert row["to a bare loop"] == "0.75 [0.75, 0.75]"
    assert (row["cost ratio"], row["cost ratio to it"]) == ("0.50 [0.50, 0.50]", "1.00 [1.00, 1.00]")
    assert (mean["cell"], mean["rate ratio"]) == ("geometric mean of 1, bulk", "1.500")
    assert whole["cell"] == "geometric mean of 1, all"


def test_means_are_of_each_kind_and_of_all_for_each_way_of_ours() -> None:
    mine = {"as it comes": side(2.0, 1.0), "io_uring": side(8.0, 1.0)}
    found = {
        name: cell(mine, {"peer": side(rate, 1.0)})
        for name, rate in (("rr-1", 1.0), ("rr-16", 4.0), ("disk-read-direct-1", 1.0))
    }
    means = {
        (row["cell"], row["ours"]): row["rate ratio"]
        for row in figures(found)
        if str(row["cell"]).startswith("geo")
    }
    assert means["geometric mean of 2, rr", "as it comes"] == "1.000"
    assert means["geometric mean of 2, rr", "io_uring"] == "4.000"
    assert means["geometric mean of 3, all", "as it comes"] == "1.260"


def test_who_is_as_good_as_five_others_is_not_behind_the_best_of_them() -> None:
    rng = random.Random(5)

    def of(pairs: int) -> Side:
        return {"rate": [rng.lognormvariate(0, 0.15) for _ in range(pairs)], "cost": [1.0] * pairs}

    for pairs in (3, 10):
        found = {
            f"bulk-{number}": cell(
                {"as it comes": of(pairs)}, {name: of(pairs) for name in ("a", "b", "c", "d", "e")}
            )
            for number in range(400)
        }
        mean = next(row["rate ratio"] for row in figures(found) if str(row["cell"]).endswith("all"))
        # Chosen by the pairs that it is held against, the best of them would be ahead by 10 and 5 %.
        assert float(str(mean)) == pytest.approx(1.0, abs=0.03)


def test_a_cell_without_a_peer_has_no_row() -> None:
    (row,) = figures({"rr-1": cell({"as it comes": side(1.0, 1.0)}, {})})
    assert row["cell"] == "-"


@pytest.mark.parametrize("kind", ["bulk", "rr", "disk"])
def test_our_command_of_each_kind_has_options_that_there_are(kind: str) -> None:
    asked = replace(next(one for one in cells().values() if one.kind == kind), target=Path("file"))
    for more in ((), *MORE[kind].values()):
        _, command, *words = ours(asked, more)
        said = CliRunner().invoke(COMMANDS[command], [*words, "--seconds", "0"])
        # Of all that is written only the length, which is asked for again, is refused.
        assert "--seconds" in said.output, said.output


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_is_asked_for_what_ours_is(name: str, tmp_path: Path) -> None:
    peer = PEERS[name]
    size = {"bulk": 8192, "rr": 0, "disk": 4096}[peer.kind]
    count = 1 if "psync" in name or name == BARE else 32
    asked = Asked(peer.kind, count, 3.0, size=size, address="198.18.0.2", folder=tmp_path, target=Path("/t"))
    lines = peer.lines(asked)
    assert len(lines.servers) == (0 if peer.kind == "disk" else 1)
    said = " ".join(
        [*map(str, lines.clients[0]), *(path.read_text(errors="replace") for path in tmp_path.iterdir())]
    )
    assert ("4k" if peer.kind == "disk" else "8192" if size else "64") in said
    if len(lines.clients) == 1 and peer.kind != "disk":
        assert str(count) in said
    else:
        assert len(lines.clients) in (1, 32)
