"""Sections of a job file become settings of the workload `disk`, and what is to be said about them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import found, invalid
from iodyno.formats.mistakes import error, nearest, unknown
from iodyno.loads.disk.fio import numbers
from iodyno.loads.disk.fio.fields import cpu_mask, cpus, direction, size_range
from iodyno.loads.disk.fio.file_engines import FILE_ENGINES, WholeFiles
from iodyno.loads.disk.fio.ini import Section
from iodyno.loads.disk.fio.options import CARRIED, CHECKS, NAMES, REFUSED, SWITCHES, WITHOUT_EFFECT, known
from iodyno.loads.disk.fio.places import PATTERNS, PlaceReading
from iodyno.loads.disk.fio.rates import rates
from iodyno.loads.disk.fio.reading import Wrong, WrongError, mistakes_of, of_jobs
from iodyno.loads.disk.fio.targets import Targets
from iodyno.loads.disk.fio.together import check

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
_OF_ENGINES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "fixedbufs": (("io_uring",), ""),
    "registerfiles": (("io_uring",), ""),
    "sqthread_poll": (("io_uring",), "sqpoll"),
    "hipri": (("preadv2", "io_uring"), "hipri"),
    "nowait": (("preadv2", "io_uring"), "nowait"),
}
"""Switches of fio's engines: the syscalls here that have them, and what they are there."""
DEFAULT_SECONDS = 60


@dataclass(frozen=True)
class Job:
    """A job: its settings of the workload `disk` (or the file program that it is), and the times around it."""

    name: str
    settings: Mapping[str, Any]
    warm_up_ns: int
    measured_ns: int | None
    seed: int | None
    cpus: tuple[int, ...]
    """Those that it may run on; none: all."""
    lines: Mapping[str, int]
    """Lines of its options in the file."""
    alone_after: bool
    """True where it waits for all jobs before it."""
    waits_for: str | None
    file: str
    line: int
    delay: str = ""
    """Delay of its start after the others."""
    only_creates: bool = False
    """True where it makes its files and moves nothing."""
    files: WholeFiles | None = None
    """Work of an engine that makes, asks for or removes files."""
    notes: tuple[str, ...] = field(default=())


def jobs_of(
    sections: list[Section], *, target: str | None = None, among: Sequence[Section] = ()
) -> list[Job]:
    """Every job. `target` is a directory that stands for those of the jobs; files of the jobs `among` which these are stay
    different ones in it. Raises ExperimentError.
    """
    wrong: list[Wrong] = []
    jobs = []
    targets = Targets(among or sections, target)
    for section in sections:
        reading = _Reading(section, targets)
        with contextlib.suppress(WrongError):
            jobs.append(reading.job())
        wrong += reading.wrong
    if wrong:
        raise error(sections[0].file, mistakes_of(wrong), "docs/guides/fio.md lists the options")
    return _that_run(jobs)


def _that_run(jobs: Sequence[Job]) -> list[Job]:
    """The jobs without those that only create files, which is done before any. Raises ExperimentError where none is left."""
    left: list[Job] = []
    names = [job.name for job in jobs if job.only_creates]
    waits = False
    for job in jobs:
        waits |= job.alone_after
        if not job.only_creates:
            past = job.waits_for in names
            left.append(replace(job, alone_after=waits or past, waits_for=None if past else job.waits_for))
            waits = False
    if not left:
        lines = {"create_only": jobs[0].line} | dict(jobs[0].lines)
        raise ExperimentError(
            f"{of_jobs(names)} only creates files (create_only), and no job reads or writes",
            where=f"{jobs[0].file}:{lines['create_only']}",
            advice="leave create_only out; files are laid out before the first trial",
        )
    if names:
        said = f"comes without {of_jobs(names).rstrip(':')}, where create_only moves nothing: files are laid out before"
        left[0] = replace(left[0], notes=(*left[0].notes, said))
    return left


def _engines(syscalls: tuple[str, ...]) -> str:
    return ", ".join(name for name, of in ENGINES.items() if of in syscalls and name not in _SAID)


