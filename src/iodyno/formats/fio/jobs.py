"""Sections of a job file become settings of the workload `disk`, and what is to be said about them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from iodyno.core import quantity
from iodyno.formats.fio import numbers
from iodyno.formats.fio.fields import cpus, direction, size_range
from iodyno.formats.fio.file_engines import FILE_ENGINES, WholeFiles
from iodyno.formats.fio.ini import Key, Section
from iodyno.formats.fio.options import CARRIED, REFUSED, WITHOUT_EFFECT, known
from iodyno.formats.mistakes import Mistake, error, found, nearest, unknown

_T = TypeVar("_T")

_PATTERNS: Mapping[str, tuple[bool, float]] = {
    "read": (False, 100.0),
    "write": (False, 0.0),
    "randread": (True, 100.0),
    "randwrite": (True, 0.0),
    "rw": (False, 50.0),
    "readwrite": (False, 50.0),
    "randrw": (True, 50.0),
}
"""Whether places are random, and the share of reads."""
_TRIMS = ("trim", "randtrim", "trimwrite", "randtrimwrite")

ENGINES: Mapping[str, str] = {
    "psync": "pread", "sync": "pread", "vsync": "pread", "pvsync": "pread", "pvsync2": "preadv2", "libaio": "aio",
    "io_uring": "io_uring", "posixaio": "io_uring", "mmap": "mmap", "null": "pread",
}  # fmt: skip
_SAID = {
    "sync": "ioengine=sync: pread and pwrite, without the lseek before each",
    "vsync": "ioengine=vsync: pread and pwrite; neighbours are not joined",
    "pvsync": "ioengine=pvsync: pread and pwrite of one piece",
    "posixaio": "ioengine=posixaio: io_uring at that depth; the threads of the C library, which carry the requests of one"
    " file one after another, are not made",
}
_ASYNCHRONOUS = ("io_uring", "aio")
DEFAULT_SECONDS = 60
MOST_FILES = 64
"""Of a job (chosen: more are a fileset)."""


@dataclass(frozen=True)
class Job:
    """A job: its settings of the workload `disk` (or the file program that it is), and the times around it."""

    name: str
    settings: Mapping[str, Any]
    warm_up_ns: int
    measured_ns: int | None
    seed: int | None
    cpus: tuple[int, ...]
    alone_after: bool
    """Whether it waits for all jobs before it."""
    waits_for: str | None
    file: str
    line: int
    files: WholeFiles | None = None
    """What an engine does that makes, asks for or removes files."""
    notes: tuple[str, ...] = field(default=())


def jobs_of(sections: list[Section], *, target: str | None = None) -> list[Job]:
    """Every job. `target` is a directory, or a file, that stands for those of the jobs. Raises ExperimentError."""
    mistakes: list[Mistake] = []
    jobs = []
    for section in sections:
        reading = _Reading(section, target)
        with contextlib.suppress(_WrongError):
            jobs.append(reading.job())
        mistakes += reading.mistakes
    if mistakes:
        raise error(sections[0].file, mistakes, "docs/fio.md lists the options")
    return jobs


class _WrongError(Exception):
    """A job that cannot be read; what is wrong is noted."""


class _Reading:
    """One section."""

    def __init__(self, section: Section, target: str | None) -> None:
        self.section = section
        self.keys = section.keys
        self.target = target
        self.mistakes: list[Mistake] = []
        self.notes: dict[str, None] = {}

    def note(self, key: Key | None, text: str) -> None:
        """Notes a mistake."""
        line, name = (key.line, key.name) if key else (self.section.line, "")
        place = f"[{self.section.name}] {name}".rstrip()
        if key is not None and key.file != self.section.file:
            place = f"{key.file}:{key.line}: {place}"
        self.mistakes.append(Mistake(line, place, text))

    def say(self, text: str) -> None:
        """Notes what has another meaning here."""
        self.notes[text] = None

    def get(self, name: str, read: Callable[[str], _T], default: _T) -> _T:
        """The value of an option."""
        key = self.keys.get(name)
        if key is None:
            return default
        try:
            return read(key.value)
        except ValueError as problem:
            self.note(key, str(problem))
            return default

    def word(self, name: str, default: str = "") -> str:
        """The text of an option."""
        return self.get(name, lambda written: written, default)

    def size(self, name: str, default: int | None = None) -> int | None:
        """Bytes of an option."""
        kb_base = self.get("kb_base", numbers.count, 1024)
        return self.get(name, lambda written: numbers.size(written, kb_base), default)

    def job(self) -> Job:
        """The job. Raises _WrongError with mistakes noted."""
        self.check_names()
        engine = self.word("ioengine", "psync").lower()
        self.times()
        numjobs = max(1, self.get("numjobs", numbers.count, 1))
        stonewall = self.get("stonewall", numbers.switch, False)
        files, settings = None, {}
        if engine in FILE_ENGINES:
            files = self.whole_files(engine, numjobs)
        else:
            settings = self.disk(engine, numjobs)
        if self.mistakes:
            raise _WrongError
        seed = self.seed()
        return Job(
            name=self.section.name,
            settings=settings,
            warm_up_ns=self.get("ramp_time", numbers.duration_ns, 0),
            measured_ns=self.get("runtime", numbers.duration_ns, 0) or None,
            seed=seed,
            cpus=self.get("cpus_allowed", cpus, ()),
            alone_after=stonewall,
            waits_for=self.word("wait_for") or None,
            file=self.section.file,
            line=self.section.line,
            files=files,
            notes=tuple(self.notes),
        )

    def check_names(self) -> None:
        """Refuses options that nobody knows, and those that are not carried out."""
        for name, key in self.keys.items():
            if name in REFUSED:
                self.note(key, f"is not carried out: {REFUSED[name]}")
            elif name in WITHOUT_EFFECT:
                self.say(f"{key.name} is without effect: {WITHOUT_EFFECT[name]}")
            elif name not in CARRIED:
                self.note(key, f"is no option that is known here{nearest(name, known())}")

    def times(self) -> None:
        """What is said about the times of the job."""
        for name in ("ramp_time", "runtime", "startdelay"):
            self.get(name, numbers.duration_ns, 0)
        if self.get("startdelay", lambda w: numbers.duration_ns(w.partition("-")[0]), 0):
            self.say("startdelay is without effect: a trial begins at one instant")
        if self.get("loops", numbers.count, 1) > 1:
            self.say("loops is without effect: the load goes on for its time")
        if "runtime" not in self.keys:
            self.say("there is no runtime: the load goes on for --seconds, whatever size there is to move")
        elif not self.get("time_based", numbers.switch, False):
            self.say(
                "time_based is taken to be 1: the load goes on to the end of runtime, also when size has been moved once"
            )
        if "io_size" in self.keys:
            self.get("io_size", numbers.size, 0)
            self.say("io_size is without effect: the load goes on for its time")
        for name in ("opendir", "filename_format"):
            if name in self.keys:
                self.note(self.keys[name], "is not carried out: name the file (filename=)")
        if self.get("nice", numbers.count, 0):
            self.say("nice is without effect: the lab chooses it")
        if self.get("unlink", numbers.switch, False):
            self.say("unlink is without effect: `iodyno disk --remove` removes a working set")

    def seed(self) -> int | None:
        """The seed of what is drawn; None: the experiment's own."""
        if "randrepeat" in self.keys and not self.get("randrepeat", numbers.switch, True):
            self.say("randrepeat=0: every trial has a seed of its own in any case")
        return self.get("randseed", numbers.count, 0) or None

    # -- the workload `disk`

    def disk(self, engine: str, numjobs: int) -> dict[str, Any]:
        """The settings of the workload."""
        if engine not in ENGINES:
            key = self.keys.get("ioengine")
            self.note(key, unknown(engine, (*ENGINES, *FILE_ENGINES)))
            raise _WrongError
        if engine in _SAID:
            self.say(_SAID[engine])
        interface = ENGINES[engine]
        block = self.block()
        settings: dict[str, Any] = {
            "interface": interface,
            **self.places(engine, numjobs),
            **self.mix(),
            "block": block,
        }
        settings |= self.calls(interface) | self.durability() | self.content() | self.rates(numjobs)
        settings |= self.pauses(settings)
        if numjobs > 1:
            settings["workers"] = numjobs
        self.random(settings)
        if "norandommap" not in self.keys and settings["pattern"] == "random":
            self.say("blocks are drawn with repeats, as with norandommap=1")
        return settings

    def mix(self) -> dict[str, Any]:
        """Pattern and share of reads."""
        written = self.word("rw", "read").lower()
        kind, _, more = written.partition(":")
        key = self.keys.get("rw")
        if kind in _TRIMS:
            self.note(
                key,
                f"found {found(kind)}, which discards blocks and is not carried; allowed: {', '.join(_PATTERNS)}",
            )
            raise _WrongError
        if kind not in _PATTERNS:
            self.note(key, unknown(kind, _PATTERNS))
            raise _WrongError
        is_random, reads = _PATTERNS[kind]
        if reads == 50.0:
            if "rwmixread" in self.keys:
                reads = self.get("rwmixread", numbers.percent, 50.0)
            elif "rwmixwrite" in self.keys:
                reads = 100 - self.get("rwmixwrite", numbers.percent, 50.0)
        pattern: dict[str, Any] = {"pattern": "random" if is_random else "sequential"}
        if more:
            if more.startswith("-") and not is_random:
                self.note(
                    key, f"found {found(written)}, which goes backwards and is not carried; allowed: {kind}"
                )
                raise _WrongError
            try:
                hole = numbers.size(more)
            except ValueError as problem:
                self.note(key, str(problem))
                raise _WrongError from None
            if is_random:
                self.note(
                    key,
                    f"found {found(written)}, which is several blocks in order at each random place; allowed: {kind}",
                )
                raise _WrongError
            pattern = {
                "pattern": "strided",
                "stride": quantity.show("size", hole + (self.size("bs", 4096) or 4096)),
            }
        return {**pattern, "read": f"{reads:g}%"}

    def random(self, settings: dict[str, Any]) -> None:
        """How random places are drawn, and how many of the operations are at one."""
        share = self.get("percentage_random", lambda w: numbers.percent(w.split(",")[0]), None)
        if share is not None and settings["pattern"] == "random" and share < 100:
            settings["pattern"], settings["random"] = "sequential", f"{share:g}%"
        if "random_distribution" not in self.keys or settings["pattern"] != "random":
            return None
        key = self.keys["random_distribution"]
        kind, _, more = key.value.lower().partition(":")
        if kind == "random":
            return None
        if kind == "zipf" and more:
            theta = more.partition(":")[0].partition("/")[0]
            if not re.fullmatch(r"\d(\.\d{1,6})?", theta) or not 0 < float(theta) < 5:
                return self.note(key, f"found {found(key.value)}, allowed: zipf:THETA with 0 < THETA < 5")
            settings["pattern"], settings["theta"] = "zipf", theta
        elif kind == "pareto" and more:
            skew = more.partition(":")[0].partition("/")[0]
            if not re.fullmatch(r"0?\.\d{1,6}", skew) or not 0 < float(skew) < 1:
                return self.note(key, f"found {found(key.value)}, allowed: pareto:SKEW with 0 < SKEW < 1")
            # fio's law is the same for SKEW and 1 - SKEW, with the frequent places at the other end.
            space = min(float(skew), 1 - float(skew)) * 100
            settings["pattern"] = "self_similar"
            settings["hot_operations"], settings["hot_space"] = f"{100 - space:g}%", f"{space:g}%"
        elif kind == "zoned" and more:
            reads = _PATTERNS[self.word("rw", "read").lower().partition(":")[0]][1]
            none: list[tuple[float, float]] = []
            zones = self.get("random_distribution", lambda _: numbers.zones(direction(more, reads)), none)
            settings["pattern"] = (
                f"zones({', '.join(f'{space:g}%: {accesses:g}%' for accesses, space in zones)})"
            )
        else:
            self.note(
                key,
                f"found {found(key.value)}, allowed: random, zipf:THETA, pareto:SKEW, zoned:ACCESSES/SPACE:...",
            )
        return None

    def block(self) -> str:
        """The block: one size, or drawn."""
        reads = _PATTERNS.get(self.word("rw", "read").lower().partition(":")[0], (False, 100.0))[1]
        if "bssplit" in self.keys:
            none: list[tuple[int, float]] = []
            pairs = self.get("bssplit", lambda w: numbers.split(direction(w, reads)), none)
            mixed = ", ".join(
                f"{quantity.show('size', size)}: {round(share * 100)}" for size, share in pairs if share
            )
            return f"mix({mixed})" if mixed else "4KiB"
        if "bsrange" in self.keys:
            low, high = self.get("bsrange", lambda w: size_range(direction(w, reads)), (4096, 4096))
            self.say(
                "bsrange: sizes are drawn alike from the range, and rounded up to its lower end or 512 bytes"
            )
            return (
                f"uniform({quantity.show('size', low)}, {quantity.show('size', high)})"
                if low < high
                else quantity.show("size", low)
            )
        kb_base = self.get("kb_base", numbers.count, 1024)
        size = self.get("bs", lambda w: numbers.size(direction(w, reads), kb_base), 4096)
        if not 512 <= size <= 1 << 30:
            self.note(self.keys.get("bs"), f"found {size} bytes, allowed: 512 to 1 GiB")
        return quantity.show("size", size)

    def places(self, engine: str, numjobs: int) -> dict[str, Any]:
        """Target, size, offset, and who has which part."""
        if engine == "null":
            return {"target": "null", "working_set": quantity.show("size", self.size("size") or 1 << 30)}
        own, paths = self.paths()
        path = paths[0]
        size = self.size("filesize") if "filesize" in self.keys and "-" not in self.word("filesize") else None
        if "filesize" in self.keys and size is None and not self.mistakes:
            self.note(self.keys["filesize"], "a range of sizes is not carried: name one size")
        if "size" in self.keys and "%" in self.word("size"):
            if not path.startswith("/dev/"):
                self.note(
                    self.keys["size"],
                    f"found {found(self.word('size'))}, a share of a file that is not there yet; allowed: a size",
                )
            elif self.word("size").strip() != "100%":
                self.note(
                    self.keys["size"],
                    "a share of a device is not carried: name the size, or leave it out for all of it",
                )
        elif "size" in self.keys:
            size = self.size("size") if size is None else min(size, self.size("size") or size)
        if size is not None and len(paths) > 1 and "filesize" not in self.keys:
            # The size is that of all files of a job together.
            size //= len(paths)
            self.say(
                f"{len(paths)} files or devices of {quantity.show('size', size)} each, which are used in turn"
            )
        if size is None and not {"size", "filesize"} & {*self.keys} and not path.startswith("/dev/"):
            size = self.there(paths)
        settings: dict[str, Any] = {"target": ", ".join(paths)}
        offset = self.size("offset", 0) or 0
        increment = self.size("offset_increment", 0) or 0
        if numjobs > 1:
            settings["sequence"] = "each"
            if increment and size:
                if increment != size:
                    self.note(
                        self.keys["offset_increment"],
                        f"found {increment}, allowed: as many bytes as size ({size}), so that each job has a part of its own",
                    )
                size, settings["sequence"] = size * numjobs, "split"
            elif own and size:
                self.say(
                    f"numjobs={numjobs}: one file of {numjobs} times the size, of which each worker has a part, for a file each"
                )
                size, settings["sequence"] = size * numjobs, "split"
        if size is not None:
            settings["working_set"] = quantity.show("size", size)
        if offset:
            settings["offset"] = quantity.show("size", offset)
        return settings

    def there(self, paths: list[str]) -> int | None:
        """The least size of files that are there already. Notes a mistake where one is not."""
        try:
            sizes = [Path(path).stat().st_size for path in paths]
        except OSError:
            sizes = [0]
        if not min(sizes):
            self.note(self.keys.get("filename"), "has no size, needed: size=1g for a file")
            return None
        self.say("there is no size: the file is used as long as it is")
        return min(sizes) // 512 * 512

    def paths(self) -> tuple[bool, list[str]]:
        """Whether each job has files of its own, and the paths of its targets."""
        written, directory = self.word("filename"), self.word("directory")
        if ":" in directory:
            self.note(
                self.keys["directory"],
                f"found {found(directory)}, several directories, which are not carried; allowed: one",
            )
            raise _WrongError
        count = max(1, self.get("nrfiles", numbers.count, 1))
        if count > MOST_FILES:
            self.note(
                self.keys["nrfiles"],
                f"found {count}, allowed: 1 to {MOST_FILES}; a personality of Filebench has filesets (docs/filebench.md)",
            )
            raise _WrongError
        names = [name.replace("\\:", ":") for name in re.split(r"(?<!\\):", written) if name]
        own = not names
        names = names or [f"{self.section.name}.0.{number}" for number in range(count)]
        if len(set(names)) < len(names):
            self.note(self.keys["filename"], f"found {found(written)}, allowed: each name once")
            raise _WrongError
        return own, [self.place(name, directory) for name in names]

    def place(self, named: str, directory: str) -> str:
        """The path of one target."""
        if named.startswith("/dev/") and self.target is None:
            return named
        if self.target is not None and named.startswith("/"):
            self.say(f"filename {named}: {Path(named).name} in the target directory {self.target}")
            named = Path(named).name
        return str(Path(self.target or directory or ".", named).absolute())

    def calls(self, interface: str) -> dict[str, Any]:
        """How calls are made: depth, direct, the ring."""
        told: dict[str, Any] = {}
        depth = self.get("iodepth", numbers.count, 1)
        if interface in _ASYNCHRONOUS:
            told["depth"] = max(1, depth)
            if (batch := self.get("iodepth_batch_complete_min", numbers.count, 1)) > 1:
                told["batch"] = min(batch, told["depth"])
        elif depth > 1:
            self.say(f"iodepth={depth} with calls that wait is 1, as in fio")
        direct = self.get("direct", numbers.switch, False)
        if "buffered" in self.keys and "direct" not in self.keys:
            direct = not self.get("buffered", numbers.switch, True)
        told["direct"] = "on" if direct else "off"
        if (not direct and interface != "pread") or (
            not direct and self.get("invalidate", numbers.switch, True)
        ):
            self.say(
                "the page cache is as the layout leaves it; `cached: no` of an experiment file empties it, and proves it"
            )
        if interface == "io_uring":
            registered = [self.get(name, numbers.switch, False) for name in ("fixedbufs", "registerfiles")]
            told["registered"] = "on" if any(registered) else "off"
            if registered[0] != registered[1]:
                self.say("fixedbufs and registerfiles are one switch here: both on")
            if self.get("sqthread_poll", numbers.switch, False):
                told["sqpoll"] = "on"
            if self.get("hipri", numbers.switch, False):
                told["iopoll"] = "on"
        elif interface == "preadv2" and self.get("hipri", numbers.switch, False):
            told["hipri"] = "on"
        if self.get("nowait", numbers.switch, False):
            told["nowait"] = "on"
        if "blockalign" in self.keys:
            told["align"] = quantity.show("size", self.size("blockalign", 512) or 512)
        return told

    def durability(self) -> dict[str, Any]:
        """How writes are made durable."""
        sync = self.word("sync", "none").lower()
        words = {"none": "", "0": "", "1": "o_sync", "": "o_sync", "sync": "o_sync", "dsync": "o_dsync"}
        if sync not in words:
            self.note(self.keys["sync"], unknown(sync, ("none", "0", "1", "sync", "dsync")))
        every = {name: self.get(name, numbers.count, 0) for name in ("fsync", "fdatasync")}
        asked = [words.get(sync, ""), *(name for name, n in every.items() if n)]
        asked = [word for word in asked if word]
        if len(asked) > 1:
            self.note(
                self.keys.get("fsync") or self.keys.get("fdatasync"),
                f"found {' and '.join(asked)}, allowed: one of them",
            )
        if not asked:
            return {}
        times = every.get(asked[0], 0)
        return {"sync": asked[0], **({"sync_every": times} if times > 1 else {})}

    def content(self) -> dict[str, Any]:
        """What is written, and whether it is checked."""
        told: dict[str, Any] = {}
        if self.get("zero_buffers", numbers.switch, False):
            told["content"] = "zero"
        share = self.get("buffer_compress_percentage", numbers.percent, 0.0)
        if share:
            told["content"] = f"compressible({share:g}%)"
        verify = self.word("verify", "0").lower()
        if verify not in ("0", "none", "null", ""):
            if verify != "crc32c":
                self.say(f"verify={verify}: each block carries a check of its own with crc32c")
            told["verify"] = "read"
        return told

    def pauses(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Pauses after so many blocks."""
        pause_ns = self.get("thinktime", lambda w: numbers.duration_ns(w, "us"), 0)
        blocks = self.get("thinktime_blocks", numbers.count, 1)
        if not pause_ns:
            return {}
        if "rate" in settings:
            self.note(
                self.keys["thinktime"],
                "a pause beside a rate, which says when blocks begin; allowed: one of them",
            )
        every = {"think_every": blocks} if blocks > 1 else {}
        return {"think": quantity.show("duration", pause_ns), **every}

    def rates(self, numjobs: int) -> dict[str, Any]:
        """The rate that is held, of all jobs together."""
        total = 0
        if "rate_iops" in self.keys:
            total = self.get("rate_iops", self._both, 0)
        elif "rate" in self.keys:
            block = self.get("bs", lambda w: numbers.size(w.split(",")[0]), 4096)
            if "bssplit" in self.keys or "bsrange" in self.keys:
                self.note(self.keys["rate"], "bytes a second of drawn sizes are not carried: use rate_iops")
            per_s = self.get("rate", self._both, 0)
            total = per_s // max(1, block)
            self.say(f"rate={self.word('rate')}: {total} operations per second of each job")
        if not total:
            return {}
        process = self.word("rate_process", "linear").lower()
        laws = {"linear": "constant", "poisson": "poisson"}
        if process not in laws:
            self.note(self.keys["rate_process"], unknown(process, laws))
            return {}
        self.say(
            "the rate is that of an open loop: operations begin when they are due, and response times count from there"
        )
        if numjobs > 1:
            self.say(f"a rate of each of {numjobs} jobs: {total * numjobs}/s for all together")
        return {"rate": f"{total * numjobs}/s", "arrivals": laws[process]}

    def _both(self, written: str) -> int:
        """`1000`, or `600,400` of reads and writes, which are drawn from one rate."""
        parts = [numbers.count(part) for part in written.split(",")[:2] if part.strip()]
        kind = self.word("rw", "read").lower().partition(":")[0]
        reads = _PATTERNS.get(kind, (False, 100.0))[1]
        if not parts:
            raise ValueError(f"found {found(written)}, allowed: a rate such as 1000")
        if reads == 50.0:
            # fio holds the one value for reads and for writes, each.
            total = 2 * parts[0] if len(parts) == 1 else sum(parts)
            self.say(
                f"rates of reads and writes are held together: {total}/s of each job, mixed as rwmixread says"
            )
            return total
        return parts[-1] if reads == 0.0 else parts[0]

    def whole_files(self, engine: str, numjobs: int) -> WholeFiles:
        """What an engine does that makes, asks for or removes files."""
        directory = str(Path(self.target or self.word("directory") or ".").absolute())
        count = max(1, self.get("nrfiles", numbers.count, 1)) * numjobs
        size = self.size("filesize", self.size("size", 4096)) or 4096
        self.say(
            f"ioengine={engine}: a file program of {count} files and {numjobs} threads, which take any file"
        )
        return WholeFiles(engine, directory, count, numjobs, size)
