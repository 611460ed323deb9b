"""Forms of what a command shows: text and markdown for people, of the same blocks; JSON of its values; CSV of its rows."""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from iodyno.core.visible import visible_line
from iodyno.report.table import Cell, Column, Table
from iodyno.report.text_table import fitted, plain

Form = Literal["text", "json", "csv", "markdown"]
FORMS: tuple[str, ...] = get_args(Form)

Row = Mapping[str, object]
"""A line of CSV: values in base units under names that have the unit."""


@dataclass(frozen=True)
class Headline:
    """An answer in a few lines: a title, and below it a label a line. Of three cells the first two are a value and its interval;
    one cell is a sentence, or numbers behind words. `heads`: what three cells are, where a table needs to say it.
    """

    title: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    heads: tuple[str, ...] = ("", "95 % interval", "")


Block = str | Table | Headline


@dataclass(frozen=True)
class Shown:
    """What a command has to show. Each part is made when a form asks for it."""

    blocks: Callable[[], Iterable[Block]]
    values: Callable[[], Any]
    rows: Callable[[], Iterable[Row]]


def written(shown: Shown, form: Form, width: int | None = None) -> str:
    """Return what is shown in the form; `width`: columns of the terminal that text is for."""
    if form == "json":
        return json_text(shown.values())
    if form == "csv":
        return csv_text(shown.rows())
    if form == "markdown":
        return "\n\n".join(filter(None, map(_markdown, shown.blocks()))) + "\n"
    return "".join(block_text(block, width) for block in shown.blocks())


def json_text(values: Any) -> str:
    """Return the values as an indented object. A NaN is a defect, and is to be seen as one."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(rows: Iterable[Row]) -> str:
    """Return a line of names and a line each row (RFC 4180, with the ends of lines of this machine).

    >>> print(csv_text([{"size": 64, "nagle": True}, {"size": 1024, "rate_per_s": 1 / 3}]), end="")
    size,nagle,rate_per_s
    64,on,
    1024,,0.3333333333333333
    """
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    out = io.StringIO()
    if not names:
        return ""
    table = csv.writer(out, lineterminator="\n")
    table.writerow(names)
    table.writerows([_csv_cell(row.get(name)) for name in names] for row in listed)
    return out.getvalue()


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Return what JSON has of one thing as a row: an estimate in columns of its value and bounds, a list of words in one.

    >>> flat({"cost_ns": {"estimate": 2.5, "low": 2.0, "high": 3.0, "n": 3}, "of": {"host": "a"}, "words": ["b", "c"]})
    {'cost_ns': 2.5, 'cost_ns_low': 2.0, 'cost_ns_high': 3.0, 'of_host': 'a', 'words': 'b, c'}
    """
    row: dict[str, object] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and "estimate" in value:
            row |= {name: value["estimate"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        elif isinstance(value, Mapping):
            row |= flat(value, f"{name}_")
        elif not isinstance(value, list | tuple):
            row[name] = value
        elif not any(isinstance(each, Mapping | list | tuple) for each in value):
            row[name] = ", ".join(map(str, value))
    return row


def block_text(block: Block, width: int | None = None) -> str:
    """Return a block as lines of text; what is wider than `width` goes on below."""
    if isinstance(block, Table):
        return f"{plain(block) if width is None else fitted(block, width)}\n"
    lines = headline_lines(block, width) if isinstance(block, Headline) else _folded(block, width)
    return "".join(f"{line}\n" for line in lines)


def headline_lines(block: Headline, width: int | None = None) -> Iterator[str]:
    """Yield the lines of an answer: numbers below each other; sentences, and numbers behind a word, begin where these do."""
    yield from _folded(visible_line(block.title), width)
    label = max((len(name) for name, _ in block.rows), default=0) + 2
    three = [cells for _, cells in block.rows if len(cells) == 3]
    value, interval = (max((len(cells[at]) for cells in three), default=0) for at in (0, 1))
    for name, cells in block.rows:
        aligned = (f"{cells[0]:>{value}}", f"{cells[1]:<{interval}}", cells[2]) if len(cells) == 3 else cells
        line = visible_line(f"  {name:<{label}}{'   '.join(aligned)}".rstrip())
        yield from _folded(line, width, indent=label + 2)


def _folded(text: str, width: int | None, indent: int | None = None) -> Iterator[str]:
    """Yield the lines of a text; one that is longer than `width` goes on in lines that begin as it does, or at `indent`."""
    for line in text.split("\n"):
        if width is None or len(line) <= width:
            yield line
            continue
        begin = len(line) - len(line.lstrip())
        # What stands in columns keeps its spaces.
        yield from textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * (begin if indent is None else indent),
            break_long_words=False,
            break_on_hyphens=False,
        )


_MARKS = re.compile(r"[\\`*<|]|(?<!\w)_|_(?!\w)")
"""Characters that GitHub would read as a mark within a line; an underscore within a word is none."""


def _markdown(block: Block) -> str:
    if isinstance(block, str):
        return "\n\n".join(filter(None, (_plain(line.strip()) for line in block.split("\n"))))
    table = _as_table(block) if isinstance(block, Headline) else block
    heads = [_plain(": ".join(filter(None, (column.group, column.title)))) for column in table.columns]
    rules = ["---:" if column.right else "---" for column in table.columns]
    lines = [heads, rules, *([_plain(cell.text) for cell in row] for row in table.rows)]
    title = f"**{_plain(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _as_table(block: Headline) -> Table:
    many = max((len(cells) for _, cells in block.rows), default=0)
    heads = ("", *(block.heads if many == 3 else [""] * many))
    rows = ((name, *cells, *[""] * (many - len(cells))) for name, cells in block.rows)
    return Table(block.title, tuple(map(Column, heads)), tuple(tuple(map(Cell, row)) for row in rows))


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\g<0>", visible_line(text))


def _csv_cell(value: object) -> object:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value
