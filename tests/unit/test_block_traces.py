"""Traces of blkparse and iosnoop become operations to replay."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import PROGRAM
from places import run as run_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.campaign.runner import CampaignOutcome
from iodyno.core.errors import ExperimentError
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.core.replay import checked_timing, replay_of
from iodyno.loads.disk.formats.block_traces import TracedOperation, parse_trace

BLKPARSE = """  8,0    1        1     0.000000000  4162  Q   R 2048 + 8 [fio]
  8,0    1        2     0.000100000  4162  D   R 2048 + 8 [fio]
  8,0    1        3     0.000300000     0  C   R 2048 + 8 [0]
  8,0    0        4     0.000250001  4162  D  WS 4096 + 16 [fio]
  8,0    0        5     0.000400000  4162  D  FN [kworker]
  8,0    0        6     0.000500000  4162  D   D 0 + 64 [fstrim]
CPU0 (8,0):
 Reads Queued:           1,        4KiB
"""
SNOOP = """Tracing block I/O. Ctrl-C to end.
STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
5982800.302061  5982800.302679  supervise    1809   W    202,1    17039600     4096       0.62
5982800.302423  5982800.302842  dd           1809   RA   202,1    17039608     8192       0.42
"""
SOLARIS = """STIME(us)    UID   PID D     BLOCK   SIZE       COMM PATHNAME
1000         0  1337 W    3904  4096  sched <none>
1250         0  1337 R    16    512  cat /etc/x y
"""


def test_what_went_to_the_device_is_replayed() -> None:
    assert parse_trace(BLKPARSE).operations == [
        TracedOperation(0, "read", 2048 * 512, 4096),
        TracedOperation(150_001, "write", 4096 * 512, 8192),
        TracedOperation(300_000, "fsync", 0, 0),
    ]
    queued = "\n".join(line for line in BLKPARSE.splitlines() if " Q " in line)
    assert parse_trace(queued).operations == [TracedOperation(0, "read", 2048 * 512, 4096)]


def test_iosnoop_is_read_by_its_names() -> None:
    first, second = parse_trace(SNOOP).operations
    assert (first.kind, first.offset_bytes, first.length_bytes) == ("write", 17039600 * 512, 4096)
    assert (second.kind, second.length_bytes) == ("read", 8192)
    # Seconds since boot as a float are exact to a microsecond or so.
    assert second.at_ns == pytest.approx(362_000, abs=2000)
    assert parse_trace(SOLARIS).operations[1] == TracedOperation(250_000, "read", 16 * 512, 512)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no text of blkparse"),
        ("COMM PID TYPE DEV BLOCK BYTES LATms\nx 1 R 8,0 1 512 1\n", "has no column STARTs"),
        (SNOOP + "junk\n", "t:5: invalid value 'junk': expected a line with STARTs"),
        (BLKPARSE.replace(" D ", " X ").replace(" Q ", " X "), "has no read and no write"),
        ("8,0 1 1 0.0 1 D R 1 + 99999999 [x]\n", "expected up to 1 GiB"),
        (
            BLKPARSE.replace("2048 + 8 [fio]\n  8,0    1        3", "2048\n  8,0    1        3"),
            "t:2: invalid value '8,0",
        ),
        (
            "8,0 1 1 0.0 1 D R 1 + 8 [x]\n8,0 1 2 0.1\n",
            "t:2: invalid value '8,0 1 2 0.1': expected a line with dev cpu",
        ),
    ],
)
def test_a_trace_that_cannot_be_replayed_is_one_error(text: str, said: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        parse_trace(text, file="t")
    assert said in str(caught.value)


def test_what_is_not_replayed_is_counted_by_its_kind() -> None:
    assert parse_trace(BLKPARSE).without == "1 of kind discard"
    assert parse_trace("junk\n" + BLKPARSE).without == "1 of kind discard, 1 of kind unreadable line"
    assert parse_trace(SNOOP).without == ""


TWO_DEVICES = """  8,0    1        1     0.000000000  4162  D   R 2048 + 8 [fio]
  8,16   1        2     0.000100000  4162  D   W 4096 + 8 [fio]
  8,16   1        3     0.000200000  4162  D   D 4096 + 8 [fio]
  8,16   1        4     0.000300000  4162  D   R 8192 + 8 [fio]
