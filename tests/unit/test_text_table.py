"""Tables on terminals that are too narrow for them: nothing is cut, and what names a row stands beside all of its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import made_summary
import pytest

from iodyno.report.form import block_text
from iodyno.report.table import Cell, Column, Table
from iodyno.report.tables import load_tables
from iodyno.report.text_table import fitted, plain

WIDTHS = (60, 80, 100, 140)


def tables() -> Iterator[Table]:
    yield from load_tables(made_summary.summary())
    heads = ("", "count", "bytes", "bit/s", "mean", "p50", "p99", "max")
    columns = (
        Column("size"),
        Column("flowop"),
        *(Column(head, "client") for head in heads),
        *(Column(head, "server") for head in heads),
        Column("Limiter"),
    )
    row = (
        "64KiB",
        "transaction 1, 155 ms",
        *["15000 ±2600"] * 16,
        "network queue discipline of the client, or the wire",
    )
    yield Table("Wide", columns, tuple(tuple(Cell(text) for text in row) for _ in range(3)), keys=2)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("table", list(tables()), ids=lambda table: table.title)
def test_a_narrow_terminal_has_every_number_beside_its_levels(table: Table, width: int) -> None:
    text = block_text(table, width)
    title, *lines = text.splitlines()
    assert title == table.title and max(map(len, lines)) <= width
    for cell in (cell for row in table.rows for cell in row):
        # A number is never broken; a long text may go on in the next line.
        assert all(
            part in text for part in ([cell.text] if re.search(r"\d", cell.text) else cell.text.split())
        )
    for block in text.removeprefix(f"{title}\n").strip().split("\n\n"):
        head = next(line for line in block.splitlines() if table.columns[0].title in line)
        assert head.split()[: table.keys] == [column.title for column in table.columns[: table.keys]]
        for row in table.rows:
            named = r"\s+".join(re.escape(cell.text) for cell in row[: table.keys])
            assert re.search(rf"^{named}  ", block, re.MULTILINE), block


def test_a_table_that_fits_and_one_in_a_pipe_are_in_one_piece() -> None:
    for table in tables():
        assert block_text(table) == plain(table) + "\n"
        assert fitted(table, 1000) == plain(table)


def test_levels_that_leave_no_room_stand_above_the_numbers_of_their_row() -> None:
    columns = (
        Column("congestion control"),
        Column("variant"),
        Column("cycles/Kbyte", "client"),
        Column("Limiter"),
    )
    cells = ("bbr", "with a long name, and one more word", "15000 ±2600", "")
    table = Table("Deep", columns, (tuple(map(Cell, cells)),), keys=2)
    assert fitted(table, 60).splitlines() == [
        "Deep",
        "congestion control bbr, variant with a long name, and one",
        "more word",
        "  client cycles/Kbyte: 15000 ±2600",
    ]
