"""Call stacks from a real load, through the wire, into the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from places import MS, PROFILE_HZ, Notes, experiment, run

from iodyno.core.experiment import Windows
from iodyno.core.factor import Factor

pytestmark = pytest.mark.root

ASKED = experiment(
    "netns",
    factors=(Factor("connections", (2,)), Factor("size", (65536,))),
    windows=Windows(200 * MS, 1_000 * MS, 100 * MS, 250 * MS),
    profile_hz=PROFILE_HZ,
)


def profiles(notes: Notes) -> dict[str, dict[str, Any]]:
    """What the one manifest says of each host's profile; skips where this machine gives no samples of the kernel."""
    (manifest,) = notes.manifests
    found = {host: facts["profile"] for host, facts in manifest["hosts"].items()}
    for host, profile in found.items():
        if profile["missing"]:
            pytest.skip(f"host {host}: {profile['missing']}")
    return found


def test_a_trial_stores_the_functions_that_its_load_ran(tmp_path: Path) -> None:
    notes = Notes()
    folder = asyncio.run(run(ASKED, tmp_path, notes=notes)).folder
    found = profiles(notes)
    rows = duckdb.sql(
        f"select host, owner, mode, functions, modules, \"count\" from read_parquet('{folder}/trials/*/stacks.parquet')"
    ).fetchall()
    for host, call in (("client", "tcp_sendmsg"), ("server", "tcp_recvmsg")):
        profile = found[host]
        assert profile["hz"] in (997, 499, 331)
        assert profile["event"] in ("cycles", "cpu-clock")
        # The measured window, give or take what a loaded machine comes late.
        assert profile["end_ns"] - profile["begin_ns"] >= 900 * MS
        mine = [row for row in rows if row[0] == host]
        assert sum(row[5] for row in mine) == profile["samples"] > 0
        assert all(len(row[3]) == len(row[4]) > 0 for row in mine)
        own = sum(row[5] for row in mine if row[1] == "app")
        calls = sum(row[5] for row in mine if row[1] == "app" and call in row[3])
        # Two connections do little else; other tasks of a loaded machine have other owners.
        assert calls > own / 3, f"{calls} of {own} samples of {host} are in {call}"
        assert all(row[2] == "kernel" for row in mine if call in row[3])
        place = {dict(zip(row[3], row[4], strict=True)).get(call) for row in mine if call in row[3]}
        assert place == {"kernel"}
        assert any("iodyno-agent" in row[4] for row in mine if row[1] == "app")


def test_no_stacks_are_taken_where_none_are_asked_for(tmp_path: Path) -> None:
    notes = Notes()
    folder = asyncio.run(run(replace(ASKED, profile_hz=0), tmp_path, notes=notes)).folder
    (manifest,) = notes.manifests
    assert all(facts["profile"] is None for facts in manifest["hosts"].values())
    assert duckdb.sql(f"select * from read_parquet('{folder}/trials/*/stacks.parquet')").fetchall() == []
