"""Parsers and readers of stored files under changed inputs: `python tests/fuzz.py --inputs 100000` (`make fuzz`). No test.

An input is one of a parser's own with some changes: bytes, lines, numbers, pieces of other inputs. It is either taken or refused
with the parser's documented error. Anything else is a fault: another exception, more than 5 s, more than 2 GiB. Whatever is drawn
follows from the seed and the number of the input.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from changed_campaign import (
    PARTS_CHANGED,
    NotWrittenError,
    chosen,
    document,
    drawn_rows,
    of_campaign,
    stored,
)

from iodyno import pdq
from iodyno.analysis.cost_model.data import read_csv
from iodyno.analysis.cost_model.notation import NotationError, terms_of
from iodyno.cli.model.notation import queue_of
from iodyno.core import quantity
from iodyno.core.decision import parse_rule
from iodyno.core.distribution import checked_arrivals, checked_zones, parse_sizes
from iodyno.core.errors import IodynoError
from iodyno.core.experiment import Experiment
from iodyno.core.metric_source import MetricValue
from iodyno.core.search import parse_goal
from iodyno.designs import design_rows
from iodyno.formats import metric_answers as answers
from iodyno.formats import nic_statistics, python2, value_traces
from iodyno.formats.ansible_inventory import Inventory, InventoryError, parse_ini, parse_yaml
from iodyno.formats.experiment_file import parse_experiment
from iodyno.formats.load_table import read_load_table
from iodyno.formats.name_ranges import node_list
from iodyno.formats.network_file import parse_network
from iodyno.formats.pdq_perl import PerlScript
from iodyno.formats.ssh_config import aliases, what_runs
from iodyno.loads.disk import fio
from iodyno.loads.disk.formats import block_traces
from iodyno.loads.files import wml
from iodyno.loads.script import uperf
from iodyno.session import wire
from iodyno.store.manifest import read_header, read_manifest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_S = 5.0
MOST_BYTES = 2 << 30
KEPT_FAULTS = 5
"""Faults of a parser that are told, each from another place."""
TOKENS = [
    *(
        b"0 -1 1e999 nan inf 18446744073709551616 -9223372036854775809 0x10 1e-400 00 99999999999999999999999999".split()
    ),
    *(
        b"{ } [ ] ( ) < > : , ; = - # ' \" & * ! | % @ ` \\ / $ ${X} &x; <!-- ]]> ~ ^ ? null true .. *a &a [[[[ ((((".split()
    ),
    *("\0 \x1b \x7f \u202e \ufeff \ud7ff \U0010ffff é ² ٣ \x1f".encode().split(b" ")),
    *(b"\n", b"\r\n", b"\t", b"  ", b"\xff", b"\xc3", b"\x80"),
]


@dataclass(frozen=True)
class Parser:
    """What is tried. `refuses`: its documented errors besides the program's own; `share`: of the inputs, for one that is slow."""

    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    refuses: tuple[type[Exception], ...] = ()
    share: float = 1.0
    draw: Callable[[random.Random, list[bytes]], bytes] = field(default_factory=lambda: changed)


# ---- inputs ----


def files(*patterns: str) -> Callable[[], list[bytes]]:
    """Files of the repository."""
    return lambda: [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def words(*texts: str) -> Callable[[], list[bytes]]:
    """Texts."""
    return lambda: [text.encode() for text in texts]


def changed(draw: random.Random, seeds: list[bytes]) -> bytes:
    """An input with some changes, mostly one or two."""
    data = bytearray(draw.choice(seeds))
    for _ in range(1 + int(draw.expovariate(0.8))):
        at = draw.randrange(len(data) + 1)
        end = min(len(data), at + int(draw.expovariate(1 / 8)) + 1)
        match draw.randrange(22) // 3:
            case 0:
                data[at:end] = draw.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end] * draw.choice((1, 2, 50))
            case 3:
                data[at:at] = draw.choice(TOKENS)
            case 4:
                data[at:end] = draw.choice(TOKENS)
            case 5:
                other = draw.choice(seeds)
                begin = draw.randrange(len(other) + 1)
                data[at:at] = other[begin : begin + draw.randrange(200)]
            case 6:
                lines = bytes(data).splitlines(keepends=True)
                draw.shuffle(lines) if draw.random() < 0.2 else lines and lines.pop(
                    draw.randrange(len(lines))
                )
                data = bytearray(b"".join(lines))
            case 7:
                del data[at:]
    return bytes(data)


# ---- parsers ----


