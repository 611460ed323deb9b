"""Four pairs of namespaces, of which one has a slower link: the report names it, and tells its part from that of the setting."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from places import Notes, namespaces_of, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.formats.experiment_file import parse_experiment
from iodyno.report.json import campaign as campaign_json

pytestmark = [pytest.mark.root, pytest.mark.alone]

FILE = """
name: placed
hosts: {workers: {access: netns, count: 8}}
workload: {kind: stream, sender: client, receiver: server, send_buffer: 64KiB}
placement: {pairs: 4, of: workers}
factors: {size: [4KiB, 64KiB]}
design: {replicates: 4}
windows: {warm_up: 200ms, measured: 400ms, drain: 0s, interval: 100ms}
limits: {background_window: 50ms, background: 100%, start_skew: 1s}
outcomes: [goodput_bits_per_s]
sensors: light
profile: off
"""


class _Links(Notes):
    """Gives the links of all pairs a rate once they are there: half of that of the others to the third."""

    def on_stage(self, text: str) -> None:
        super().on_stage(text)
        clients = [name for name in namespaces_of(os.getpid()) if "-client" in name]
        if not text.startswith("checking") or len(clients) != 4:
            return
        for name in clients:
            rate = "20mbit" if name.endswith("-client-3") else "40mbit"
            shaper = ("root", "tbf", "rate", rate, "burst", "32kb", "latency", "50ms")
            device = next(
                line.split(":")[1].partition("@")[0].strip()
                for line in subprocess.check_output(["ip", "-n", name, "-o", "link"], text=True).splitlines()
                if "veth" in line
            )
            subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", device, *shaper], check=True)


def test_the_pair_with_the_slower_link_is_named(tmp_path: Path) -> None:
    notes = _Links()
    outcome = asyncio.run(run(parse_experiment(FILE, environment={}), tmp_path, notes=notes))
    assert outcome.complete and outcome.finished == 8
    told = campaign_json(analyse(read_dataset(outcome.folder)))["placement"]["goodput_bits_per_s"]
    assert told["out_of_line"] == ["workers-5+workers-6"], told["sentence"]
    assert told["machine"]["share"] > 0.8 and told["ratio"][1] > 0, told["sentence"]
    slow = next(pair for pair in told["pairs"] if pair["name"] == "workers-5+workers-6")
    assert slow["change"] == pytest.approx(-0.5, abs=0.1)
    assert not namespaces_of(os.getpid())
