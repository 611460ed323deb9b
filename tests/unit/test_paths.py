"""Levels of `path` as values: what is skipped is told apart, what is seen from two sides is joined."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from places import experiment

from iodyno import designs
from iodyno.campaign.observed import OUTSIDE, Pairing, joined
from iodyno.campaign.preflight import NoDataError
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.testbeds import Testbeds
from iodyno.cli.main import run
from iodyno.core.errors import AccessError
from iodyno.core.factor import Factor
from iodyno.core.path import CARRIED_BY_OTHERS, OWN_KERNEL, PATHS
from iodyno.hosts import guest, sandbox
from iodyno.paths import veth
from iodyno.session import path_levels
from iodyno.session.sent import SentRecord


def record(index: int, *sensors: str, **load: Any) -> dict[str, Any]:
    return {
        "index": index,
        "load": load,
        "sensors": [{"sensor": name, "from": load.get("at")} for name in sensors],
    }


def test_a_record_has_the_load_from_inside_and_the_machine_from_outside() -> None:
    inside = record(0, "cpu_times", "tcp_info", "net_devices", at="inside", bytes=7)
    outside = record(0, "cpu_times", "tcp_info", "net_devices", at="outside", bytes=0)
    both = joined(inside, outside)
    assert both["load"]["bytes"] == 7
    assert {r["sensor"]: r["from"] for r in both["sensors"]} == {
        "cpu_times": "outside",
        "tcp_info": "inside",
        "net_devices": "inside",
    }
    assert "cpu_exact" in OUTSIDE and "threads" not in OUTSIDE


def test_records_are_paired_by_their_index_in_whatever_order_they_come() -> None:
    def sent(index: int) -> SentRecord:
        return SentRecord({"index": index}, json.dumps(record(index)).encode())

    handed: list[SentRecord] = []
    pairing = Pairing(handed.append)
    pairing.outside(sent(0))
    pairing.inside(sent(0))
    pairing.inside(sent(1))
    assert [found.taken_apart() for found in handed] == [record(0)]
    pairing.outside(sent(1))
    pairing.inside(sent(2))
    pairing.rest()
    assert [found.progress["index"] for found in handed] == [0, 1, 2], "what has no counterpart is not lost"


def test_points_of_a_level_that_cannot_be_had_are_skipped_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def enter(testbed: Testbed) -> Testbed:
        if testbed.path == "sandbox":
            raise AccessError("there is no runsc", where="path sandbox")
        return testbed

    async def leave(testbed: Testbed, *_: object) -> None:
        pass

    monkeypatch.setattr(Testbed, "__aenter__", enter)
    monkeypatch.setattr(Testbed, "__aexit__", leave)
    factors = (Factor("path", ("sandbox", "zone")), Factor("connections", (1, 2)))
    asked = experiment("netns", factors=factors)
    design = designs.plan(asked)

    async def scenario() -> None:
        async with Testbeds(asked, design, None) as testbeds:  # type: ignore[arg-type]
            assert dict(testbeds.skipped.levels) == {"sandbox": "there is no runsc"}
            skipped = {p.id for p in design.points if p.levels["path"] == "sandbox"}
            assert set(testbeds.skipped.points) == skipped
            assert testbeds.first.path == "zone"
            assert testbeds.of({"path": "zone"}) is testbeds.first

    asyncio.run(scenario())


def test_a_level_that_cannot_be_used_is_skipped_unless_it_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def enter(testbed: Testbed) -> Testbed:
        return testbed

    async def leave(testbed: Testbed, *_: object) -> None:
        pass

    async def check(testbed: Testbed) -> list[dict[str, Any]]:
        if testbed.path == "guest":
            raise NoDataError("no byte moved")
        if testbed.path == "sandbox":
            raise AccessError("its guard cannot be started")
        return [{"check": "data", "ok": True, "text": str(testbed.path)}]

    monkeypatch.setattr(Testbed, "__aenter__", enter)
    monkeypatch.setattr(Testbed, "__aexit__", leave)

    async def scenario(*levels: str) -> Testbeds:
        asked = experiment("netns", factors=(Factor("path", levels),))
        async with Testbeds(asked, designs.plan(asked), None) as testbeds:  # type: ignore[arg-type]
            await testbeds.checked(check)
            return testbeds

    testbeds = asyncio.run(scenario("guest", "sandbox", "zone"))
    reasons = {"guest": "no byte moved", "sandbox": "its guard cannot be started"}
    assert dict(testbeds.skipped.levels) == reasons and len(testbeds.skipped.points) == 2
    with pytest.raises(NoDataError):
        asyncio.run(scenario("guest"))


def test_every_level_has_an_opener_and_what_it_is_carried_by() -> None:
    assert set(path_levels._OPENERS) == set(PATHS)
    assert set(CARRIED_BY_OTHERS) | OWN_KERNEL <= set(PATHS)


def test_further_addresses_are_distinct_and_in_the_block() -> None:
    ends = veth.ends_of({"a": (0,), "b": (1,)}, addresses=600)
    every = [address for end in ends.values() for address in end.addresses]
    assert len(set(every)) == 1200
    assert [end.address for end in ends.values()] == list(veth.ADDRESSES)
    assert all(address.startswith(("198.18.", "198.19.")) for address in every)
    assert all(0 < int(address.rpartition(".")[2]) < 255 for address in every)


def test_what_is_missing_is_named_with_what_makes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    monkeypatch.setattr(sandbox.Path, "home", classmethod(lambda cls: tmp_path))
    said = sandbox.unavailable()
    # Enough for who has the package alone: where it is from, and where it goes.
    assert said is not None and "no runsc in the PATH" in said and "https://gvisor.dev" in said
    said = guest.unavailable()
    assert said is not None and ("`make guest` in a clone of https://" in said or "x86-64" in said)


def test_levels_that_lack_the_same_are_told_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(path_levels, "unavailable", lambda level: None if level == "zone" else "no root")
    assert run(["paths"]) == 0
    said = capsys.readouterr().out.split("\n\n")
    (told,) = [each for each in said if "no root" in each]
    assert told == f"no {', '.join(level for level in PATHS if level != 'zone')}: no root"


def test_an_archive_of_a_guest_is_one_that_cpio_reads(tmp_path: Path) -> None:
    for name in ("busybox", *(f"{name}.ko" for name in guest.MODULES)):
        (tmp_path / name).write_bytes(name.encode() * 3)
    (tmp_path / "agent").write_bytes(b"\x7fELF agent")
    link = guest.GuestLink("n", "tap0", "198.18.0.2", (0,))
    content = guest.archive(tmp_path / "agent", guest.script(link), folder=tmp_path)
    found, at = {}, 0
    while True:
        assert content[at : at + 6] == b"070701" and at % 4 == 0
        fields = [int(content[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        size, length = fields[6], fields[11]
        name = content[at + 110 : at + 110 + length - 1].decode()
        begin = at + 110 + length
        begin += -begin % 4
        found[name] = content[begin : begin + size]
        at = begin + size
        at += -at % 4
        if name == "TRAILER!!!":
            break
    assert found["bin/iodyno-agent"] == b"\x7fELF agent"
    assert found["bin/virtio_net.ko"] == b"virtio_net.ko" * 3
    assert b"198.18.0.2" in found["init"]