"""


def test_offsets_of_two_devices_are_not_those_of_one_target() -> None:
    with pytest.raises(ExperimentError) as caught:
        parse_trace(TWO_DEVICES, file="t")
    assert "has operations of 2 devices" in caught.value.what
    assert "8,16 (2), 8,0 (1)" in caught.value.what
    assert caught.value.advice == "name one of them: `replay_device: 8,16`"
    found = parse_trace(TWO_DEVICES, device="8,16")
    assert [(one.at_ns, one.kind, one.offset_bytes) for one in found.operations] == [
        (0, "write", 4096 * 512),
        (200_000, "read", 8192 * 512),
    ]
    assert found.without == "1 of another device, 1 of kind discard"
    with pytest.raises(ExperimentError, match="invalid value 'sda': expected a device of the trace: 8,16"):
        parse_trace(TWO_DEVICES, device="sda")
    with pytest.raises(ExperimentError, match="which names none"):
        parse_trace(SOLARIS, device="sda")


BIOSNOOP = """TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
0.000500    my daemon      1950    sda       W 4096       8192      0.10    1.00
0.001000    fio            1951    sda       R 2048       4096      0.10    0.20
0.002000    kworker/0:1H   1952    sda       F -1            0      0.00    0.50
"""


def test_biosnoop_says_when_an_operation_ended() -> None:
    """Its TIME(s) is that of completion, which is not the order of begins; a flush has no sector."""
    assert parse_trace(BIOSNOOP).operations == [
        TracedOperation(0, "write", 4096 * 512, 8192),
        TracedOperation(1_300_000, "read", 2048 * 512, 4096),
        TracedOperation(2_000_000, "fsync", 0, 0),
    ]
    with pytest.raises(ExperimentError, match="has no column STARTs"):
        parse_trace(BIOSNOOP.replace("LAT(ms)", "LAST"))


OWN = """STIME(us) TIME(us) DELTA(us) DTIME(us) UID PID D                BLOCK  SIZE DEVICE COMM         PATHNAME
2000      2300           300       290   0 812 R                 2048  4096 sda    my daemon    <none>
2500      2900           400       300   0 812 F 18446744073709551615     0 sda    kworker/0:1H <none>
2600      2900           300       290   0 812 W                 4096  8192 sdb    my daemon    <none>
"""


@pytest.mark.parametrize("nowhere", ["18446744073709551615", "                  -1"])
def test_a_trace_of_iodyno_is_replayed_with_its_flushes(nowhere: str) -> None:
    """A flush has no place: the kernel gives the greatest number for it, and `iodyno trace block` prints -1."""
    assert parse_trace(OWN.replace("18446744073709551615", nowhere), device="sda").operations == [
        TracedOperation(0, "read", 2048 * 512, 4096),
        TracedOperation(500_000, "fsync", 0, 0),
    ]
    with pytest.raises(ExperimentError, match="has operations of 2 devices"):
        parse_trace(OWN)


def replayed(trace: Path, folder: Path, **more: str) -> CampaignOutcome:
    """A simulated host whose load is the trace."""
    keys = {
        "name": "replay",
        "hosts": {"client": {"access": "simulated"}},
        "workload": {
            "kind": "disk", "hosts": "client", "target": "/data/file", "working_set": "16MiB", "replay": str(trace), **more
        },
        "design": {"replicates": 1},
        "windows": {"warm_up": "0s", "measured": "200ms", "drain": "0s", "interval": "100ms"},
        "limits": {"background": 1, "background_window": "100ms"},
    }  # fmt: skip
    return asyncio.run(
        run_campaign(parse_experiment(experiment_text(keys), environment={}), folder, program=PROGRAM)
    )


def test_a_campaign_says_what_of_a_trace_it_leaves_out(tmp_path: Path) -> None:
    trace = tmp_path / "two.trace"
    trace.write_text(TWO_DEVICES)
    with pytest.raises(ExperimentError, match="has operations of 2 devices"):
        replayed(trace, tmp_path / "a")
    folder = replayed(trace, tmp_path / "b", replay_device="8,16").folder
    summary = analyse(read_dataset(folder))
    said = [warning.text for warning in summary.warnings if warning.code is WarningCode.REPLAY_IN_PART]
    assert said == [f"of the operations of {trace} were left out: 1 of another device, 1 of kind discard"]


@pytest.mark.parametrize("name", ["supervise", "super vise", "a b c"])
def test_names_of_processes_may_hold_blanks(name: str) -> None:
    assert parse_trace(SNOOP.replace("supervise", name)) == parse_trace(SNOOP)
    biosnoop = f"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n0.5 {name} 1 vda W 8 4096 0.2\n"
    assert parse_trace(biosnoop).operations == [TracedOperation(0, "write", 8 * 512, 4096)]


def test_timing_is_kept_scaled_or_left_out() -> None:
    operations = parse_trace(BLKPARSE).operations
    assert replay_of(operations, {})["at_ns"] == [0, 150_001, 300_000]
    assert replay_of(operations, {"timing": "faster(2)"})["at_ns"] == [0, 75_000, 150_000]
    assert replay_of(operations, {"timing": "slower(2)"})["at_ns"] == [0, 300_002, 600_000]
    assert replay_of(operations, {"timing": "none"})["at_ns"] == []
    assert checked_timing("faster( 1.5 )") == "faster(1.5)"
    with pytest.raises(ValueError, match="expected original"):
        checked_timing("faster(0)")


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 64)), min_size=1, max_size=20),
    st.integers(64, 4096),
)
@settings(max_examples=100, deadline=None)
def test_wrapped_offsets_lie_in_the_working_set(places: list[tuple[int, int]], sectors: int) -> None:
    size = sectors * 512
    operations = [TracedOperation(0, "read", sector * 512, count * 512) for sector, count in places]
    told = replay_of(operations, {"working_set": size, "beyond": "wrapped"})
    for offset, length in zip(told["offsets_bytes"], told["lengths_bytes"], strict=True):
        assert offset >= 0
        assert offset % 512 == 0
        assert offset + length <= size
    if any((sector + count) * 512 > size for sector, count in places):
        with pytest.raises(ValueError, match="the trace reaches to"):
            replay_of(operations, {"working_set": size})


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    for head in ("", SNOOP, "8,0 1 1 0.0 1 D R 1 + 8 [x]\n"):
        try:
            parse_trace(head + text, file="t")
        except ExperimentError as error:
            assert error.where.startswith("t")
