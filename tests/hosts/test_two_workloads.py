"""Workloads beside the first one, on real traffic: all are counted, each on its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import command_server
import pytest
from places import HUNG_S, done_or_void

from iodyno.store.writer import write_document

EXPERIMENT = """
name: beside
question: What does bulk transmit take from requests beside?
hosts: {client: {access: netns}, server: {access: netns}}
workload: {kind: stream, sender: client, receiver: server, size: 64KiB}
bystander:
  {kind: request_response, sender: SENDER, receiver: RECEIVER, size: 64, response_size: 1000, connections: 2, rate: 500}
factors: {connections: [4]}
design: {replicates: 1, seed: 1}
windows: {warm_up: 100ms, measured: 500ms, drain: 100ms, interval: 100ms}
limits: {background: 1, background_window: 100ms}
outcomes: [goodput_bits_per_s, bystander.operations_per_s, bystander.latency_from_schedule_p50_ns]
"""


def run(folder: Path, sender: str, receiver: str, text: str = EXPERIMENT) -> tuple[Path, Any]:
    """The campaign, and what `report --json` says of it."""
    file = folder / "beside.yaml"
    file.write_text(text.replace("SENDER", sender).replace("RECEIVER", receiver), encoding="utf-8")
    base = command_server.iodyno()
    ran = subprocess.run(
        [*base, "run", str(file), "--into", str(folder / "campaigns"), "--json"],
        capture_output=True, text=True, timeout=HUNG_S, cwd=folder,
    )  # fmt: skip
    assert done_or_void(ran), ran.stderr
    (campaign,) = (folder / "campaigns").iterdir()
    return campaign, reported(campaign)


def reported(campaign: Path) -> Any:
    """What `report --json` says of a campaign."""
    shown = subprocess.run(
        [*command_server.iodyno(), "report", str(campaign), "--json"],
        capture_output=True, text=True, timeout=HUNG_S,
    )  # fmt: skip
    return json.loads(shown.stdout)


def as_earlier_versions_stored_it(campaign: Path) -> None:
    """One bystander under a key of its own, where several are by name now."""
    header = campaign / "campaign.json"
    for file, inside in (
        (header, "experiment"),
        *((each, None) for each in campaign.glob("trials/*/manifest.json")),
    ):
        stored = json.loads(file.read_text(encoding="utf-8"))
        holder = stored[inside] if inside else stored
        holder["bystander"] = holder.pop("bystanders")["bystander"]
        write_document(file, stored)


@pytest.mark.root
@pytest.mark.parametrize(("sender", "receiver"), [("client", "server"), ("server", "client")])
def test_both_workloads_are_counted_each_on_its_own(sender: str, receiver: str, tmp_path: Path) -> None:
    campaign, report = run(tmp_path, sender, receiver)
    void = {trial["point"]: trial["reason"] for trial in report["trials"] if trial["status"] == "void"}
    assert all("the generator fell behind" in reason for reason in void.values())
    for point in report["points"]:
        outcomes = point["outcomes"]
        # A busy machine kept the generator from its CPU: that is said, and nothing estimated.
        if point["id"] in void:
            assert outcomes["goodput_bits_per_s"]["estimate"] is None
            continue
        assert outcomes["goodput_bits_per_s"]["estimate"] > 0
        # 250 arrivals, evenly spread, of which a busy machine may make some late, and 50 in the warm-up.
        assert 0 < outcomes["bystander.operations_per_s"]["estimate"] < 650
        assert outcomes["bystander.latency_from_schedule_p50_ns"]["estimate"] > 0
        # What the answers carry, not what the stream does.
        assert outcomes["bystander.goodput_bits_per_s"]["estimate"] < 650 * 8 * 1064
    manifest = json.loads(next((campaign / "trials").glob("*/manifest.json")).read_text(encoding="utf-8"))
    beside = manifest["bystanders"]["bystander"]
    assert {host: facts["role"] for host, facts in beside["hosts"].items()} == {
        sender: "send",
        receiver: "receive",
    }
    assert beside["settings"]["response_size"] == 1000 and beside["settings"]["rate"] == 500
    assert manifest["hosts"]["client"]["job"]["load"]["network"]["traffic"].keys() == {"stream"}
    # Agents of its own, with a token of its own, read no sensor of the host.
    tokens = {facts["job"]["token"] for facts in beside["hosts"].values()}
    assert len(tokens) == 1 and manifest["hosts"]["client"]["job"]["token"] not in tokens
    assert "cpu_times" not in beside["hosts"][sender]["job"]["sensors"]
    as_earlier_versions_stored_it(campaign)
    assert reported(campaign) == report


SEVERAL = """
bystander:
  - {kind: request_response, sender: client, receiver: server, size: 64, response_size: 1000, rate: 300}
  - {kind: stream, transport: udp, sender: server, receiver: client, size: 200, rate: 100}
"""


@pytest.mark.root
def test_several_workloads_beside_are_counted_each_on_its_own(tmp_path: Path) -> None:
    begin, end = EXPERIMENT.index("bystander:"), EXPERIMENT.index("factors:")
    text = EXPERIMENT[:begin] + SEVERAL.lstrip() + EXPERIMENT[end:]
    names = (
        "bystander-1.operations_per_s, bystander-1.latency_from_schedule_p50_ns, bystander-2.messages_per_s"
    )
    text = text[: text.index("outcomes:")] + f"outcomes: [goodput_bits_per_s, {names}]\n"
    campaign, report = run(tmp_path, "client", "server", text)
    void = {trial["point"] for trial in report["trials"] if trial["status"] == "void"}
    for point in report["points"]:
        outcomes = point["outcomes"]
        if point["id"] not in void:
            assert outcomes["goodput_bits_per_s"]["estimate"] > 0
            # 150 and 50 arrivals in half a second; those of the warm-up may come late.
            assert 0 < outcomes["bystander-1.operations_per_s"]["estimate"] < 400
            assert 0 < outcomes["bystander-2.messages_per_s"]["estimate"] < 150
    manifest = json.loads(next((campaign / "trials").glob("*/manifest.json")).read_text(encoding="utf-8"))
    first, second = (manifest["bystanders"][f"bystander-{number}"] for number in (1, 2))
    assert first["hosts"]["client"]["role"] == "send" and second["hosts"]["server"]["role"] == "send"
    tokens = {facts["job"]["token"] for each in (first, second) for facts in each["hosts"].values()}
    assert len(tokens) == 2
