"""Work on Dask's workers: the same results byte for byte, also where a worker dies, and one clear error each."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import command_server
import pytest

from iodyno import cluster
from iodyno.cli.main import run

RECORDED = Path(__file__).resolve().parent.parent / "golden" / "campaigns"
_HOLDER = """
import sys
from iodyno.cluster import opened
with opened("local:2") as each:
    print(each.args[0].scheduler.address, flush=True)
    sys.stdin.read()
"""
_COMMANDS = """
import contextlib, io, json, sys
from iodyno.cli.main import run

for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run(command)
    print(json.dumps([code, out.getvalue(), errors.getvalue()]))
"""
_PARTS = """
import os, signal, sys, threading, time
from functools import partial
from pathlib import Path
from made_parts import FATAL, fatal, refused, square_held
from iodyno.cluster import opened
from iodyno.core.errors import AccessError, ExperimentError

held = Path(sys.argv[2]) / "pid"

def kill():
    while not held.exists():
        time.sleep(0.02)
    os.kill(int(held.read_text()), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
done = []
with opened(sys.argv[1], lambda *so_far: done.append(so_far)) as each:
    found = list(each(partial(square_held, held), range(8)))
    assert [square for square, _ in found] == [number * number for number in range(8)], found
    assert found[FATAL][1] != int(held.read_text())
    assert (done[0], done[-1]) == ((0, 8), (8, 8)), done
    for function, kind, said in (
        (refused, ExperimentError, "FILE: no 4\\n  try: another"),
        (fatal, AccessError, "part 1 of 1: its worker died, and so did those that tried again"),
    ):
        try:
            list(each(function, [4]))
        except kind as error:
            assert str(error).startswith(said), error
        else:
            raise AssertionError(function)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The scheduler of two workers on this machine, which import the tests' modules, too."""
    if find_spec("distributed") is None:
        pytest.skip("Dask is not installed, so that nothing is tested on workers: pip install -e '.[dev]'")
    path = os.pathsep.join([str(RECORDED.parent.parent), *filter(None, sys.path)])
    # A part that no worker outlives is given up after two of them, each of which takes seconds to come back.
    environment = os.environ | {"PYTHONPATH": path, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    command, pipe = [sys.executable, "-c", _HOLDER], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as holder:
        assert holder.stdout is not None
        yield holder.stdout.readline().strip()


def script(text: str, *words: str, folder: Path) -> str:
    """What a script prints, in a process that has imported all but Dask."""
    ran = subprocess.run(
        [command_server.folder() / "script", text, *words], cwd=folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def printed(folder: Path, commands: list[list[str]], *words: str) -> list[str]:
    """What each command prints on both streams, but how long it took."""
    told = script(_COMMANDS, json.dumps([[*command, *words] for command in commands]), folder=folder)
    assert all(line.startswith("[0, ") for line in told.splitlines()), told
    return [re.sub(r'"seconds\\": [\d.e-]+', "", line) for line in told.splitlines()]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of unlike length and form, one packed, one with what cannot be read."""
    folder, chance = tmp_path_factory.mktemp("traces"), random.Random(5)

    def text(begin: float, lines: int, low: float) -> str:
        rows = (f"{begin + n / 500:.6f} {low + chance.expovariate(1 / 90):.3f}\n" for n in range(lines))
        return "".join(rows)

    (folder / "a.txt").write_text(text(100, 3000, 200) + "no line\n")
    (folder / "b.gz").write_bytes(gzip.compress(text(103, 1000, 900).encode()))
    (folder / "c.csv").write_text("time,latency\n" + text(90, 50, 5000).replace(" ", ","))
    return folder


def test_a_heat_map_of_many_traces_is_that_of_one_process(address: str, traces: Path) -> None:
    units = ["--time-unit", "s", "--value-unit", "us", "--json"]
    commands = [
        ["heatmap", "a.txt", "b.gz", "c.csv", *units, "-o", "heat.html"],
        ["heatmap", "a.txt", "--minus", "b.gz", *units],
    ]
    alone = printed(traces, commands)
    page = (traces / "heat.html").read_bytes()
    (traces / "heat.html").unlink()
    assert "unreadable" in alone[0] and "two-column, csv" in alone[0]
    assert printed(traces, commands, "--cluster", address) == alone
    assert (traces / "heat.html").read_bytes() == page


def test_reports_of_many_campaigns_are_those_of_one_process(address: str, tmp_path: Path) -> None:
    folders = ["fixed", "killed"]
    for name in folders:
        shutil.copytree(RECORDED / name / "stored", tmp_path / name)
    pages = [tmp_path / name / "report.html" for name in folders]
    commands = [["report", *folders, "--format", form] for form in ("text", "json")]
    commands += [["compare", "fixed", "killed", "--format", "csv"]]
    alone = printed(tmp_path, commands)
    assert all(name in told for told in alone[:2] for name in folders)
    written = [page.read_bytes() for page in pages]
    for page in pages:
        page.unlink()
    assert printed(tmp_path, commands, "--cluster", address) == alone
    assert [page.read_bytes() for page in pages] == written


def test_each_load_is_simulated_by_a_worker_as_by_itself(address: str, tmp_path: Path) -> None:
    queue = ["model", "queue", "M/D/1/8", "--simulate", "--service", "1ms", "--precision", "30%", "--json"]
    network = ["model", "network", "net.yaml", "--simulate", "--percentiles", "50", "--json"]
    (tmp_path / "net.yaml").write_text(
        "classes: {api: {rate: 40/s}}\nstations: {disk: {}}\ndemands: {api: {disk: 5ms}}\n", encoding="utf-8"
    )
    loads = [[*queue, "--utilisation", ".5,.9"], [*network, "--rate", "40,100"]]
    alone = printed(tmp_path, [*loads, [*queue, "--utilisation", ".9"], network])
    assert printed(tmp_path, loads, "--cluster", address) == alone[:2]
    queues, networks, queue_at_one, network_at_one = (json.loads(json.loads(told)[1]) for told in alone)
    assert [row["arrivals_per_s"] for row in queues["rows"]] == [500, 900]
    assert queues["rows"][1] == {"arrivals_per_s": 900, **queue_at_one}
    assert [len(networks["rows"]), networks["rows"][0]] == [2, *network_at_one["rows"]]


def test_the_part_of_a_killed_worker_is_done_by_another_and_errors_of_parts_are_told(
    address: str, tmp_path: Path
) -> None:
    script(_PARTS, address, str(tmp_path), folder=tmp_path)


@pytest.mark.parametrize("place", ["here", "local:0", "local:x", "8786", ""])
def test_what_is_no_place_of_workers(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["heatmap", "trace", "--cluster", place]) == 2
    assert f"invalid value '{place}' for --cluster: expected local, local:N" in capsys.readouterr().err


def test_without_dask_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    for command in ("heatmap trace", "report a b", "compare a b", "model queue M/M/1"):
        assert run([*command.split(), "--cluster", "local"]) == 2
        said = capsys.readouterr()
        assert (
            said.out == "" and "pip install 'iodyno[cluster]'" in said.err and len(said.err.splitlines()) == 2
        )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("heatmap . --cluster local", "--cluster: is an option of a trace, and this is a campaign"),
        ("heatmap trace --outliers 1ms --cluster local", "--cluster: cannot be used with --outliers"),
        ("compare a b --points p01 p01 --cluster local", "--cluster: cannot be used with --points"),
        ("model queue M/M/1 --service 1s --rate .5 --cluster local", "--cluster: cannot be used with M/M/c"),
        ("report a --cluster local", "--cluster can only be used with several campaigns"),
        ("report a b --trials all", "--html, --trials and --open can only be used with one CAMPAIGN"),
    ],
)
def test_what_is_not_done_in_parts(
    words: str, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: True)
    assert run(words.split()) == 2
    assert what in capsys.readouterr().err
