"""`iodyno paths`: what iodyno can make between hosts and under loads on this machine, and why it cannot make the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from iodyno.cli.form import format_option, show
from iodyno.core.path import PATHS
from iodyno.core.volume import FILE_SYSTEMS, VOLUMES
from iodyno.report.form import Block, Form, Row, Shown
from iodyno.report.table import Cell, Column, Table


@click.command(name="paths")
@format_option()
def command(form: Form) -> None:
    """Show the levels of `path`, `volume` and `file_system`, and which of them this machine can have.

    An experiment that asks for another one skips its points and says so.

    \b
    Examples:
      iodyno paths
      iodyno paths --json
    """
    from iodyno.paths.volumes import file_system, table
    from iodyno.session.path_levels import unavailable

    paths = _levels("path", PATHS, unavailable)
    volumes = _levels("volume", VOLUMES, table.unavailable)
    file_systems = _levels("file_system", FILE_SYSTEMS, file_system.unavailable)
    shown = Shown(
        blocks=lambda: [
            *_table("path: between two hosts", "path", paths),
            *_table("volume: under a load on storage", "volume", volumes),
            *_table("file_system: of each client, on a volume", "file_system", file_systems),
        ],
        values=lambda: {"paths": paths, "volumes": volumes, "file_systems": file_systems},
        rows=lambda: (
            {
                "kind": kind,
                "level": each[kind],
                **{name: each[name] for name in ("help", "available", "reason")},
            }
            for kind, levels in (("path", paths), ("volume", volumes), ("file_system", file_systems))
            for each in levels
        ),
    )
    show(shown, form)


def _levels(kind: str, levels: Mapping[str, str], why: Callable[[str], str | None]) -> list[Row]:
    return [
        {kind: level, "help": text, "available": (reason := why(level)) is None, "reason": reason}
        for level, text in levels.items()
    ]


def _table(title: str, kind: str, levels: Sequence[Row]) -> Iterator[Block]:
    """Yield the levels, and below them why some are not here: each reason once."""
    columns = tuple(map(Column, (kind, "here", "what it is")))
    rows = [
        tuple(map(Cell, (str(each[kind]), "yes" if each["available"] else "no", str(each["help"]))))
        for each in levels
    ]
    yield Table(title, columns, tuple(rows))
    lacking: dict[str, list[str]] = {}
    for each in levels:
        if not each["available"]:
            lacking.setdefault(str(each["reason"]), []).append(str(each[kind]))
    if lacking:
        yield "".join(f"no {', '.join(names)}: {reason}\n" for reason, names in lacking.items())
