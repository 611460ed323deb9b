"""YAML as nodes that know their line.

Read from the event stream of ruamel.yaml and nothing more: no tags, no aliases, no objects. A scalar without
quotes is resolved by the core schema of YAML 1.2 (`on` and `off` stay words). `${NAME}` and
`${NAME:-otherwise}` in a scalar are replaced from the environment; `$${` is a plain `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from iodyno.core.invalid import invalid, shortened
from iodyno.formats.mistakes import Mistake, Path, dotted

MAX_BYTES = 2**20
MAX_DEPTH = 16
MAX_NODES = 20_000
MAX_SCALAR = 2**17
"""Chosen: far above any experiment (a profile is a scalar), and low enough that a file made to hurt is refused within seconds."""

Scalar = None | bool | int | float | str

_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, Scalar] = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML 1.2.2 forbids (section 5.1, c-printable)."""
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_]\w*)(?::-(?P<otherwise>[^{}]*))?\})?")


@dataclass
class Node:
    """A value of the file with its line, counted from 1."""

    line: int
    value: Scalar | list[Node] | dict[str, Node]
    key_lines: dict[str, int] = field(default_factory=dict)

    def plain(self) -> Any:
        """The value without lines: dict, list, str, int, float, bool or None."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def line_of(self, path: Path) -> int:
        """The line of the key or list entry at `path`, or of the last part of it that is in the file."""
        node, line = self, self.line
        for step in path:
            if isinstance(node.value, dict) and step in node.value:
                line = node.key_lines[str(step)]
                node = node.value[str(step)]
            elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.line
            else:
                break
        return line


class NotYamlError(Exception):
    """The text cannot be read at all; holds the one mistake that says why."""

    def __init__(self, line: int, text: str, path: str = "") -> None:
        super().__init__(text)
        self.mistake = Mistake(line, path, text)


def decode(raw: bytes) -> str:
    """The file as text. Raises NotYamlError for anything that no editor would have written."""
    if len(raw) > MAX_BYTES:
        raise NotYamlError(1, f"{len(raw)} bytes: expected {MAX_BYTES} (1 MiB) at most")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise NotYamlError(line, f"invalid byte 0x{raw[error.start]:02x}: expected text in UTF-8") from None
    if (match := _UNPRINTABLE.search(text)) is not None:
        line = text.count("\n", 0, match.start()) + 1
        raise NotYamlError(line, f"unexpected character U+{ord(match.group()):04X}: expected printable text")
    return text


def read(text: str, environment: Mapping[str, str]) -> tuple[Node, list[Mistake]]:
    """The document's top node, and the mistakes that leave it readable (duplicate keys, unset variables).

    Raises NotYamlError when there is no document to speak of.
    """
    reader = _Reader(environment)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reader.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context or "cannot be read").split())
        spaces = "; expected spaces" if r"\t" in problem or "tab" in problem else ""
        line = min(mark.line, text.count("\n")) + 1 if mark else 1
        raise NotYamlError(line, f"not YAML: {shortened(problem)}{spaces}") from None
    except YAMLError as error:
        raise NotYamlError(1, f"not YAML: {shortened(str(error).splitlines()[0])}") from None
    except (
        ValueError,
        OverflowError,
        IndexError,
    ) as error:  # ruamel.yaml on impossible escapes and directives
        raise NotYamlError(1, f"not YAML: {shortened(str(error))}") from None
    if reader.top is None:
        raise NotYamlError(1, "empty file: expected an experiment")
    return reader.top, reader.mistakes


class _Reader:
    """Builds the nodes from events, with a stack of its own: depth costs no recursion."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.mistakes: list[Mistake] = []
        self.top: Node | None = None
        self.open: list[_Open] = []
        self.count = 0

    def take(self, event: Event) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent):
            if self.top is not None:
                raise NotYamlError(line, "unexpected second document: expected one experiment in a file")
        elif isinstance(event, AliasEvent):
            raise NotYamlError(
                line, f"unexpected alias *{shortened(event.anchor)}: expected the value itself", self.path()
            )
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            self.open.pop()
        elif isinstance(event, NodeEvent):
            self.node(event, line)

    def node(self, event: NodeEvent, line: int) -> None:
        self.count += 1
        if self.count > MAX_NODES:
            raise NotYamlError(line, f"more than {MAX_NODES} values: expected {MAX_NODES} at most")
        parent = self.open[-1] if self.open else None
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise NotYamlError(
                line, f"unexpected tag {shortened(str(tag))}: expected values without tags", self.path()
            )
        if parent is not None and isinstance(parent.node.value, dict) and parent.key is None:
            if not isinstance(event, ScalarEvent):
                raise NotYamlError(line, "invalid key (a list or a mapping): expected a word", self.path())
            self.key(parent, event.value, line)
            return
        if isinstance(event, CollectionStartEvent):
            if len(self.open) >= MAX_DEPTH:
                raise NotYamlError(
                    line, f"more than {MAX_DEPTH} levels of nesting: expected {MAX_DEPTH} at most"
                )
            node = Node(line, {} if isinstance(event, MappingStartEvent) else [])
            self.place(parent, node)
            self.open.append(_Open(node))
        elif isinstance(event, ScalarEvent):
            path = self.path()
            if len(event.value) > MAX_SCALAR:
                text = f"a text of {len(event.value)} characters: expected {MAX_SCALAR} at most"
                raise NotYamlError(line, text, path)
            text = self.substituted(event.value, line, path)
            self.place(parent, Node(line, text if event.style else resolved(text)))

    def key(self, parent: _Open, key: str, line: int) -> None:
        parent.key = key
        if key in parent.node.key_lines:
            first = parent.node.key_lines[key]
            text = f"duplicate key, first in line {first}"
            self.mistakes.append(Mistake(line, self.path(), text))
            parent.duplicate = True
        else:
            parent.node.key_lines[key] = line

    def place(self, parent: _Open | None, node: Node) -> None:
        if parent is None:
            self.top = node
        elif isinstance(parent.node.value, list):
            parent.node.value.append(node)
        elif isinstance(parent.node.value, dict):
            if not parent.duplicate:
                parent.node.value[str(parent.key)] = node
            parent.duplicate, parent.key, parent.last = False, None, parent.key

    def path(self) -> str:
        """Return the path of the next value."""
        steps: list[str | int] = []
        for entry in self.open:
            if isinstance(entry.node.value, list):
                # Collections are placed when they open: all but the innermost are already counted.
                steps.append(len(entry.node.value) - (entry is not self.open[-1]))
            elif entry.key is not None or entry.last is not None:
                steps.append(str(entry.key if entry.key is not None else entry.last))
        return dotted(steps)

    def substituted(self, text: str, line: int, path: str) -> str:
        """The text with its variables replaced; the first that cannot be is noted."""
        wrong: list[str] = []

        def value(match: re.Match[str]) -> str:
            if match.group() == "$${":
                return "${"
            name, otherwise = match["name"], match["otherwise"]
            if name is None:
                written = shortened(text[match.start() : match.start() + 100])
                wrong.append(invalid(written, "${NAME} or ${NAME:-value}"))
            elif name in self.environment:
                return self.environment[name]
            elif otherwise is not None:
                return otherwise
            else:
                unset = f"the environment variable {shortened(name)} is not set"
                wrong.append(f"{unset}: expected a value for it, or ${{{shortened(name)}:-value}}")
            return match.group()

        replaced = _VARIABLE.sub(value, text) if "${" in text else text
        self.mistakes += [Mistake(line, path, sentence) for sentence in wrong[:1]]
        return replaced


@dataclass
class _Open:
    """A collection that has begun and not ended; `key` waits for its value, `last` had one."""

    node: Node
    key: str | None = None
    duplicate: bool = False
    last: str | None = None


def resolved(text: str) -> Scalar:
    """A scalar without quotes, by the core schema (YAML 1.2.2, 10.3.2); a number too long stays text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 40:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
