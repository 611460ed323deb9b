"""`iodyno tcp` and `rr` as they are typed, on real traffic."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from places import HUNG_S, iodyno, saved

from iodyno.campaign.sensors import OF_LOAD
from iodyno.core.experiment import NO_SENSORS

COSTS = {f"{host}.{cost}" for host in ("client", "server") for cost in ("cpu_ns_per_kib", "cycles_per_kib")}


@pytest.mark.root
def test_one_trial_between_two_namespaces(tmp_path: Path) -> None:
    shown = iodyno("tcp", "--connections", "4", "--seconds", "0.5", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) <= 10
    assert lines[0].startswith(
        "TCP, 4 connections x 64KiB, 1 x 0.5 s, client -> server (2 namespaces of this machine)"
    )
    # Where others have the CPUs, a cost is marked or cannot be told.
    value = r"[0-9.]+ (?:[kMG]bit/s|ns/KiB\??) +\[[0-9.]+, [0-9.]+\]"
    cost = rf"(?:{value} +[0-9.]+ (?:% of a core|cores)|not reported: .+)"
    for row in (f"Throughput +{value}", f"Sender +{cost}", f"Receiver +{cost}"):
        assert any(re.fullmatch(f"  {row}", line) for line in lines), (row, lines)
    assert sum(line.startswith("  Limited by ") for line in lines) == 1
    assert not shown.stderr, "on no terminal nothing but the answer"
    folder = tmp_path / saved(shown.stdout)
    assert (folder / "campaign.json").is_file()
    assert "name:" in (folder / "experiment.yaml").read_text()
    again = iodyno("plan", str(folder / "experiment.yaml"), cwd=tmp_path)
    assert "1 point x 1 replicate = 1 trial" in again.stdout


@pytest.mark.root
@pytest.mark.parametrize(
    ("way", "hosts", "ends"),
    [
        ("reverse", "client <- server", ("Receiver", "Sender")),
        ("both", "client <-> server", ("Client", "Server")),
    ],
)
def test_bytes_go_the_way_that_is_asked_for(
    way: str, hosts: str, ends: tuple[str, str], tmp_path: Path
) -> None:
    ran = iodyno("tcp", "--seconds", "0.3", "--direction", way, cwd=tmp_path)
    title, _, *costs = ran.stdout.splitlines()
    assert hosts in title
    assert [line.split()[0] for line in costs[:2]] == [*ends]


@pytest.mark.root
def test_all_that_is_behind_the_answer(tmp_path: Path) -> None:
    shown = iodyno("tcp", "--seconds", "0.5", "-v", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert all(any(line.startswith(name) for line in lines) for name in COSTS)
    assert any(re.search(r"over [0-9]+ intervals of one trial", line) for line in lines)
    assert "measuring the background" in shown.stderr
    assert any(
        re.match(r"The instrument itself took .* on client \(.*sensors [0-9.e-]+ %", line) for line in lines
    )


@pytest.mark.root
def test_without_sensors_a_rate_has_its_interval_and_costs_say_why_not(tmp_path: Path) -> None:
    shown = iodyno("tcp", "--seconds", "0.5", "--sensors", "off", "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    outcomes = found["points"][0]["outcomes"]
    assert {outcomes[name]["missing"] for name in COSTS} == {NO_SENSORS}
    goodput = outcomes["goodput_bits_per_s"]
    assert goodput["low"] < goodput["estimate"] < goodput["high"]
    campaign = tmp_path / found["campaign"]
    assert "off" in (campaign / "experiment.yaml").read_text()
    (trial,) = (campaign / "trials").iterdir()
    jobs = [host["job"] for host in json.loads((trial / "manifest.json").read_text())["hosts"].values()]
    assert all(set(job["sensors"]) <= set(OF_LOAD) and not job["profile_hz"] for job in jobs)


@pytest.mark.root
def test_a_file_is_run_with_other_sensors_than_it_has(tmp_path: Path) -> None:
    """The text that is kept has them, so that the campaign goes on from it."""
    made = json.loads(iodyno("tcp", "--seconds", "0.2", "--json", cwd=tmp_path).stdout)
    file = str(tmp_path / made["campaign"] / "experiment.yaml")
    done = iodyno("run", file, "--sensors", "off", "--yes", "--into", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = done.stdout.splitlines()[-1]
    assert "off" in (tmp_path / folder / "experiment.yaml").read_text()
    resumed = iodyno("run", file, "--sensors", "off", "--yes", "--resume", folder, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.root
def test_three_trials_as_json(tmp_path: Path) -> None:
    shown = iodyno("tcp", "--size", "1KiB", "--engine", "epoll", "--no-nagle", "--seconds", "0.2",
                   "--repeat", "3", "--json", "--into", "here", cwd=tmp_path)  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert (tmp_path / found["campaign"] / "campaign.json").is_file()
    assert Path(found["campaign"]).parts[0] == "here"
    (point,) = found["points"]
    assert point["levels"] == {"connections": 1, "size": 1024}
    assert set(point["outcomes"]) == {"goodput_bits_per_s", *COSTS}
    goodput = point["outcomes"]["goodput_bits_per_s"]
    assert goodput["n"] == 3
    assert goodput["unit"] == "bit/s"
    assert goodput["low"] <= goodput["estimate"] <= goodput["high"]
    assert goodput["estimate"] > 1e6


@pytest.mark.root
@pytest.mark.parametrize("command", ["tcp", "rr"])
def test_several_clients_are_told_with_how_alike_they_are(command: str, tmp_path: Path) -> None:
    shown = iodyno(command, "--clients", "2", "--seconds", "0.3", "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (point,) = json.loads(shown.stdout)["points"]
    of = {name: found["estimate"] for name, found in point["outcomes"].items()}
    assert 0.5 <= of["fairness"] <= 1 and of["slowest_client_ratio"] <= 1 <= of["fastest_client_ratio"]


@pytest.mark.root
def test_what_is_not_as_expected_is_exit_1_and_a_failed_test_case(tmp_path: Path) -> None:
    words = ["--expect", "goodput >= 1kbit/s", "--expect", "goodput >= 900000Gbit/s", "--junit", "junit.xml"]
    shown = iodyno("tcp", "--seconds", "0.3", *words, cwd=tmp_path)
    assert shown.returncode == 1, shown.stderr
    assert "not as expected: goodput >= 900000Gbit/s: " in shown.stderr
    assert "  Throughput " in shown.stdout, "the answer is there all the same"
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == [
        "goodput >= 900000Gbit/s"
    ]
    assert iodyno("tcp", "--seconds", "0.3", *words[:2], cwd=tmp_path).returncode == 0
    wrong = iodyno("tcp", "--expect", "goodput > fast", cwd=tmp_path)
    assert wrong.returncode == 2 and "invalid value 'fast'" in wrong.stderr
    alone = iodyno("tcp", "--junit", "junit.xml", cwd=tmp_path)
    assert alone.returncode == 2 and "--junit can only be used with --expect" in alone.stderr


def test_where_nothing_was_measured_the_test_case_is_an_error(tmp_path: Path) -> None:
    words = ["--to", "127.0.0.1:1", "--expect", "exchanges >= 1/s", "--junit", "junit.xml"]
    shown = iodyno("rr", "--seconds", "0.3", *words, cwd=tmp_path)
    assert shown.returncode == 3, shown.stderr
    (case,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert case.get("name") == "exchanges >= 1/s" and case[0].tag == "error"


@pytest.mark.root
@pytest.mark.alone  # What is forbidden here is forbidden to the whole machine.
def test_requests_go_by_io_uring_where_the_kernel_lets_them(tmp_path: Path) -> None:
    setting = Path("/proc/sys/kernel/io_uring_disabled")
    if not setting.exists():
        pytest.skip("this kernel's io_uring cannot be forbidden (Linux 6.6)")
    before = setting.read_text()
    try:
        for level, connections, engine in (("0", 8, "io_uring"), ("2", 8, "epoll"), ("2", 2, "threads")):
            setting.write_text(level)
            requests_go_by(engine, connections, tmp_path)
    finally:
        setting.write_text(before)


@pytest.mark.root
def test_requests_go_by_epoll_where_no_memory_may_be_registered(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed, which takes a right away: apt-get install util-linux")
    without = ("setpriv", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock")
    requests_go_by("epoll", 8, tmp_path, "prlimit", "--memlock=65536:65536", *without)


def requests_go_by(engine: str, connections: int, folder: Path, *held: str) -> None:
    words = [
        *held,
        Path(sys.executable).with_name("iodyno"),
        "rr",
        "--connections",
        str(connections),
        "--seconds",
        "0.2",
        "--json",
    ]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=HUNG_S, cwd=folder, check=False)
    assert shown.returncode == 0, shown.stderr
    told = json.loads(shown.stdout)
    assert told["points"][0]["outcomes"]["operations_per_s"]["estimate"] > 0
    assert f'"engine": "{engine}"' in (folder / told["campaign"] / "experiment.yaml").read_text()
