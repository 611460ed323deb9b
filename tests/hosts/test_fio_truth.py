"""The same job files by fio and here, held against each other by the calls of both: places, order, sizes, reads and writes.

What fio does in one way alone (orders, strides, syncs, passes over a file) is the same call by call. What is drawn has the
same shares: of reads, of sizes, of places that follow on, of the places that come most often.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, permutations
from pathlib import Path
from typing import NamedTuple

import pytest
from draws import FULL

CALLS = "pread64,pwrite64,fadvise64,fsync,fdatasync,io_submit"
SECONDS = 0.4
MOST = 4000
"""Events of a job that are looked at."""
NEXT_FREE = 0.1
"""How many more operations follow on in a pass of fio: where a drawn block had its turn, it takes the next one that had not."""
FEW = 20
"""Events of a thread that makes no load, at most."""
HEAD = """[global]
size=1m
bs=4k
runtime=1
time_based
"""

ORDERED = {
    "read": "rw=read",
    "write": "rw=write",
    "mixed": "rw=rw",
    "mixed_30": "rw=rw\nrwmixread=30",
    "mixed_write_10": "rw=readwrite\nrwmixwrite=10",
    "large": "rw=read\nbs=64k",
    "uneven": "rw=read\nbs=48k",
    "hole": "rw=read:8k",
    "hole_uneven": "rw=read:12k\nbs=20k\nsize=980k",
    "hole_write": "rw=write:4k\nsize=1020k",
    "offset": "rw=read\nfilesize=2m\noffset=1m\nsize=512k",
    "two_files": "rw=read\nfilename=two_files_b",
    "three_files_write": "rw=write\nfilename=three_files_write_b:three_files_write_c\nsize=3m",
    "fsync": "rw=write\nfsync=5",
    "fdatasync": "rw=write\nfdatasync=3\nbs=16k",
    "fsync_mixed": "rw=rw\nfsync=4",
    "direct": "rw=read\ndirect=1",
    "direct_write": "rw=write\ndirect=1\nbs=8k",
    "kept": "rw=read\ninvalidate=0",
    "pre_read": "rw=read\npre_read=1",
    "aio": "rw=read\nioengine=libaio\niodepth=4\ndirect=1",
    "aio_mixed": "rw=rw\nioengine=libaio\niodepth=4\ndirect=1",
    "kb_base": "kb_base=1000\nbs=4ki\nrw=read\nsize=1024ki",
    "sync": "rw=write\nsync=1",
}
"""Jobs whose places are in order. Strides end with the file: else fio does not drop the page cache when it begins anew."""

DRAWN = {
    "random": "rw=randread",
    "random_write": "rw=randwrite",
    "random_mixed": "rw=randrw",
    "random_mixed_80": "rw=randrw\nrwmixread=80",
    "random_large": "rw=randread\nbs=64k",
    "random_uneven": "rw=randread\nbs=48k",
    "no_map": "rw=randread\nnorandommap",
    "no_map_mixed": "rw=randrw\nnorandommap\nrwmixread=20",
    "random_files": "rw=randread\nfilename=random_files_b",
    "random_offset": "rw=randread\nfilesize=2m\noffset=1m\nsize=512k",
    "random_fsync": "rw=randwrite\nfsync=3",
    "random_direct": "rw=randread\ndirect=1",
    "random_aio": "rw=randrw\nioengine=libaio\niodepth=8\ndirect=1",
    "random_kept": "rw=randread\ninvalidate=0",
    "runs": "rw=randread:8\nnorandommap",
    "runs_mixed": "rw=randrw:4\nnorandommap",
    "runs_write": "rw=randwrite:3\nnorandommap",
    "runs_zipf": "rw=randread:4\nrandom_distribution=zipf:1.1",
    "runs_large": "rw=randread:5\nbs=16k\nnorandommap",
    "part_30": "rw=randread\npercentage_random=30\nnorandommap",
    "part_50": "rw=randwrite\npercentage_random=50\nnorandommap",
    "part_mixed": "rw=randrw\npercentage_random=80\nnorandommap",
    "part_none": "rw=randread\npercentage_random=0",
    "zipf": "rw=randread\nrandom_distribution=zipf:1.2\nsize=4m",
    "zipf_low": "rw=randread\nrandom_distribution=zipf:0.6\nsize=4m",
    "zipf_mixed": "rw=randrw\nrandom_distribution=zipf:1.2\nsize=4m",
    "pareto": "rw=randread\nrandom_distribution=pareto:0.2\nsize=4m",
    "zoned": "rw=randread\nrandom_distribution=zoned:60/10:30/20:10/70",
    "zoned_write": "rw=randwrite\nrandom_distribution=zoned:50/5:50/95",
    "normal": "rw=randread\nrandom_distribution=normal:50\nsize=4m",
    "normal_narrow": "rw=randwrite\nrandom_distribution=normal:5\nsize=4m",
    "split": "rw=randread\nbssplit=4k/70:16k/30\nnorandommap",
    "split_order": "rw=read\nbssplit=4k/50:8k/50",
    "split_write": "rw=randwrite\nbssplit=8k/20:4k/80\nnorandommap",
    "range": "rw=randread\nbsrange=4k-16k\nnorandommap",
    "two_jobs": "rw=randread\nnumjobs=2\nnorandommap",
}
"""Jobs whose places are drawn."""

QUICK = ("mixed", "hole", "two_files", "random_mixed", "runs_mixed", "part_mixed", "normal")
JOBS = {name: lines for name, lines in (ORDERED | DRAWN).items() if FULL or name in QUICK}


class Event(NamedTuple):
    """A call of a load: `r` and `w` with their place, `S` for a sync, `D` where the page cache is dropped."""

    kind: str
    file: str
    offset: int = 0
    length: int = 0


_PLACED = re.compile(r"p(read|write)64\(\d+<([^>]*)>,.*, (\d+), (\d+)\s*\)")
_ADVICE = re.compile(r"fadvise64\(\d+<([^>]*)>.*DONTNEED")
_SYNC = re.compile(r"f(?:data)?sync\(\d+<([^>]*)>")
_QUEUED = re.compile(
    r"aio_lio_opcode=IOCB_CMD_P(READ|WRITE)V?.*?aio_fildes=\d+<([^>]*)>.*?aio_nbytes=(\d+), aio_offset=(\d+)"
)


def events_of(text: str) -> Iterator[tuple[str, Event]]:
    """What each thread called for, in order."""
    begun: dict[str, str] = {}
    for line in text.splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>")
            continue
        if call.startswith("<..."):
            call = begun.pop(thread, "") + call.partition("resumed>")[2]
        if placed := _PLACED.match(call):
            kind, path, length, offset = placed.groups()
            yield thread, Event(kind[0], Path(path).name, int(offset), int(length))
        elif advice := _ADVICE.match(call):
            yield thread, Event("D", Path(advice[1]).name)
        elif sync := _SYNC.match(call):
            yield thread, Event("S", Path(sync[1]).name)
        elif call.startswith("io_submit"):
            for kind, path, length, offset in _QUEUED.findall(call):
                yield thread, Event(kind[0].lower(), Path(path).name, int(offset), int(length))


def loads(text: str) -> dict[str, list[list[Event]]]:
    """Of each job, whose files begin with its name, what the last threads called for that made a load."""
    found: dict[str, dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    names = sorted(JOBS, key=len, reverse=True)
    for thread, event in events_of(text):
        name = next((n for n in names if re.fullmatch(rf"{n}(_[bc])?", event.file)), None)
        if name is not None:
            found[name][thread].append(event)
    made = {}
    for name, by_thread in found.items():
        heavy = [events for events in by_thread.values() if len(events) > FEW]
        made[name] = [_from_the_first(events)[:MOST] for events in heavy[-_threads(name) :]]
    return made


def _threads(name: str) -> int:
    return 2 if "numjobs=2" in JOBS[name] else 1


def _from_the_first(events: list[Event]) -> list[Event]:
    """Without what comes before the first read or write of each file; what drops the page cache twice, once."""
    used: set[str] = set()
    kept = []
    for event in events:
        used |= {event.file} if event.kind in "rw" else set()
        kept += [event] if event.file in used else []
    return [*_once(kept)]


def _once(events: list[Event]) -> Iterator[Event]:
    for event, same in groupby(events):
        yield from (event,) if event.kind == "D" else same


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[list[Event]], list[list[Event]]]]:
    """Of each job what fio called for, and what was called for here."""
    for program in ("fio", "strace"):
        if shutil.which(program) is None:
            pytest.skip(
                f"{program} is not installed, and nothing is known of what fio does: apt-get install {program}"
            )
    folder = tmp_path_factory.mktemp("fio")
    for tool in ("theirs", "ours"):
        (folder / tool).mkdir()
    job = HEAD + "".join(f"[{name}]\nstonewall\nfilename={name}\n{lines}\n" for name, lines in JOBS.items())
    (folder / "jobs.fio").write_text(job)
    here = f"{sys.executable} -m iodyno run ../jobs.fio --target . --seconds {SECONDS}"
    strace = f"strace -f -y -qq -v -s 32 --seccomp-bpf -e trace={CALLS} -e signal=none -o"
    logs = {}
    for tool, command in (("theirs", "fio ../jobs.fio"), ("ours", here)):
        log = folder / f"{tool}.strace"
        shown = subprocess.run(
            [*strace.split(), log, *command.split()],
            cwd=folder / tool,
            capture_output=True,
            text=True,
            env=os.environ | {"COLUMNS": "200"},
            timeout=1500,
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr
        logs[tool] = log.read_text()
    theirs, ours = loads(logs["theirs"]), loads(logs["ours"])
    return {name: (theirs[name], ours[name]) for name in JOBS}


Both = dict[str, tuple[list[list[Event]], list[list[Event]]]]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name in ORDERED if name in JOBS])
def test_what_is_in_order_is_the_same_call_by_call(name: str, both: Both) -> None:
    ((theirs,), (ours,)) = both[name]
    mixed = len({event.kind for event in theirs} & {"r", "w"}) == 2
    # Which of the two directions comes next is drawn; each of them is in order.
    for kinds in ("r", "w") if mixed else ("rwSD",):
        one, other = ([event for event in events if event.kind in kinds] for events in (theirs, ours))
        length = min(len(one), len(other))
        assert length > FEW / 4
        assert one[:length] == other[:length]
    _same_shares(theirs, ours)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name in DRAWN if name in JOBS])
def test_what_is_drawn_has_the_same_shares(name: str, both: Both) -> None:
    theirs, ours = both[name]
    assert len(theirs) == len(ours) == _threads(name)
    for one, other in zip(theirs, ours, strict=True):
        _same_shares(one, other)


@pytest.mark.timeout(1800)
def test_jobs_that_differ_are_told_apart(both: Both) -> None:
    """What is compared tells these jobs apart, so that no other one passes for any of them. By what fio does, which is as much on
    a busy machine as on any.
    """
    names = ("mixed", "random_mixed", "runs_mixed", "part_mixed", "normal")
    for one, other in permutations(names, 2):
        with pytest.raises(AssertionError):
            _same_shares(
                both[one][0][0],
                [event._replace(file=event.file.replace(other, one)) for event in both[other][0][0]],
            )


def _same_shares(theirs: list[Event], ours: list[Event]) -> None:
    length = min(len(theirs), len(ours))
    assert length > FEW
    told = [shares_of(events[:length]) for events in (theirs, ours)]
    for what in sorted({*told[0], *told[1]}):
        one, other = (each.get(what, 0.0) for each in told)
        # Five standard deviations of a difference of shares. What is not drawn anew for each operation counts by runs of 8.
        drawn = length if what.startswith(("reads", "of ", "goes on")) else length / 8
        allowed = 5 * (2 * max(one * (1 - one), 1 / length) / drawn) ** 0.5
        if what == "goes on" and told[0]["no place twice in a pass"]:
            allowed += NEXT_FREE
        assert abs(one - other) <= allowed, (
            f"{what}: {one:.3f} by fio, {other:.3f} here, +-{allowed:.3f}; {told}"
        )


def shares_of(events: Sequence[Event]) -> dict[str, float]:
    """Shares that say what a load does, whatever it draws."""
    placed = [event for event in events if event.kind in "rw"]
    count = len(placed)
    found = {"reads": sum(event.kind == "r" for event in placed) / count}
    found |= {f"of {n} bytes": c / count for n, c in Counter(event.length for event in placed).items()}
    found |= {f"to {name}": c / count for name, c in Counter(event.file for event in placed).items()}
    past: dict[tuple[str, str], int] = {}
    on = again = 0
    for event in placed:
        before = past.get((event.file, event.kind))
        on += before == event.offset
        past[event.file, event.kind] = event.offset + event.length
        again += before is not None and before - event.length == event.offset
    found |= {"goes on": on / count, "again": again / count}
    found["turns"] = sum(a.file != b.file for a, b in pairwise(placed)) / count
    places = Counter((event.file, event.offset) for event in placed)
    for most in (1, 8, 64):
        found[f"at the {most} most frequent places"] = sum(c for _, c in places.most_common(most)) / count
    found["places"] = len(places) / count
    found["syncs"] = sum(event.kind == "S" for event in events) / len(events)
    found["drops"] = sum(event.kind == "D" for event in events) / len(events)
    writes = [event.kind for event in events if event.kind in "wS"]
    gaps = (
        Counter(len(list(same)) for kind, same in groupby(writes) if kind == "w")
        if "S" in writes
        else Counter()
    )
    found |= {f"{gap} writes between syncs": c / max(1, gaps.total()) for gap, c in gaps.most_common(1)}
    passes = [list(same) for kind, same in groupby(events, key=lambda e: e.kind == "D") if not kind]
    once = all(
        len(own) == len(set(own)) for own in ([e[1:] for e in each if e.kind in "rw"] for each in passes)
    )
    return found | {"no place twice in a pass": float(once and len(passes) > 1)}
