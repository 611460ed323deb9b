"""A table as aligned text: on one line a row, or below each other where a terminal is too narrow for that."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from iodyno.core.visible import visible_line
from iodyno.report.table import Table

_GAP = "  "
_TEXT_LEAST = 20
"""Characters that a column of words needs to be readable (chosen)."""


_WORDS_LEAST = 30
"""Characters that a last column of words needs to stand beside all others (chosen)."""


def plain(table: Table) -> str:
    """The table as aligned columns of text, hosts above their columns."""
    table = _visible(table)
    return "\n".join([*_title(table), *_lines(table, range(len(table.columns)))]) + "\n"


def fitted(table: Table, width: int) -> str:
    """The same for a terminal of that width. A table that is wider goes on below, in blocks that each repeat the columns that
    name a row; nothing is cut. Where these leave no room for another column, each row is a block.
    """
    table = _visible(table)
    every = range(len(table.columns))
    if _width(_lines(table, every)) <= width:
        return plain(table)
    words = width - _width(_lines(table, every[:-1])) - len(_GAP)
    if words >= _WORDS_LEAST and len(every) > 1:
        # A last column of words goes on in lines of its own.
        return "\n".join([*_title(table), *_lines(table, every, words, last=True)]) + "\n"
    keys = range(table.keys)
    room = width - _width(_lines(table, keys)) - len(_GAP) if keys else width
    blocks = list(_blocks(table, width))
    if room < max([_TEXT_LEAST, *map(_unbroken, _columns(table, every[table.keys :]))]):
        return "\n".join([*_title(table), *_stacked(table, width)]) + "\n"
    texts = ["\n".join(_lines(table, [*keys, *block], room)) for block in blocks]
    return "\n".join([*_title(table), "\n\n".join(texts)]) + "\n"


def _title(table: Table) -> list[str]:
    return [table.title] if table.title else []


def _visible(table: Table) -> Table:
    """The table with nothing in its texts that is not as wide as it is long."""
    columns = tuple(
        replace(each, title=visible_line(each.title), group=visible_line(each.group))
        for each in table.columns
    )
    rows = tuple(tuple(replace(cell, text=visible_line(cell.text)) for cell in row) for row in table.rows)
    return replace(table, title=visible_line(table.title), columns=columns, rows=rows)


def _blocks(table: Table, width: int) -> Iterator[list[int]]:
    """Columns that stand beside each other. Those of one host, or of none, stay together where they can."""
    keys, others = range(table.keys), range(table.keys, len(table.columns))

    def fits(columns: Sequence[int]) -> bool:
        return _width(_lines(table, [*keys, *columns])) <= width

    block: list[int] = []
    for group, columns in groupby(others, key=lambda column: table.columns[column].group):
        together = list(columns)
        whole = fits(together)
        for place, part in enumerate([together] if whole else [[column] for column in together]):
            # What does not fit whole begins a block: its first column may say what the others are of.
            if block and (not fits([*block, *part]) or (group and not whole and place == 0)):
                yield block
                block = []
            block += part
    yield block


def _columns(table: Table, columns: Sequence[int]) -> Iterator[list[str]]:
    for column in columns:
        yield [table.columns[column].title, *(row[column].text for row in table.rows)]


def _unbroken(texts: Sequence[str]) -> int:
    """Width of the longest word, or number with its interval and unit: a short text is never broken."""
    return max(
        len(text) if len(text) <= _TEXT_LEAST else max(map(len, text.split()), default=0) for text in texts
    )


def _lines(table: Table, columns: Sequence[int], room: int = 0, *, last: bool = False) -> list[str]:
    """These columns aligned; texts that are longer than `room`, if that is given, go on in the next line; `last`: those of the
    last column alone.
    """
    groups = [table.columns[column].group for column in columns]
    # A host's name stands above the first of its columns only.
    above = ["" if place and group == groups[place - 1] else group for place, group in enumerate(groups)]
    rows = [[table.columns[column].title for column in columns]]
    rows += [[row[column].text for column in columns] for row in table.rows]
    lines = [above] if any(above) else []
    for row in rows:
        cells = [
            textwrap.wrap(text, room)
            if room and len(text) > room and (not last or place == len(row) - 1)
            else [text]
            for place, text in enumerate(row)
        ]
        deep = max(map(len, cells), default=0)
        lines += [[cell[line] if line < len(cell) else "" for cell in cells] for line in range(deep)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    right = [table.columns[column].right for column in columns]
    padded = (
        _GAP.join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        )
        for line in lines
    )
    return [line.rstrip() for line in padded]


def _stacked(table: Table, width: int) -> Iterator[str]:
    """A block for each row: what names it, and a line for each of its numbers."""
    heads = [f"{column.group} {column.title}".strip() for column in table.columns]
    for row in table.rows:
        named = ", ".join(f"{heads[n]} {row[n].text}".strip() for n in range(table.keys) if row[n].text)
        yield from textwrap.wrap(named, width, break_long_words=False)
        for head, cell in list(zip(heads, row, strict=True))[table.keys :]:
            if cell.text:
                yield from textwrap.wrap(
                    f"{head}: {cell.text}",
                    width,
                    initial_indent="  ",
                    subsequent_indent="    ",
                    break_long_words=False,
                )


def _width(lines: Sequence[str]) -> int:
    return max(map(len, lines), default=0)
