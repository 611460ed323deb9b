"""The tags of a profile, with their lines.

A profile is XML, but what people have is what uperf's own reader takes, and that is no XML reader: attributes
without quotes, `<?xml version=1.0?>`, `<` inside a value. So tags are taken apart here, and not by an XML parser.
There is nothing in it that grows: no document type is read, so there are no entities but the five of XML itself and
numbers of characters; nothing nests, as a tag is a value of its own; and every step takes time in proportion to its
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_NAME = r"[A-Za-z_:][\w:.-]*"
# No two repetitions of blanks stand side by side: a long run of them would be divided in every way.
_OPENING = re.compile(rf"<\s*(?P<slash>/\s*)?(?P<name>{_NAME})")
_ATTRIBUTE = re.compile(
    rf"""\s*(?P<name>{_NAME})\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>(?:[^\s"'<>/]|/(?!>))+))"""
)
_ENDING = re.compile(r"\s*(?P<slash>/\s*)?>")
_REFERENCE = re.compile(r"&(?:#(?P<decimal>[0-9]{1,7})|#x(?P<hex>[0-9A-Fa-f]{1,6})|(?P<name>\w{1,32}));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SKIPPED = {"<!--": ("-->", "comment"), "<?": ("?>", "declaration")}


class NoTagError(Exception):
    """Mistake at a line; nothing after it can be read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(frozen=True)
class Tag:
    """`<name attribute="value">`, `</name>` or `<name/>`, with names in lower case, as uperf has them.

    `lines`: where each attribute stands.
    """

    name: str
    line: int
    closes: bool = False
    empty: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def tags(text: str) -> Iterator[Tag]:
    """Every tag in order. Raises NoTagError.

    >>> [(tag.name, dict(tag.attributes)) for tag in tags('<?xml version=1.0?><flowop type=write options="size=8k"/>')]
    [('flowop', {'type': 'write', 'options': 'size=8k'})]
    """
    at, line = 0, 1
    while True:
        start = text.find("<", at)
        between = text[at : start if start >= 0 else len(text)]
        if between.strip():
            before, found = between[: len(between) - len(between.lstrip())], between.split(maxsplit=1)[0]
            where = line + before.count("\n")
            raise NoTagError(
                where, f"unexpected {_shown(found)} between the tags: expected tags and comments"
            )
        line += between.count("\n")
        if start < 0:
            return
        skipped = next((kind for kind in _SKIPPED if text.startswith(kind, start)), None)
        if skipped:
            ending, what = _SKIPPED[skipped]
            end = text.find(ending, start + len(skipped))
            if end < 0:
                raise NoTagError(line, f"the {what} that begins here does not end; expected {ending}")
            at = end + len(ending)
        elif text.startswith("<!", start):
            what = "a document type" if text[start + 2 : start + 9].upper() == "DOCTYPE" else "a declaration"
            raise NoTagError(
                line, f"unexpected {what} (<!...>): expected tags and comments; a profile needs none"
            )
        else:
            tag, at = _tag(text, start, line)
            yield tag
        line += text.count("\n", start, at)


def _tag(text: str, start: int, line: int) -> tuple[Tag, int]:
    """The tag that begins at `start`, and where it has ended."""
    opening = _OPENING.match(text, start)
    if opening is None:
        found = _shown(text[start : start + 20].split("\n")[0])
        raise NoTagError(line, f'invalid value: {found}; expected a tag such as <group nthreads="1">')
    name, at = opening["name"].lower(), opening.end()
    attributes: dict[str, str] = {}
    lines: dict[str, int] = {}
    here, counted = line, start
    while (written := _ATTRIBUTE.match(text, at)) is not None:
        here, counted = here + text.count("\n", counted, written.start("name")), written.start("name")
        key = written["name"].lower()
        if key in attributes:
            raise NoTagError(here, f"duplicate attribute {key}= in <{name}>")
        value = next(v for v in (written["double"], written["single"], written["bare"]) if v is not None)
        attributes[key], lines[key] = _resolved(value, here), here
        at = written.end()
    ending = _ENDING.match(text, at)
    if ending is None:
        here += text.count("\n", counted, at)
        rest = text[at : at + 40].strip().split("\n")[0]
        found = f"unexpected {_shown(rest)}" if rest else "the file ends"
        raise NoTagError(here, f'{found} in the tag <{name}; expected name="value", > or />')
    closes = bool(opening["slash"])
    if closes and attributes:
        raise NoTagError(line, f"unexpected attributes in </{name}>: expected none")
    return Tag(name, line, closes, bool(ending["slash"]), attributes, lines), ending.end()


def _resolved(value: str, line: int) -> str:
    """The value with its references to characters replaced, once."""

    def character(match: re.Match[str]) -> str:
        if match["name"] is not None:
            if match["name"] not in _ENTITIES:
                allowed = ", ".join(f"&{name};" for name in _ENTITIES)
                raise NoTagError(line, f"unexpected entity {match.group()}: expected {allowed}")
            return _ENTITIES[match["name"]]
        code = int(match["decimal"]) if match["decimal"] else int(match["hex"], 16)
        # What XML 1.0 calls a character (section 2.2); the others have no place in a text.
        if (
            code in (9, 10, 13)
            or 0x20 <= code <= 0xD7FF
            or 0xE000 <= code <= 0xFFFD
            or 0x10000 <= code <= 0x10FFFF
        ):
            return chr(code)
        raise NoTagError(line, f"unexpected {match.group()}: expected characters of a text")

    return _REFERENCE.sub(character, value) if "&" in value else value


def _shown(text: str) -> str:
    short = text if len(text) <= 40 else f"{text[:37]}..."
    return repr(short)