def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A reader of text, of which wrong bytes are what they are elsewhere."""
    return lambda data: read(data.decode("utf-8", errors="replace"))


def metric_answers(written: str) -> object:
    """What every reader of answers makes of a text: each a number or a reason."""
    values = {"a": MetricValue("a_total", "counter", labels={"v": "1"}), "busy": MetricValue("busy", "gauge")}
    for driver in ("virtio_net", "bnxt_en", "vmxnet3"):
        nic_statistics.of_nic(written, driver, {"it": MetricValue("rx_packets", "counter")})
    plain = (answers.of_exposition, answers.of_lines, answers.of_snmp)
    return [read(written, values) for read in plain], [
        answers.of_csv(written, values, "", (0, 1 << 62)),
        answers.of_range(written),
    ]


def file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of a file."""

    def of(data: bytes) -> object:
        path = Path(tempfile.gettempdir()) / f"iodyno-fuzz-{os.getpid()}"
        path.write_bytes(data)
        return read(path)

    return of


def listed(parse: Callable[[str], Inventory]) -> Callable[[bytes], object]:
    """An inventory of Ansible, with all its hosts."""
    return text(lambda written: parse(written).of("all"))


EXPERIMENT = """name: t
hosts: {client: {access: local}, server: {access: local}}
workload: {kind: stream, sender: client, receiver: server}
factors: {size: [1KiB, 64KiB], connections: [1, 4, 16], nagle: [on, off]}
"""


def rows(data: bytes) -> object:
    """A design file."""
    return design_rows.read(_experiment(), data.decode("utf-8", errors="replace"))


@cache
def _experiment() -> Experiment:
    return parse_experiment(EXPERIMENT)


def perl(data: bytes) -> object:
    """A PDQ script in Perl, with what it solves."""
    names = {name: getattr(pdq, name) for name in pdq.__all__}
    functions = {name: value for name, value in names.items() if callable(value)}
    script = PerlScript(functions, names, lambda written: None)
    with contextlib.redirect_stdout(io.StringIO()):
        script.run(data.decode("utf-8", errors="replace"), ["8", "0.5", "2"])
    return script


def frames(data: bytes) -> object:
    """What an agent says."""
    decoder = wire.Decoder(allow_foreign=True)
    taken = [json.loads(payload) for payload in decoder.feed(data)]
    decoder.finish()
    return taken


def quantities(data: bytes) -> object:
    """Every kind of quantity."""
    written = data.decode("utf-8", errors="replace")
    taken = 0
    for kind in ("size", "duration", "count", "rate", "bit_rate", "share"):
        try:
            quantity.parse(kind, written)
            taken += 1
        except ValueError as refused:
            if not str(refused).startswith(("invalid value", "unexpected ")):
                raise
    return taken


