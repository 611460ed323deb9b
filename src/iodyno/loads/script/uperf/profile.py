"""A profile read: its tags become a script, its mistakes one error, what is not as in uperf notes.

What uperf takes and XML does not is read as uperf reads it: an element that is not closed ends where the next one of
its kind begins. That is said, because it may not be what was meant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import found, invalid
from iodyno.formats.given_file import head_of, read_given
from iodyno.formats.mistakes import Mistake, error, nearest, unknown
from iodyno.loads.script.core.flowops import ALIASES, FLOWOPS, OPTIONS, FlowopKind, Option
from iodyno.loads.script.core.values import (
    Amount,
    Flowop,
    Group,
    OptionKind,
    Script,
    Transaction,
    Uniform,
    Value,
    Variable,
)
from iodyno.loads.script.uperf.tags import NoTagError, Tag, tags
from iodyno.loads.script.uperf.values import read_value

MAY_BE_RANDOM = ("size",)
"""Options whose sizes may be drawn for each message."""

MAX_BYTES = 1 << 20
"""Largest profile. Chosen: a hundred times the largest that is known."""

MAX_FLOWOPS = 10_000
MAX_OPTIONS = 100
MAX_GROUPS = 1024
MAX_THREADS = 60_000
"""Most threads of a group: what one address pair and one port can carry."""
MAX_ITERATIONS = 2**62
MAX_RATE = 10**7
LEAST_WINDOW_BYTES = 1024
"""Smallest window that a workload of iodyno may ask for; less is below the kernel's own least (socket(7))."""
MAX_DURATION_NS = 7 * 24 * 3600 * 10**9

NEVER_MADE = (
    "iterations=0: never made, as in uperf, and not counted in the numbers of the transactions after it"
)
NOTHING_MADE = "iterations=0 in every transaction of the group; expected one that is made"

