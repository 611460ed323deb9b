"""A job file of fio as sections: keys with their lines, `[global]` ones given to the jobs after them.

Included files, `${NAME}` of the environment, and the words $jobname, $pagesize, $ncpus and $mb_memory are put in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import found, invalid
from iodyno.formats.given_file import head_of, read_given
from iodyno.formats.mistakes import Mistake, error, listed, nearest
from iodyno.loads.disk.fio.numbers import computed

MAX_BYTES = 1 << 20
MAX_JOBS = 1000
_MAX_INCLUDES = 16
_OF_DIRECTIONS = ("bs", "bsrange", "blockalign", "rate", "rate_iops", "percentage_random")
"""Options with a value for each direction, of which one may be left empty."""
_KEYWORDS = ("jobname", "jobnum", "clientuid", "pagesize", "ncpus", "mb_memory", "filenum")


@dataclass(frozen=True)
class Key:
    """Value written under a key, and its place."""

    name: str
    value: str
    file: str
    line: int

    def mistake(self, text: str) -> ExperimentError:
        """The error about it."""
        return ExperimentError(
            f"{self.name}: {text}",
            where=f"{self.file}:{self.line}",
            advice="docs/guides/fio.md lists the options",
        )


@dataclass(frozen=True)
class Section:
    """A job: its keys, in the order in which they were given, the last of each name counting; files add up."""

    name: str
    file: str
    line: int
    keys: Mapping[str, Key] = field(default_factory=dict)
    inherited: Mapping[str, Key] = field(default_factory=dict)
    """Those that it began with: what [global] had before it."""
    label: str = ""
    """Its name, which no other has: jobs of one name are numbered from the second one on."""


def is_job_file(path: str | os.PathLike[str]) -> bool:
    """Tell whether the file holds jobs of fio: by its suffix, or by a first line in square brackets that YAML would not have."""
    file = Path(path)
    if file.suffix.lower() in (".fio", ".job"):
        return True
    if file.suffix.lower() not in (".ini", ""):
        return False
    head = head_of(file).decode("utf-8", errors="replace")
    first = next(
        (line.strip() for line in head.splitlines() if line.strip() and line.lstrip()[0] not in "#;"), ""
    )
    return re.fullmatch(r"\[[^\],]+\]", first) is not None


def read_sections(
    path: str | os.PathLike[str],
    environment: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> list[Section]:
    """The jobs of the file. Raises ExperimentError with file and line."""
    file = Path(path)
    return parse_sections(_content(file, str(path)), file=str(path), environment=environment, aliases=aliases)


def parse_sections(
    text: str | bytes,
    *,
    file: str = "job.fio",
    environment: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> list[Section]:
    """The jobs in the text, which errors call `file`. Raises ExperimentError with file and line."""
    reading = _Reading(os.environ if environment is None else environment, aliases or {})
    reading.read(text, file, 0)
    if reading.mistakes:
        raise error(file, reading.mistakes, "docs/guides/fio.md shows what a job file may hold")
    if not reading.jobs:
        raise ExperimentError(
            "missing job: expected a section such as [job1]",
            where=file,
            advice="docs/guides/fio.md shows job files",
        )
    labels = _labels([job.name for job in reading.jobs])
    jobs = [replace(job, label=label) for job, label in zip(reading.jobs, labels, strict=True)]
    if mistakes := _waits(jobs):
        raise error(file, mistakes, "docs/guides/fio.md shows what a job file may hold")
    return jobs


def _labels(names: Sequence[str]) -> list[str]:
    """The names, each once."""
    labels: list[str] = []
    for name in names:
        label, number = name, 1
        while label in labels or (number > 1 and label in names):
            number += 1
            label = f"{name}-{number}"
        labels.append(label)
    return labels


def _waits(jobs: Sequence[Section]) -> list[Mistake]:
    """List the mistakes of jobs that wait for others: fio lets them wait for one that stands before them."""
    mistakes = []
    for number, job in enumerate(jobs):
        key = job.keys.get("wait_for")
        before = [other.name for other in jobs[:number]]
        if key is None or before.count(key.value) == 1:
            continue
        if key.value in before:
            why = "the name of several jobs"
        elif key.value == job.name:
            why = "this job itself"
        elif any(other.name == key.value for other in jobs):
            why = "a job that comes after this one"
        else:
            why = "no job of this file"
        once = [name for name in before if before.count(name) == 1]
        allowed = f"a job before this one: {listed(key.value, once)}" if once else "none, it is the first job"
        text = f"invalid value {found(key.value)}: {why}; expected {allowed}{nearest(key.value, once)}"
        mistakes.append(Mistake(key.line, f"[{job.label}] wait_for", text))
    return mistakes


class _Reading:
    """All files of a job file."""

    def __init__(self, environment: Mapping[str, str], aliases: Mapping[str, str]) -> None:
        self.environment = environment
        self.aliases = aliases
        self.globals: dict[str, Key] = {}
        self.jobs: list[Section] = []
        self.open: dict[str, Key] | None = None
        self.mistakes: list[Mistake] = []
        self.includes = 0

    def read(self, text: str | bytes, file: str, depth: int) -> None:
        """One file."""
        for number, line in enumerate(_decoded(text, file).splitlines(), start=1):
            stripped = line.strip()
            if stripped.startswith("["):
                self.section(stripped, file, number)
                continue
            # A comment needs no blank before it: fio cuts there also within a value.
            stripped = re.split("[#;]", stripped, maxsplit=1)[0].strip()
            if not stripped:
                continue
            if re.match(r"include\s+\S", stripped):
                self.include(stripped.split(None, 1)[1].strip(), file, number, depth)
            elif self.open is None:
                text_ = f"unexpected {found(stripped)} before the first section: expected [global] or [NAME]"
                self.mistakes.append(Mistake(number, "", text_))
                return
            else:
                self.key(stripped, file, number)

    def section(self, written: str, file: str, line: int) -> None:
        """`[name]`."""
        match = re.fullmatch(r"\[([^\]]*)\]\s*(?:[#;].*)?", written)
        name = match[1].strip() if match else ""
        if not name:
            self.mistakes.append(Mistake(line, "", invalid(written, "a name in brackets, such as [job1]")))
            self.open = {}
            return
        if name.startswith("global"):  # as fio compares it: [global_reads] is no job
            self.open = self.globals
            return
        keys = dict(self.globals)
        self.open = keys
        self.jobs.append(Section(name, file, line, keys, dict(self.globals)))
        if len(self.jobs) > MAX_JOBS:
            raise ExperimentError(
                f"more than {MAX_JOBS} jobs: expected {MAX_JOBS} at most", where=f"{file}:{line}"
            )

    def key(self, written: str, file: str, line: int) -> None:
        """`name=value`, or a name alone."""
        name, equals, value = (part.strip() for part in written.partition("="))
        name = name.lower().replace("-", "_")
        assert self.open is not None
        known = self.aliases.get(name, name)
        past = self.open.pop(known, None)
        job = self.jobs[-1].name if self.jobs and self.open is self.jobs[-1].keys else ""
        value = self.put_in(value, job, line)
        if equals and not value:
            self.mistakes.append(Mistake(line, name, "missing value after ="))
        if past is not None and known == "filename":
            value = f"{past.value}:{value}"  # each one adds to those before it
        elif past is not None and known in _OF_DIRECTIONS:
            value = _filled(value, past.value)
        self.open[known] = Key(name, value, file, line)

    def put_in(self, value: str, job: str, line: int) -> str:
        """The value with what `${NAME}` and words such as $jobname stand for."""

        def outside(match: re.Match[str]) -> str:
            if match[1] not in self.environment:
                self.mistakes.append(
                    Mistake(
                        line,
                        "",
                        f"${{{match[1]}}} is not in the environment; expected {match[1]}=... before the command",
                    )
                )
                return "1"
            return self.environment[match[1]]

        def word(match: re.Match[str]) -> str:
            if match[1] == "jobname" and job:
                return job
            here = {
                "pagesize": lambda: os.sysconf("SC_PAGE_SIZE"),
                "ncpus": lambda: os.cpu_count() or 1,
                "mb_memory": lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
            }
            return str(here[match[1]]()) if match[1] in here else match[0]

        value = re.sub(r"\$\{(\w+)\}", outside, value)
        put_in = re.sub(rf"\$({'|'.join(_KEYWORDS)})\b", word, value)
        if put_in == value or not re.fullmatch(r"[\d+*/()-]*[+*/-][\d+*/()-]*", put_in):
            return put_in
        # fio has `bc` compute what such a word stands in.
        try:
            return str(int(computed(put_in, int)))
        except ValueError:
            return put_in

    def include(self, name: str, file: str, line: int, depth: int) -> None:
        """`include FILE`, beside the file that includes it."""
        self.includes += 1
        if depth >= _MAX_INCLUDES or self.includes > 10 * _MAX_INCLUDES:
            raise ExperimentError(
                f"include {name}: more than {_MAX_INCLUDES} files within each other", where=f"{file}:{line}"
            )
        path = Path(file).parent / name
        self.read(_content(path, f"{file}:{line}"), str(path), depth + 1)


def _filled(value: str, past: str) -> str:
    """Values for reads and for writes, of which one that is left empty stays what it was.

    >>> _filled(",8k", "16k"), _filled("8k,", "4k,2k"), _filled("8k", "4k")
    ('16k,8k', '8k,2k', '8k')
    """
    parts, before = value.split(","), past.split(",")
    if len(parts) == 1:
        return value
    pairs = zip(parts[:2], (before[0], before[min(1, len(before) - 1)]), strict=True)
    return ",".join(part.strip() or old for part, old in pairs)


def _content(path: Path, where: str) -> bytes:
    advice = "name a job file of fio"
    try:
        return read_given(path, MAX_BYTES)
    except OSError as problem:
        shown = "" if where == str(path) else f"{path} "
        text = f"{shown}cannot be read: {problem.strerror}"
        raise ExperimentError(text, where=where, advice=advice) from None


def _decoded(text: str | bytes, file: str) -> str:
    raw = text.encode("utf-8", errors="surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        raise ExperimentError(
            f"is larger than {MAX_BYTES >> 20} MiB; expected a job file of that size", where=file
        )
    try:
        decoded = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as problem:
        line = 1 + raw[: problem.start].count(b"\n")
        raise ExperimentError(
            f"the byte 0x{raw[problem.start]:02x} is no UTF-8; expected text", where=f"{file}:{line}"
        ) from None
    for character in ("\x00", "\x1b"):
        if character in decoded:
            line = 1 + decoded[: decoded.index(character)].count("\n")
            raise ExperimentError(
                f"unexpected character {character!r}: expected text", where=f"{file}:{line}"
            )
    if not decoded.strip():
        raise ExperimentError("the file is empty; expected a section such as [job1]", where=file)
    return decoded