_TRACE = "  8,0    1       1     0.000000100  697  D   W 8 + 8 [fio]\n  8,0    1       2     0.000300100  0  C   W 8 + 8 [0]\n"
_DESIGN = (
    "size,connections,nagle\n1KiB,1,on\n64KiB,16,off\n",
    "StdOrder,size,connections,nagle,block,Y\n1,1024,4,on,1,\n",
)
_TABLE = (
    "threads,rate\n1,1.5\n2,2.9\n4,5.1\n",
    "size,connections,block,us\n4KiB,1,1,10.5\n8KiB,2,1,11\n4KiB,2,2,12\n",
)
PARSERS = {
    "experiment file": Parser(
        text(parse_experiment), files("studies/*.yaml", "tests/golden/experiment_errors/*.yaml"), share=0.5
    ),
    "design file": Parser(rows, words(*_DESIGN)),
    "uperf profile": Parser(uperf.parse_profile, files("tests/fixtures/uperf/*.xml")),
    "uperf script": Parser(text(uperf.script_of), files("tests/fixtures/uperf/*.xml")),
    "Filebench personality": Parser(wml.parse_personality, files("tests/fixtures/wml/*.f")),
    "fio job file": Parser(
        lambda data: fio.jobs_of(fio.parse_sections(data, environment={})),
        words(
            "[global]\nioengine=libaio\niodepth=4\ndirect=1\n[a]\nrw=randrw:8\nbsrange=4k-64k\nfilename=/a\nsize=1g\nrwmixread=70\n[b]\nstonewall\nfilename=/b\nsize=1m\n",
            "[j]\nfilename=/a:/b\nsize=1g\nrw=randread\nrandom_distribution=zipf:1.2\nrate_iops=100\nnumjobs=4\nbssplit=4k/50:8k/50\nverify=crc32c\n",
            "[k]\nfilename=/a\nfilesize=1g\nsize=25%\noffset=1m\nthinktime=10ms\nruntime=10\ntime_based\nfsync=32\nrw=write\n",
        ),
    ),
    "network of queues": Parser(parse_network, files("docs/examples/*.yaml")),
    "PDQ script, Perl": Parser(
        perl,
        files("docs/examples/*.pl", "tests/fixtures/pdq/*.pl"),
        (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError),
    ),
    "PDQ script, Python 2": Parser(
        text(lambda written: python2.compiled(written, "f")),
        words("import pdq\nx = 7 / 2\nprint 'a', x,\nfor i in xrange(3):\n    print i\n"),
        (SyntaxError, ValueError, RecursionError, MemoryError),
    ),
    "block trace": Parser(
        text(block_traces.parse_trace),
        words(_TRACE, "STIME TIME TYPE BLOCK BYTES COMM\n1.5 2.5 W 8 4096 fio\n2.5 3.5 R 16 512 fio\n"),
    ),
    "trace of sizes": Parser(file(value_traces.sizes_bytes), words("4096\n64KiB\n# x\n1\n")),
    "trace of gaps": Parser(file(value_traces.gaps_ns), words("1us\n500ns\n1.5ms\n# x\n0s\n")),
    "table of loads": Parser(file(read_load_table), lambda: [line.encode() for line in _TABLE]),
    "table of costs": Parser(file(read_csv), lambda: [line.encode() for line in _TABLE]),
    "ssh configuration": Parser(
        text(what_runs),
        words('Host a b*\n  ProxyCommand nc %h %p\n  Include ~/x\nMatch exec "x"\n  LocalCommand=y\n'),
    ),
    "inventory, INI": Parser(
        listed(parse_ini),
        words(
            "[a]\nw[01:50:2].x ansible_port=22 # c\nb ansible_user='me'\n[a:vars]\nansible_host=h\n[g:children]\na\n"
        ),
        (InventoryError,),
    ),
    "inventory, YAML": Parser(
        listed(parse_yaml),
        words(
            "all:\n  vars: {ansible_user: r}\n  children:\n    g:\n      hosts:\n        w[1:3]: {ansible_port: 22}\n        d:\n"
        ),
        (InventoryError,),
        share=0.3,
    ),
    "node list": Parser(text(node_list), words("n[001-100,7],m2", "r[1-2]n[1-4]"), (ValueError,)),
    "aliases of ssh": Parser(
        file(lambda path: aliases(str(path))), words("Host a b*\n Include ~/x\nHost=c\n")
    ),
    "answer of a source of metrics": Parser(
        text(metric_answers),
        words(
            '# TYPE a_total counter\na_total{v="1",w="b c"} 12.5 1795748400000\na_total{v="2"} 7\nbusy NaN\n',
            "busy 0.97\na_total 7\n",
            "at,busy,a_total\n2026-11-27T03:00:00Z,0.5,1\n1795748400.5,0.6,2\n",
            '{"status":"success","data":{"result":[{"metric":{},"values":[[1795748400.5,"2"],[1795748401,"NaN"]]}]}}',
            "NIC statistics:\n     rx_queue_0_packets: 20\n     [0]: rx_discards: 2\n     Rx Queue#: 1\n",
        ),
    ),
    "quantity": Parser(quantities, words("64KiB", "10s", "1.5ms", "20k/s", "50Mbit/s", "70%", "4096", "1e3")),
    "stopping rule": Parser(
        text(parse_rule),
        words(
            "ratio(size=1KiB/size=64KiB) > 1.5",
            "difference(a) > 0",
            "no difference(nagle) beyond 5%",
            "width(ratio(nagle)) < 2%",
        ),
        (ValueError,),
    ),
    "goal": Parser(
        text(parse_goal), words("p99 <= 1ms", "loss = 0", "loss <= 0.1 %", "mean <= 2us"), (ValueError,)
    ),
    "sizes": Parser(
        text(parse_sizes),
        words("uniform(64, 9000)", "exponential(1KiB, most=64KiB)", "mix(64B: 7, 1500B: 1)", "trace(f)"),
        (ValueError,),
    ),
    "arrivals": Parser(text(checked_arrivals), words("trace(f)", "trace(/a/b c)"), (ValueError,)),
    "zones": Parser(
        text(checked_zones),
        words("zones(5%: 50%, 15%: 30%, 80%: 20%)", "zones(1%: 99%, 99%: 1%)"),
        (ValueError,),
    ),
    "formula": Parser(
        text(lambda written: terms_of(written, ["a", "b", "long name"])),
        words("a + b + a:b", "a * b - 1", "(a + b)**2", "I(a**2) + long name"),
        (NotationError, RecursionError),
    ),
    "notation of a queue": Parser(
        text(queue_of), words("M/M/1", "M/M/8/20", "m/g/1", "fork-join/4", "tandem/1/2")
    ),
    "frames of an agent": Parser(
        frames, files("schema/golden/*.bin"), (wire.FrameError, ValueError, RecursionError)
    ),
    "header of a campaign": Parser(document("campaign.json", read_header), of_campaign("campaign.json")),
    "manifest of a trial": Parser(document("manifest.json", read_manifest), of_campaign("manifest.json")),
    "campaign.json": Parser(stored("campaign.json"), of_campaign("campaign.json"), share=0.05),
    "manifest.json": Parser(stored("manifest.json"), of_campaign("manifest.json"), share=0.05),
    "records.parquet": Parser(stored("records.parquet"), of_campaign("records.parquet"), share=0.05),
    **{
        f"part {rows.part}": Parser(
            rows.alone, rows.seeds, (NotWrittenError,), 1 / len(PARTS_CHANGED), drawn_rows
        )
        for rows in PARTS_CHANGED
    },
    **{
        f"rows of {rows.part}": Parser(rows.whole, rows.seeds, (NotWrittenError,), 0.05, drawn_rows)
        for rows in PARTS_CHANGED
    },
}