def _align(sizes: list[int]) -> dict[str, str]:
    """Return the alignment of drawn blocks: the least size, where all others are multiples of it, too."""
    least = min(sizes)
    whole = least >= 512 and not any(size % least for size in sizes)
    return {"align": quantity.show("size", least)} if whole else {}


class _Reading(PlaceReading):
    """One section as a job."""

    def job(self) -> Job:
        """The job. Raises WrongError with mistakes noted."""
        self.check_names()
        if self.word("kb_base", "1024") not in ("1000", "1024"):
            self.note(self.keys["kb_base"], invalid(self.word("kb_base"), "1000, 1024"))
        engine = self.word("ioengine", "psync").lower()
        self.times()
        numjobs = self.at_least_one("numjobs")
        stonewall = self.switch("stonewall", False)
        files, settings = None, {}
        if engine in FILE_ENGINES:
            files = self.whole_files(engine, numjobs)
        else:
            settings = self.disk(engine, numjobs)
        if self.wrong:
            raise WrongError
        seed = self.seed()
        return Job(
            name=self.section.label,
            settings=settings,
            warm_up_ns=self.get("ramp_time", numbers.duration_ns, 0),
            measured_ns=self.get("runtime", numbers.duration_ns, 0) or None,
            seed=seed,
            cpus=self.cpus(),
            delay=self.word("startdelay") if self.get("startdelay", numbers.duration_ns, 0) else "",
            only_creates=self.switch("create_only"),
            lines={name: key.line for name, key in self.keys.items() if key.file == self.section.file},
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
                self.note(key, f"unknown option{nearest(name, known())}")
            elif not key.value and name not in SWITCHES:
                self.note(key, f"missing value: expected {key.name}=...")
            elif name not in NAMES and numbers.opposite(key.value, self.kb_base(name)):
                self.say(
                    f"{key.name}={key.value}: kib, mib and so on are powers of 1000 where kb_base is 1024, as in fio"
                )

    def times(self) -> None:
        """Read the times of the job, with notes on them."""
        for name in ("ramp_time", "runtime", "startdelay"):
            self.get(name, numbers.duration_ns, 0)
        if self.get("startdelay", numbers.duration_ns, 0):
            self.say("startdelay is without effect: a trial begins at one instant")
        counted = bool({"number_ios", "io_size"} & {*self.keys}) and not self.switch("time_based", False)
        if counted:
            self.say(
                "the load ends when its operations are done, at the latest after its time (runtime, --seconds)"
            )
        elif self.count("loops", 1) > 1:
            self.say("loops is without effect: the load goes on for its time")
        if not counted and not self.get("runtime", numbers.duration_ns, 0):
            none = "runtime=0 is none" if "runtime" in self.keys else "there is no runtime"
            self.say(f"{none}: the load goes on for --seconds, whatever size there is to move")
        elif not counted and not self.switch("time_based", False):
            self.say(
                "time_based is taken to be 1: the load goes on to the end of runtime, also when size has been moved once"
            )
        for name in ("opendir", "filename_format"):
            if name in self.keys:
                self.note(self.keys[name], "is not carried out: name the file (filename=)")
        if self.count("nice", 0):
            self.say("nice is without effect: iodyno chooses it")
        if self.switch("unlink", False):
            self.say("unlink is without effect: `iodyno disk --remove` removes a working set")

    def seed(self) -> int | None:
        """The seed of what is drawn; None: the experiment's own."""
        if "randrepeat" in self.keys and not self.switch("randrepeat", True):
            self.say("randrepeat=0: every trial has a seed of its own in any case")
        return self.count("randseed", 0) or None

    def cpus(self) -> tuple[int, ...]:
        """The CPUs that it may run on; none: all."""
        key = self.last("cpus_allowed", "cpumask")
        none: tuple[int, ...] = ()
        if key is None:
            return none
        name, read = ("cpumask", cpu_mask) if key is self.keys.get("cpumask") else ("cpus_allowed", cpus)
        return tuple(sorted(self.get(name, read, none)))

    # -- the workload `disk`

    def disk(self, engine: str, numjobs: int) -> dict[str, Any]:
        """The settings of the workload."""
        if engine not in ENGINES:
            key = self.keys.get("ioengine")
            self.note(key, unknown(engine, (*ENGINES, *FILE_ENGINES)))
            raise WrongError
        if engine in _SAID:
            self.say(_SAID[engine])
        syscalls = ENGINES[engine]
        reads = self.reads()
        settings: dict[str, Any] = {
            "syscalls": syscalls,
            **self.places(engine, numjobs),
            **self.mix(reads),
            **self.block(reads),
        }
        settings |= self.calls(syscalls) | self.durability() | self.content(reads)
        settings |= rates(self, reads, numjobs, settings.get("block", ""))
        settings |= self.pauses(settings)
        if numjobs > 1:
            settings["workers"] = numjobs
        self.random(settings, reads)
        self.random_map(settings)
        settings |= self.page_cache(settings) | self.end(settings, numjobs)
        check(self, settings)
        return settings

    def mix(self, reads: float) -> dict[str, Any]:
        """Pattern and share of reads."""
        written = self.word("rw", "read").lower()
        kind, _, more = written.partition(":")
        key = self.keys.get("rw")
        is_random, _ = PATTERNS[kind]
        pattern: dict[str, Any] = {"pattern": "random" if is_random else "sequential"}
        if more:
            if more.startswith("-") and not is_random:
                self.note(
                    key,
                    f"invalid value {found(written)}: it goes backwards and is not carried; expected {kind}",
                )
                raise WrongError
            try:
                hole = numbers.size(more, self.kb_base("rw"))
            except ValueError as problem:
                self.note(key, str(problem))
                raise WrongError from None
            if is_random and (sequencer := self.word("rw_sequencer", "sequential")) != "sequential":
                self.note(
                    self.keys["rw_sequencer"],
                    f"invalid value {found(sequencer)}: it repeats each of the random places and is not "
                    "carried; expected sequential",
                )
                raise WrongError
            if is_random:
                return {**pattern, "read": f"{reads:g}%", **({"in_order": hole} if hole > 1 else {})}
            if self.of_direction("bssplit", reads) or self.of_direction("bsrange", reads):
                self.note(
                    key,
                    f"invalid value: {found(written)} with drawn sizes, which is not carried; expected "
                    "one size (bs)",
                )
                raise WrongError
            stride = hole + self.block_bytes(reads)
            pattern = {"pattern": "strided", "stride": quantity.show("size", stride)}
            if (unit := math.gcd(stride, self.block_bytes(reads))) < self.block_bytes(reads):
                pattern["align"] = quantity.show("size", unit)
        return {**pattern, "read": f"{reads:g}%"}

    def random(self, settings: dict[str, Any], reads: float) -> None:
        """Read how random places are drawn, and how many of the operations are at one."""
        share = self.get(
            "percentage_random", lambda w: numbers.whole_percent(direction(w, reads, "100", "shares")), None
        )
        law = self.word("random_distribution", "random").lower()
        if settings["pattern"] != "random":
            for name, asked in (
                ("percentage_random", share is not None),
                ("random_distribution", law != "random"),
            ):
                if asked:
                    self.say(
                        f"{name} is without effect: rw={self.word('rw', 'read')} goes in order, as in fio"
                    )
            return None
        if share is not None and share < 100:
            settings["pattern"], settings["random"] = "sequential", f"{share:g}%"
            if "in_order" in settings:
                self.note(
                    self.keys["percentage_random"],
                    f"invalid value: {found(self.word('percentage_random'))} with rw={self.word('rw')}, "
                    "which is not carried; expected one of the two",
                )
            if law != "random":
                self.note(
                    self.keys["percentage_random"],
                    f"invalid value: {found(self.word('percentage_random'))} with "
                    f"random_distribution={law}, which is not carried; expected one of the two",
                )
            return None
        if "random_distribution" not in self.keys:
            return None
        key = self.keys["random_distribution"]
        kind, _, more = key.value.lower().partition(":")
        centre = ""
        if kind == "random":
            return None
        if kind == "zipf" and more:
            theta, _, centre = more.partition(":")
            if not re.fullmatch(r"\d(\.\d{1,6})?", theta) or not 0 < float(theta) < 5:
                return self.note(key, invalid(key.value, "zipf:THETA with 0 < THETA < 5"))
            settings["pattern"], settings["theta"] = "zipf", theta
        elif kind == "pareto" and more:
            skew, _, centre = more.partition(":")
            if not re.fullmatch(r"0?\.\d{1,6}", skew) or not 0 < float(skew) < 1:
                return self.note(key, invalid(key.value, "pareto:SKEW with 0 < SKEW < 1"))
            # fio's law is the same for SKEW and 1 - SKEW, with the frequent places at the other end.
            space = min(float(skew), 1 - float(skew)) * 100
            settings["pattern"] = "self_similar"
            settings["hot_operations"], settings["hot_space"] = f"{100 - space:g}%", f"{space:g}%"
        elif kind == "normal" and more:
            deviation, _, centre = more.partition(":")
            share = self.get("random_distribution", lambda _: numbers.percent(deviation), 0.0)
            settings["pattern"] = f"normal({share:g}%)"
        elif kind == "zoned" and more:
            none: list[tuple[float, float]] = []
            zones = self.get("random_distribution", lambda _: numbers.zones(direction(more, reads)), none)
            settings["pattern"] = (
                f"zones({', '.join(f'{space:g}%: {accesses:g}%' for accesses, space in zones)})"
            )
        else:
            self.note(
                key,
                invalid(
                    key.value, "random, zipf:THETA, pareto:SKEW, normal:DEVIATION, zoned:ACCESSES/SPACE:..."
                ),
            )
        if centre:
            self.say(
                f"random_distribution={key.value}: the centre ({centre}) is without effect: how often places are used is"
                " carried, not where they are"
            )
        return None

    def random_map(self, settings: dict[str, Any]) -> None:
        """Makes random places come once each before any comes again, where fio has a map of them and so does the engine."""
        is_random = self.word("rw", "read").lower().startswith("rand")
        if not is_random or self.switch("norandommap") or settings["pattern"] not in ("random", "sequential"):
            return
        block = settings.get("block", "")
        if (
            settings["pattern"] == "random"
            and "in_order" not in settings
            and "(" not in block
            and settings.get("align", block) == block
        ):
            settings["pattern"] = "shuffled"
        else:
            self.say("blocks are drawn with repeats, as with norandommap=1")

    def page_cache(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Read the handling of the page cache, and the advice to the kernel on the pattern."""
        if settings["target"] == "null" or settings["direct"] == "on":
            return {}
        found_settings: dict[str, Any] = {}
        if self.switch("pre_read"):
            found_settings["cached"] = "yes"
        elif self.switch("invalidate", True):
            found_settings["cached"] = "each_pass"
        hint = self.word("fadvise_hint", "1").lower()
        of_pattern = "random" if self.word("rw", "read").lower().startswith("rand") else "sequential"
        if hint not in ("0", "1", "none", of_pattern):
            self.note(
                self.keys["fadvise_hint"],
                f"invalid value: {found(hint)} with rw={self.word('rw', 'read')}, which is not "
                f"carried; expected 0, 1, {of_pattern}",
            )
        elif hint not in ("0", "none") and settings["syscalls"] != "mmap":
            found_settings["advised"] = "on"
        return found_settings

    def end(self, settings: Mapping[str, Any], numjobs: int) -> dict[str, Any]:
        """After how many operations the load ends, where the job says it."""
        count, moved = self.count("number_ios"), self.size("io_size") or 0
        if not count and not moved:
            return {}
        if self.switch("time_based"):
            said = " and ".join(name for name in ("number_ios", "io_size") if name in self.keys)
            self.say(f"{said} ends nothing: time_based goes on for its time, as in fio")
            return {}
        block = str(settings.get("block", ""))
        if "(" in block or not (each := quantity.parse("size", block)):
            if moved:
                self.note(self.keys["io_size"], "bytes of drawn sizes are not counted: use number_ios")
            return {"operations": count * numjobs} if count else {}
        size = quantity.parse("size", settings["working_set"]) if "working_set" in settings else 0
        if "filesize" in self.keys and "%" not in self.word("size", "%"):
            size = self.size("size") or size
        # Where nothing says how much is moved, a job of fio ends when it has moved its size.
        bytes_moved = moved or (size // (numjobs if settings.get("sequence") == "split" else 1))
        ends = [end for end in (count, -(-bytes_moved // each)) if end]
        return {"operations": min(ends) * max(1, self.count("loops", 1)) * numjobs}

    def of_direction(self, name: str, reads: float) -> bool:
        """Tell whether an option says something of the direction of the load: `bssplit=,4k/100` says nothing of reads."""
        return bool(self.get(name, lambda written: direction(written, reads), ""))

    def block(self, reads: float) -> dict[str, Any]:
        """The block: one size, or drawn. Places of drawn ones are multiples of the least, as in fio."""
        if self.of_direction("bssplit", reads):
            none: list[tuple[int, float]] = []
            pairs = self.get(
                "bssplit", lambda w: numbers.split(direction(w, reads), self.kb_base("bssplit")), none
            )
            weights = [(size, round(share * 100)) for size, share in pairs if share]
            if not weights:
                return {}
            mixed = ", ".join(f"{quantity.show('size', size)}: {weight}" for size, weight in weights)
            return {"block": f"mix({mixed})", **_align([size for size, _ in weights])}
        if self.of_direction("bsrange", reads):
            low, high = self.get(
                "bsrange", lambda w: size_range(direction(w, reads), self.kb_base("bsrange")), (4096, 4096)
            )
            if low >= high:
                return {"block": quantity.show("size", low)}
            align = _align([low, high])
            self.say(
                "bsrange: sizes are drawn alike from the range, and rounded up to multiples of "
                + align.get("align", "512 bytes")
            )
            # fio draws from all bytes up to the greatest size, and rounds up to multiples of the least.
            law = f"uniform({quantity.show('size', 1 if align else low)}, {quantity.show('size', high)})"
            return {"block": law, **align}
        size = self.block_bytes(reads)
        if not 512 <= size <= 1 << 30:
            self.note(self.keys.get("bs"), f"invalid value: {size} bytes; expected 512 to 1 GiB")
        return {"block": quantity.show("size", size)}

    def calls(self, syscalls: str) -> dict[str, Any]:
        """Read how calls are made: depth, direct, the ring."""
        found_settings: dict[str, Any] = {}
        depth = self.at_least_one("iodepth")
        if syscalls in _ASYNCHRONOUS:
            found_settings["queue_depth"] = depth
            if (batch := self.count("iodepth_batch_complete_min", 1)) > 1:
                found_settings["batch"] = min(batch, found_settings["queue_depth"])
        elif depth > 1:
            self.say(f"iodepth={depth} with calls that wait is 1, as in fio")
        past = self.last("direct", "buffered")
        direct = self.switch("direct") if past is self.keys.get("direct") else not self.switch("buffered")
        found_settings["direct"] = "on" if direct else "off"
        if self.count("iodepth_low", depth) < depth:
            self.note(
                self.keys["iodepth_low"],
                f"invalid value: less than iodepth={depth}, which is kept; expected {depth}",
            )
        if syscalls == "io_uring":
            registered = [self.switch(name) for name in ("fixedbufs", "registerfiles")]
            found_settings["registered"] = "on" if any(registered) else "off"
            if registered[0] != registered[1]:
                self.say("fixedbufs and registerfiles are one switch here: both on")
        for name, (engines, setting) in _OF_ENGINES.items():
            if not self.switch(name):
                continue
            if syscalls not in engines:
                self.note(
                    self.keys[name],
                    f"can only be used with the engines {_engines(engines)}",
                )
            elif setting:
                found_settings["iopoll" if (name, syscalls) == ("hipri", "io_uring") else setting] = "on"
        if "blockalign" in self.keys:
            found_settings["align"] = quantity.show("size", self.size("blockalign", 512) or 512)
        return found_settings

    def durability(self) -> dict[str, Any]:
        """Read how writes are made durable."""
        sync = self.word("sync", "none").lower()
        words = {"none": "", "0": "", "1": "o_sync", "": "o_sync", "sync": "o_sync", "dsync": "o_dsync"}
        if sync not in words:
            self.note(self.keys["sync"], unknown(sync, ("none", "0", "1", "sync", "dsync")))
        every = {name: self.count(name) for name in ("fsync", "fdatasync")}
        asked = [words.get(sync, ""), *(name for name, n in every.items() if n)]
        asked = [word for word in asked if word]
        if len(asked) > 1:
            self.note(
                self.keys.get("fsync") or self.keys.get("fdatasync"),
                f"{' and '.join(asked)} cannot be used together",
            )
        if not asked:
            return {}
        times = every.get(asked[0], 0)
        return {"sync": asked[0], **({"sync_every": times} if times > 1 else {})}

    def content(self, reads: float) -> dict[str, Any]:
        """Read the content that is written, and whether it is checked."""
        found_settings: dict[str, Any] = {}
        if self.switch("zero_buffers"):
            found_settings["content"] = "zero"
        share = self.get("buffer_compress_percentage", numbers.whole_percent, 0.0)
        if share:
            found_settings["content"] = f"compressible({share:g}%)"
        verify = self.word("verify", "0").lower()
        back = self.switch("do_verify", True)
        if verify in ("0", "none"):
            return found_settings
        if verify not in CHECKS:
            self.note(self.keys["verify"], unknown(verify, CHECKS))
        if verify == "null":
            self.say("verify=null is without effect: it checks nothing")
            return found_settings
        if verify != "crc32c":
            self.say(f"verify={verify}: each block carries a check of its own with crc32c")
        found_settings["verify"] = "read" if reads else "write"
        if reads == 100.0 or not back:
            return found_settings
        if "do_verify" in self.keys:
            self.note(
                self.keys["do_verify"],
                "invalid value: 1, which reads everything back after it was written, and is not "
                "carried; expected 0, or a mix such as rw=randrw, whose reads check what was written "
                "before them",
            )
        else:
            self.say(
                f"verify={verify}: blocks are written with their checks, and NOT read back at the end, as fio would do;"
                " a mix (rw=randrw or rw=rw) checks what it reads while it writes, and do_verify=0 is what is done here"
            )
        return found_settings

    def pauses(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Pauses after so many blocks."""
        pause_ns = self.get("thinktime", lambda w: numbers.duration_ns(w, "us"), 0)
        blocks = self.count("thinktime_blocks", 1)
        if not pause_ns:
            return {}
        if "rate" in settings:
            self.note(
                self.keys["thinktime"],
                "a pause cannot be used with a rate, which says when blocks begin",
            )
        every = {"think_every": blocks} if blocks > 1 else {}
        return {"think": quantity.show("duration", pause_ns), **every}

    def whole_files(self, engine: str, numjobs: int) -> WholeFiles:
        """Return the work of an engine that makes, asks for or removes files."""
        directory = str(Path(self.targets.target or self.word("directory") or ".").absolute())
        count = self.at_least_one("nrfiles") * numjobs
        size = self.size("filesize", self.size("size", 4096)) or 4096
        self.say(
            f"ioengine={engine}: a file program of {count} files and {numjobs} threads, which take any file"
        )
        return WholeFiles(engine, directory, count, numjobs, size)