_MAX_MISTAKES = 100
_LEVELS = ("profile", "group", "transaction", "flowop")
_ATTRIBUTES = {
    "profile": ("name",),
    "group": ("nthreads", "nprocs", "name"),
    "transaction": ("iterations", "duration", "rate", "name"),
    "flowop": ("type", "options", "name"),
}
_VARIABLE = re.compile(r"\$(?:(?P<bare>[A-Za-z_]\w{0,63})|\{(?P<braced>[A-Za-z_]\w{0,63})\})")
_ENCODING = re.compile(
    rb"""\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*["']?(?P<name>[A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)
# What Windows has more than ISO-8859-1 are signs in the place of control characters, which no text holds.
_CODECS = {"iso-8859-1": "cp1252", "iso-8859-15": "iso-8859-15", "windows-1252": "cp1252"}
"""Encodings beside UTF-8, by the name that XML has for them."""
_DIVIDED = re.compile(r"[,;][A-Za-z_]+=")
_LETTER = re.compile(r"[A-Za-z]")
# `k = v` and `rand(1, 2)` hold blanks, on which options are split otherwise.
_OPTION = re.compile(r"(?P<key>[^\s=]+)(?:\s*=\s*(?P<value>rand\s*\([^)]*\)|[^\s=]\S*)?)?", re.IGNORECASE)


@dataclass(frozen=True)
class Profile:
    """A profile: the script with its variables, what is not as in uperf, and the text that it was read from."""

    script: Script
    text: str
    file: str
    notes: tuple[str, ...] = ()


def is_profile(path: str | os.PathLike[str]) -> bool:
    """Tell whether the file is XML: by its content, or by its name where it has none. False when it cannot be read, which whoever
    reads it will say.
    """
    # Of UTF-16 too, with its marks and zeros: it is no encoding of a profile, which whoever reads it as one says.
    begin = head_of(path).replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1]
    return begin == b"<" or (not begin and Path(path).is_file() and Path(path).suffix.lower() == ".xml")


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """The profile in the file. Raises ExperimentError."""
    try:
        raw = read_given(path, MAX_BYTES)
    except OSError as problem:
        raise ExperimentError(
            f"cannot be read: {problem.strerror}",
            where=str(path),
            advice="name a profile of uperf, an XML file",
        ) from None
    return parse_profile(raw, file=str(path))


def parse_profile(text: str | bytes, *, file: str = "profile.xml") -> Profile:
    """The profile in the text, which errors call `file`. Raises ExperimentError with every mistake."""
    reading = _Reading(file)
    decoded = reading.decoded(text)
    reading.read(decoded)
    if reading.mistakes or reading.profile is None:
        raise error(file, reading.mistakes, "docs/guides/uperf.md lists every flowop and option")
    return Profile(reading.script, decoded, file, tuple(reading.notes()))


def script_of(text: str) -> tuple[Script | None, list[Mistake]]:
    """The script of a profile that is part of another file; None, and its mistakes, when it has any."""
    reading = _Reading("the profile")
    try:
        reading.read(reading.decoded(text))
    except ExperimentError as problem:
        return None, reading.mistakes or [Mistake(1, "", problem.what)]
    return (None if reading.mistakes else reading.script), reading.mistakes


@dataclass
class _Open:
    """An element that has begun and not ended."""

    tag: Tag
    fields: dict[str, Any]
    children: list[Any]
    mistakes: int = 0
    """Number of mistakes found before it."""


class _Reading:
    """One pass over the tags. Mistakes are collected, so that a file is corrected at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        self.profile: str | None = None
        self.groups: list[Group] = []
        self.open: list[_Open] = []
        self.flowops = 0
        self.unknown: list[str] = []
        self.refused: list[str] = []
        self.said: dict[str, dict[int, None]] = {}

    @property
    def script(self) -> Script:
        """Script that was read."""
        return Script(self.profile or "", tuple(self.groups))

    def read(self, text: str) -> None:
        """All of the text; mistakes are noted."""
        try:
            for tag in tags(text):
                self.take(tag)
            self.end(1 + text.count("\n"))
        except NoTagError as problem:
            self.note(problem.line, "", problem.text)

    def decoded(self, text: str | bytes) -> str:
        """The text of the file. Raises ExperimentError."""
        if isinstance(text, str):
            text = text.encode("utf-8", errors="surrogatepass")
        if len(text) > MAX_BYTES:
            self.fail(1, f"the file is larger than {MAX_BYTES >> 20} MiB; expected a profile of that size")
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self.fail(1, "the file is in UTF-16; expected UTF-8")
        text = text.removeprefix(b"\xef\xbb\xbf")
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as problem:
            # Only here: text in one of the others is next to never UTF-8 by chance, and what is UTF-8 often names another.
            decoded = self.in_named_encoding(text) or self.fail_at(text, problem, "UTF-8")
        for character in ("\x00", "\x1b"):
            if character in decoded:
                line = 1 + decoded[: decoded.index(character)].count("\n")
                self.fail(line, f"unexpected character {character!r}: expected text")
        if not decoded.strip():
            self.fail(1, "the file is empty; expected <profile> with its groups")
        return decoded.replace("\r\n", "\n").replace("\r", "\n")

    def in_named_encoding(self, text: bytes) -> str | None:
        """The text in the encoding that its `<?xml ...?>` names; None: it names none that is known. Raises ExperimentError."""
        named = _ENCODING.match(text)
        name = named["name"].decode().lower() if named else ""
        if name not in _CODECS:
            return None
        try:
            return text.decode(_CODECS[name])
        except UnicodeDecodeError as problem:
            self.fail_at(text, problem, name)

    def fail_at(self, text: bytes, problem: UnicodeDecodeError, encoding: str) -> NoReturn:
        """Ends the reading at a byte that is no text."""
        line = 1 + text[: problem.start].count(b"\n")
        allowed = f"text in UTF-8, or in what <?xml encoding=...?> names: {', '.join(_CODECS)}"
        self.fail(line, f"the byte 0x{text[problem.start]:02x} is no {encoding}; expected {allowed}")

    def fail(self, line: int, text: str) -> NoReturn:
        """Ends the reading."""
        self.mistakes.append(Mistake(line, "", text))
        raise error(self.file, self.mistakes)

    def note(self, line: int, place: str, text: str) -> None:
        """Notes a mistake; too many end the reading, for the rest would not be read either."""
        self.mistakes.append(Mistake(line, place, text))
        if len(self.mistakes) > _MAX_MISTAKES:
            raise error(self.file, self.mistakes)

    def say(self, text: str, line: int) -> None:
        """Notes something that is not as in uperf, or not as in XML, once with all its lines."""
        self.said.setdefault(text, {})[line] = None

    def notes(self) -> Iterable[str]:
        """Yield the notes, with their lines."""
        for text, lines in self.said.items():
            shown = ", ".join(map(str, list(lines)[:5])) + (", ..." if len(lines) > 5 else "")
            yield f"{self.file}:{shown}: {text}"

    def place(self) -> str:
        """Return the place of the reading, as a path of the file: `group 1, transaction 2`."""
        counts = [len(self.groups), *(len(entry.children) for entry in self.open[1:])]
        named = [f"{entry.tag.name} {count + 1}" for entry, count in zip(self.open[1:], counts, strict=False)]
        return ", ".join(named)

    def take(self, tag: Tag) -> None:
        """The next tag."""
        if tag.name not in _LEVELS:
            if tag.closes:
                if tag.name in self.unknown:
                    return self.unknown.remove(tag.name)
            elif not tag.empty:
                self.unknown.append(tag.name)
            return self.note(tag.line, self.place(), unknown(tag.name, _LEVELS, "tag"))
        return self.close(tag) if tag.closes else self.begin(tag)

    def begin(self, tag: Tag) -> None:
        """`<name ...>`."""
        level = _LEVELS.index(tag.name)
        # One that is refused ends where one of its level begins, as any that is not closed.
        self.refused = [name for name in self.refused if _LEVELS.index(name) < level]
        if self.refused:
            # Within what is refused: it is said once.
            return None if tag.empty else self.refused.append(tag.name)
        if level == 0 and (self.open or self.profile is not None):
            return self.refuse(tag, "", "unexpected second <profile>: expected one in a file")
        if len(self.open) < level:
            text = f"unexpected <{tag.name}> outside of a <{_LEVELS[level - 1]}>: expected within one"
            return self.refuse(tag, self.place(), text)
        if tag.name == "group" and len(self.open) == level + 1 and not self.open[level].children:
            # It is not what was forgotten to be closed: nothing is in it. Its end is that of a tag nobody knows.
            outer = self.open[level].tag
            self.unknown.append(tag.name)
            text = f"unexpected <group> within the <group> of line {outer.line}: expected groups one after the other"
            return self.note(tag.line, self.place(), text)
        while len(self.open) > level:
            unclosed = self.open[-1].tag
            if unclosed.name != "flowop":
                self.say(
                    f"<{unclosed.name}> is not closed, and taken to end at the next tag of its kind",
                    unclosed.line,
                )
            self.finish()
        before = len(self.mistakes)
        self.open.append(_Open(tag, self.fields(tag), [], before))
        if tag.empty:
            self.finish()
        return None

    def refuse(self, tag: Tag, place: str, text: str) -> None:
        """Notes that an element has no place there, with all that is in it."""
        if not tag.empty:
            self.refused.append(tag.name)
        self.note(tag.line, place, text)

    def close(self, tag: Tag) -> None:
        """`</name>`."""
        if tag.name in self.refused:
            del self.refused[self.refused.index(tag.name) :]
            return None
        names = [entry.tag.name for entry in self.open]
        if tag.name not in names:
            if tag.name in self.unknown:
                return self.unknown.remove(tag.name)
            # A flowop that a tag after it has ended already. An end too many of what a profile is made of is nothing to uperf.
            if tag.name in ("profile", "group", "transaction"):
                self.say(f"</{tag.name}> ends nothing, and is left out", tag.line)
            elif tag.name != "flowop":
                self.note(tag.line, self.place(), f"unexpected </{tag.name}>, which nothing opens")
            return None
        while self.open[-1].tag.name != tag.name:
            unclosed = self.open[-1].tag
            if unclosed.name != "flowop":
                self.say(
                    f"<{unclosed.name}> is not closed, and taken to end with the {tag.name}", unclosed.line
                )
            self.finish()
        self.finish()
        return None

    def end(self, line: int) -> None:
        """The end of the file."""
        if self.open:
            last = self.open[-1].tag
            self.note(line, self.place(), f"the file ends within the <{last.name}> of line {last.line}")
        elif self.profile is None and not self.mistakes:
            self.note(line, "", "missing <profile>: expected <profile> with its groups")
        elif not self.groups and not self.mistakes:
            self.note(line, "", "a profile without a group: expected <group nthreads=...>")

    def finish(self) -> None:
        """The innermost element has ended: it becomes a value in the one around it."""
        entry = self.open.pop()
        tag, fields, place = entry.tag, entry.fields, self.place()
        if tag.name == "profile":
            self.profile = str(fields.get("name") or "profile")
        elif tag.name == "group":
            made = self.made(entry.children)
            if not entry.children and len(self.mistakes) > entry.mistakes:
                pass  # what should be in it is wrong, which is said
            elif not entry.children:
                self.note(tag.line, place, "a group without a transaction: expected <transaction>")
            elif not made:
                self.note(tag.line, place, NOTHING_MADE)
            name = str(fields.get("name") or f"group {len(self.groups) + 1}")
            self.groups.append(Group(name, fields["threads"], made, fields["processes"], tag.line))
            if len(self.groups) > MAX_GROUPS:
                self.fail(tag.line, f"more than {MAX_GROUPS} groups: expected {MAX_GROUPS} at most")
        elif tag.name == "transaction":
            rate = fields["rate"]
            for flowop in entry.children:
                if (own := flowop.options.pop("rate", None)) is not None:
                    if rate is not None and rate != own:
                        self.note(
                            flowop.line,
                            place,
                            "duplicate rate=, other than that of the transaction; expected one",
                        )
                    rate = own
            transaction = Transaction(
                tuple(entry.children), fields["iterations"], fields["duration_ns"], rate, tag.line
            )
            if not entry.children:
                self.say("a transaction without a flowop does nothing", tag.line)
            self.open[-1].children.append(transaction)
        elif fields.get("kind"):
            self.open[-1].children.append(Flowop(fields["kind"], fields["options"], tag.line))

    def made(self, transactions: Sequence[Transaction]) -> tuple[Transaction, ...]:
        """Those of a group that are made at all. That one is left out is said where others have another number for it."""
        made = tuple(transaction for transaction in transactions if transaction.iterations != 0)
        for number, transaction in enumerate(transactions, start=1):
            if transaction.iterations == 0 and any(after.iterations != 0 for after in transactions[number:]):
                self.say(NEVER_MADE, transaction.line)
        return made

    def fields(self, tag: Tag) -> dict[str, Any]:
        """Read the attributes of a tag."""
        for name in tag.attributes:
            if name not in _ATTRIBUTES[tag.name]:
                allowed = _ATTRIBUTES[tag.name]
                text = f"unknown attribute {name}: expected {', '.join(allowed)}{nearest(name, allowed)}"
                self.note(tag.lines[name], self.inner(tag), text)
        reader = {"group": self.group, "transaction": self.transaction, "flowop": self.flowop}.get(tag.name)
        named = {"name": tag.attributes.get("name", "").strip()[:64]}
        return named | (reader(tag) if reader else {})

    def group(self, tag: Tag) -> dict[str, Any]:
        """Threads, and whether they are processes."""
        asked = [name for name in tag.attributes if name in ("nthreads", "nprocs")]
        if not asked:
            self.say("a group without nthreads or nprocs has one thread", tag.line)
            return {"threads": 1, "processes": False}
        if len(asked) > 1:
            self.say(
                f"nthreads and nprocs are both given: as in uperf, the last counts, {asked[-1]}", tag.line
            )
        name = asked[-1]
        return {
            "threads": self.amount(tag, name, "count", 1, MAX_THREADS),
            "processes": name == "nprocs",
        }

    def transaction(self, tag: Tag) -> dict[str, Any]:
        """Read how often or how long, and how many a second."""
        iterations = self.amount(tag, "iterations", "count", 0, MAX_ITERATIONS)
        duration_ns = self.amount(tag, "duration", "duration", 1, MAX_DURATION_NS)
        if iterations is not None and duration_ns is not None:
            self.say("iterations and duration are both given: as in uperf, the duration counts", tag.line)
            iterations = None
        if iterations is None and duration_ns is None:
            iterations = 1
        rate = self.amount(tag, "rate", "count", 0, MAX_RATE)
        return {"iterations": iterations, "duration_ns": duration_ns, "rate": rate or None}

    def flowop(self, tag: Tag) -> dict[str, Any]:
        """Read the kind of a flowop, and its options."""
        self.flowops += 1
        if self.flowops > MAX_FLOWOPS:
            self.fail(tag.line, f"more than {MAX_FLOWOPS} flowops: expected {MAX_FLOWOPS} at most")
        here = self.inner(tag)
        if "type" not in tag.attributes:
            self.note(tag.line, here, f"missing type=: expected {', '.join(FLOWOPS)}")
            return {}
        written = tag.attributes["type"].strip()
        kind = FLOWOPS.get(written.lower())
        if kind is None:
            self.note(tag.lines["type"], here, unknown(written, FLOWOPS, "flowop"))
            return {}
        if kind.note:
            self.say(f"{kind.name}: {kind.note}", tag.line)
        before = len(self.mistakes)
        options = self.options(tag, kind)
        if len(self.mistakes) == before:
            self.check_options(kind, options, tag.line, f"{here} ({kind.name})")
        return {"kind": kind.name, "options": options}

    def check_options(self, kind: FlowopKind, options: Mapping[str, Value], line: int, place: str) -> None:
        """Note the options that a flowop lacks, and say what their absence means."""
        if "size" in kind.options and "size" not in options and "dir" not in kind.options:
            self.note(line, place, "missing option size: expected bytes of a message")
        if "dir" in kind.options and "dir" not in options:
            self.note(line, place, "missing option dir: expected a folder with files")
        if kind.name == "think" and "duration" not in options:
            self.say("a think without a duration takes no time, as in uperf", line)
        if "busy" in options and "idle" in options:
            self.say("busy and idle are both given: as in uperf, busy counts", line)
        if kind.name == "sendfilev" and "nfiles" not in options:
            self.say("a sendfilev without nfiles sends one file", line)
        if kind.name == "connect" and "remotehost" not in options:
            self.say(
                "connect names no remotehost and takes the host that receives, of several the first", line
            )
        if "protocol" in kind.options and "protocol" not in options:
            self.say(f"{kind.name} names no protocol and takes tcp", line)
        window = options.get("wndsz")
        if isinstance(window, int) and window < LEAST_WINDOW_BYTES:
            least = (
                "asks for no size"
                if window == 0
                else "is less than any buffer of the kernel, which takes its least"
            )
            self.say(f"wndsz={window} {least}, as in uperf", line)

    def options(self, tag: Tag, kind: FlowopKind) -> dict[str, Value]:
        """The options of a flowop; what has no meaning for it is said and left out."""
        place = f"{self.inner(tag)} ({kind.name})"
        text = tag.attributes.get("options", "")
        options: dict[str, Value] = {}
        for number, match in enumerate(_OPTION.finditer(text), start=1):
            line = tag.lines["options"] + text[: match.start()].count("\n")
            if number > MAX_OPTIONS:
                self.fail(
                    line, f"more than {MAX_OPTIONS} options in a flowop: expected {MAX_OPTIONS} at most"
                )
            if not _LETTER.match(match["key"]):
                # `isalpha` in `flowop_parse_options` of uperf's src/parse.c: no other word is looked at.
                self.say(f"{found(match.group())} begins with no letter: skipped, as in uperf", line)
                continue
            written, value = match["key"], match["value"]
            if (value or written).endswith((",", ";")):
                # Of a number, uperf reads no more than its unit (`str2shift` of src/numbers.c).
                self.say(
                    "options are divided by blanks: what stands after one to divide them is skipped", line
                )
                written, value = written.rstrip(",;"), value.rstrip(",;") if value else value
            if value and _DIVIDED.search(value):
                split = re.sub(r"[,;]\s*(?=[A-Za-z_]+=)", " ", f"{written}={value}")
                self.note(line, place, invalid(match.group(), f"options divided by blanks: {split}"))
                continue
            name = ALIASES.get(written.lower(), written.lower())
            if name == "rate" and value:
                options["rate"] = self.value(value, "count", line, f"{place}: rate", 1, MAX_RATE)
                self.say("rate= of a flowop is taken as that of its transaction", line)
                continue
            option = OPTIONS.get(name)
            if option is None:
                words = [*OPTIONS, "rate"]
                few = [name for name in kind.options if not name.startswith("sctp_")]
                shown = nearest(name, words) or f": expected {', '.join(few) or 'none'}"
                self.note(line, place, f"unknown option {found(match.group())}{shown}")
                continue
            if name not in kind.options:
                self.say(f"{name}= has no meaning for {kind.name}, as in uperf", line)
            elif option.meaning in ("other", "ignored") and option.kind != "host":
                self.say(f"{name}: {option.note}", line)
            if (option.kind == "flag") != (value is None and "=" not in match.group()):
                allowed = f"{name} alone" if option.kind == "flag" else f"{name}=VALUE"
                self.note(line, place, invalid(match.group(), allowed))
                continue
            if value is None and option.kind != "flag":
                self.note(line, place, invalid(match.group(), f"{name}=VALUE"))
                continue
            if name in options:
                self.say(f"{name}= is given twice: as in uperf, the last counts", line)
            read = 1 if option.kind == "flag" else self.option(value, option, line, f"{place}: {name}")
            if name in kind.options:
                options[name] = read
        return options

    def option(self, written: str, option: Option, line: int, place: str) -> Value:
        """The value of an option."""
        value = self.value(written, option.kind, line, place, option.low, option.high)
        if isinstance(value, Uniform) and option.name not in MAY_BE_RANDOM:
            self.note(line, place, invalid(written, "one size"))
        return value

    def amount(self, tag: Tag, name: str, kind: OptionKind, low: int, high: int) -> Amount | None:
        """The number in an attribute; None when it is not there."""
        if name not in tag.attributes:
            return None
        value = self.value(
            tag.attributes[name].strip(), kind, tag.lines[name], f"{self.inner(tag)}: {name}", low, high
        )
        assert isinstance(value, (int, Variable))
        return value

    def value(self, written: str, kind: OptionKind, line: int, place: str, low: int, high: int) -> Value:
        """A value of any kind, or the variable that stands for it; `low` when it is wrong, which is noted."""
        variable = _VARIABLE.fullmatch(written)
        if variable is not None:
            return Variable(variable["bare"] or variable["braced"], kind, line)
        try:
            if "$" in written and (kind not in ("text", "host") or written.startswith("$")):
                raise ValueError(invalid(written, "a value, or a variable such as $h for all of it"))
            if kind == "duration" and re.fullmatch(r"[\d.]+\s*(m|min)", written, re.IGNORECASE):
                self.say(f"{written} is {written.rstrip('inIN')}s, milliseconds, as in uperf", line)
            return read_value(written, kind, low, high)
        except ValueError as problem:
            self.note(line, place, str(problem))
            return max(low, 1)

    def inner(self, tag: Tag) -> str:
        """The place of the element that begins with the tag."""
        level = _LEVELS.index(tag.name)
        counts = [len(self.groups), *(len(entry.children) for entry in self.open[1:level])]
        named = [f"{name} {count + 1}" for name, count in zip(_LEVELS[1 : level + 1], counts, strict=False)]
        return ", ".join(named)