# ---- the run ----


class TooLong(BaseException):
    """An input took longer than it may."""


def too_long(*_: object) -> None:
    raise TooLong


@dataclass
class Told:
    """What became of the inputs of a parser."""

    parser: str
    inputs: int
    taken: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    faults: int = 0
    seconds: float = 0.0


def tried(task: tuple[str, int, int]) -> tuple[Told, list[str]]:
    """Gives a parser so many inputs; the first fault of each place as text."""
    name, inputs, seed = task
    parser, began = PARSERS[name], time.monotonic()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    # Of the CPU's time: another process may be given it meanwhile.
    signal.signal(signal.SIGPROF, too_long)
    warnings.simplefilter("ignore")
    seeds = parser.seeds()
    told, places = Told(name, max(1, round(inputs * parser.share))), dict[str, str]()
    for number in range(told.inputs):
        data = parser.draw(random.Random(f"{seed} {name} {number}"), seeds)
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        try:
            parser.read(data)
            told.taken += 1
        except BaseException as raised:
            if isinstance(raised, (IodynoError, *parser.refuses)):
                told.refused += 1
                continue
            if isinstance(raised, KeyboardInterrupt):
                raise
            told.faults += 1
            lines = traceback.format_exc().splitlines()
            place = " ".join(line.strip() for line in lines[-4:-1])
            places.setdefault(
                place,
                f"{name}, input {number} ({len(data)} bytes): {lines[-1][:200]}; {place[-300:]}; {data[:300]!r}",
            )
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            told.slowest_s = max(told.slowest_s, time.process_time() - started)
    for kind in ("campaign", "folder"):
        shutil.rmtree(Path(tempfile.gettempdir()) / f"iodyno-fuzz-{kind}-{os.getpid()}", ignore_errors=True)
    (Path(tempfile.gettempdir()) / f"iodyno-fuzz-{os.getpid()}").unlink(missing_ok=True)
    told.seconds = time.monotonic() - began
    return told, list(places.values())[:KEPT_FAULTS]


def accounts(names: list[str], inputs: int, seed: int, processes: int) -> Iterator[tuple[Told, list[str]]]:
    """What becomes of each parser."""
    with multiprocessing.Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(tried, [(name, inputs, seed) for name in names])


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument(
        "--inputs", type=int, default=10_000, help="for each parser; fewer for those that are slow"
    )
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    asked.add_argument("--processes", type=int, default=2)
    asked.add_argument("--campaign", default="disk", help="golden campaign whose files are changed")
    asked.add_argument("--only", choices=PARSERS, action="append")
    given: Any = asked.parse_args()
    chosen[0] = given.campaign
    print(f"seed {given.seed}", flush=True)
    told, faults = [], []
    for one, places in accounts(given.only or list(PARSERS), given.inputs, given.seed, given.processes):
        told.append(one)
        faults += places
        print(
            f"{one.parser}: {one.inputs} in {one.seconds:.0f} s",
            *places,
            sep="\n  ",
            file=sys.stderr,
            flush=True,
        )
    print("\n| parser | inputs | taken | refused | faults | slowest |\n| --- | --- | --- | --- | --- | --- |")
    for one in sorted(told, key=lambda one: list(PARSERS).index(one.parser)):
        print(
            f"| {one.parser} | {one.inputs} | {one.taken} | {one.refused} | {one.faults} | {one.slowest_s * 1e3:.0f} ms |"
        )
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
