"""Files that a user names: what never ends, or never begins, is refused wherever it is named."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iodyno.analysis.cost_model.data import read_csv
from iodyno.core.errors import ExperimentError, IodynoError
from iodyno.formats import value_traces
from iodyno.formats.experiment_file import parse_experiment, read_experiment
from iodyno.formats.load_table import read_load_table
from iodyno.loads.disk.fio import read_sections
from iodyno.loads.disk.formats import block_traces
from iodyno.loads.files.wml import is_personality, read_personality
from iodyno.loads.script.uperf import is_profile, read_profile

ENDLESS = "/dev/zero"
FILE = """
name: t
hosts: {client: {access: local}, server: {access: local}}
workload: {kind: request_response, sender: client, receiver: server}
"""
READERS: tuple[Callable[[str], object], ...] = (
    block_traces.read_trace,
    read_experiment,
    read_load_table,
    read_personality,
    read_profile,
    read_sections,
    value_traces.gaps_ns,
    value_traces.sizes_bytes,
    read_csv,
)


@pytest.fixture(autouse=True)
def little_memory() -> object:
    """Whoever reads without an end fails here, and does not take the machine's memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("read", READERS, ids=lambda read: f"{read.__module__}.{read.__name__}")
def test_a_device_is_refused(read: Callable[[str], object]) -> None:
    with pytest.raises(IodynoError, match="no regular file"):
        read(ENDLESS)


@pytest.mark.parametrize(
    "read",
    [read for read in READERS if read not in (read_load_table, read_csv)],
    ids=lambda read: f"{read.__module__}.{read.__name__}",
)
def test_a_pipe_is_refused_and_never_waited_for(read: Callable[[str], object], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(IodynoError, match="no regular file"):
        read(str(pipe))
    # What asks for the kind of a file comes first.
    assert not is_profile(pipe)
    assert not is_personality(pipe)


def test_a_table_may_come_through_a_pipe() -> None:
    reads = (
        "from iodyno.formats.load_table import read_load_table; print(read_load_table('/dev/stdin').pairs)"
    )
    table = "threads,rate\n1,10\n2,19\n"
    shown = subprocess.run([sys.executable, "-c", reads], input=table, capture_output=True, text=True)
    assert shown.stdout == "((1.0, 10.0), (2.0, 19.0))\n", shown.stderr


@pytest.mark.parametrize("written", ["sizes: trace({})", "arrivals: trace({})"])
def test_a_trace_that_never_ends_is_a_mistake_of_the_file(written: str) -> None:
    text = FILE.replace("receiver: server", f"receiver: server, {written.format(ENDLESS)}")
    with pytest.raises(ExperimentError, match="no regular file") as raised:
        parse_experiment(text, file="FILE")
    key = written.partition(":")[0]
    assert str(raised.value).startswith(f"FILE:4: workload.{key}: {ENDLESS}: ")


@pytest.mark.parametrize("design", [ENDLESS, "."])
def test_a_design_that_is_no_file_is_a_mistake_of_the_file(design: str) -> None:
    text = f"{FILE}factors: {{size: [64, 128]}}\ndesign: {{kind: csv, file: {design}}}\n"
    with pytest.raises(ExperimentError, match=r"FILE:6: design\.file: .* cannot be read"):
        parse_experiment(text, file="FILE")


def test_a_trace_has_an_end(tmp_path: Path) -> None:
    file = tmp_path / "sizes.txt"
    file.write_text("64B\n" * value_traces.MOST_VALUES)
    assert value_traces.sizes_bytes(file) == [64] * value_traces.MOST_VALUES
    with file.open("a") as opened:
        opened.write("64B\n")
    with pytest.raises(ExperimentError, match=f"more than {value_traces.MOST_VALUES} values"):
        value_traces.sizes_bytes(file)
    with file.open("ab") as opened:
        opened.truncate(value_traces.MOST_BYTES + 1)
    with pytest.raises(ExperimentError, match="larger than 16 MiB"):
        value_traces.sizes_bytes(file)


def test_a_trace_lies_beside_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, elsewhere = tmp_path / "beside", tmp_path / "elsewhere"
    for folder, size in ((beside, "64B"), (elsewhere, "99B")):
        folder.mkdir()
        (folder / "sizes.txt").write_text(f"{size}\n")
    monkeypatch.chdir(elsewhere)
    (elsewhere / "gaps.txt").write_text("1ms\n")
    file = beside / "experiment.yaml"
    file.write_text(f"{FILE}factors: {{sizes: [trace(sizes.txt)], arrivals: [trace(gaps.txt)]}}\n")
    experiment = read_experiment(file)
    levels = {factor.name: factor.levels[0] for factor in experiment.factors}
    assert levels == {"sizes": "trace(sizes.txt)", "arrivals": "trace(gaps.txt)"}, "as they were written"
    told = experiment.settings(levels)
    assert told["sizes"] == f"trace({beside}/sizes.txt)"
    # What is not beside it is looked for here, so that a copy of the experiment in another folder finds it.
    assert told["arrivals"] == f"trace({elsewhere}/gaps.txt)"
    (beside / "sizes.txt").write_text("64B\nmany\n")
    with pytest.raises(ExperimentError, match=r"experiment\.yaml:5: factors\.sizes\[0\]: .*sizes\.txt:2: "):
        read_experiment(file)
    file.write_text(FILE.replace("receiver: server", "receiver: server, sizes: trace(none)"))
    with pytest.raises(
        ExperimentError, match=r"experiment\.yaml:4: workload\.sizes: .*none: the trace cannot be read"
    ):
        read_experiment(file)
