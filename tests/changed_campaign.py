"""Campaigns that are changed and read again: for `fuzz.py`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import duckdb

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.store import engine, reader
from iodyno.store.schema import CAMPAIGN, MANIFEST, OPTIONAL, PARTS, part_file
from iodyno.store.writer import write_document

_GOLDEN = Path(__file__).parent / "golden/campaigns"
chosen = ["disk"]
"""Golden campaign that is changed: that of `disk` has rows of all parts."""


def campaign() -> Path:
    """One for this process alone."""
    folder = Path(tempfile.gettempdir()) / f"iodyno-fuzz-campaign-{os.getpid()}"
    if not folder.is_dir():
        shutil.copytree(_GOLDEN / chosen[0] / "stored", folder)
    return folder


def first_trial() -> str:
    """Folder in it."""
    return min(folder.name for folder in (campaign() / "trials").iterdir())


def of_campaign(name: str) -> Callable[[], list[bytes]]:
    """A file of it, or of its first trial."""
    return lambda: [_place(name).read_bytes()]


def _place(name: str) -> Path:
    return campaign() / name if name == CAMPAIGN else campaign() / "trials" / first_trial() / name


def document(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A document that is read by itself, from a folder that has nothing else."""

    def of(data: bytes) -> object:
        folder = Path(tempfile.gettempdir()) / f"iodyno-fuzz-folder-{os.getpid()}"
        folder.mkdir(exist_ok=True)
        _put(folder / name, data)
        return read(folder)

    return of


def _put(place: Path, data: bytes) -> None:
    """Sealed anew where it is JSON: what is behind the seal is tried, too."""
    place.write_bytes(data)
    with contextlib.suppress(ValueError, RecursionError, TypeError):
        write_document(place, dict(json.loads(data)))


def stored(name: str) -> Callable[[bytes], object]:
    """A campaign one of whose files is another, and the trial's manifest says so: read, and all that is shown of it."""

    def of(data: bytes) -> object:
        place = _place(name)
        manifest = place.with_name(MANIFEST)
        kept = {file: file.read_bytes() for file in (place, manifest) if file.is_file()}
        try:
            _put(place, data)
            if place.suffix == ".parquet":
                said = json.loads(kept[manifest])
                said["parts"][place.name] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                write_document(manifest, said)
            return analyse(read_dataset(campaign()))
        finally:
            for file, content in kept.items():
                file.write_bytes(content)

    return of


class NotWrittenError(Exception):
    """Changed values are none of the types that a part has."""


_NUMBERS = (0, 1, -1, 4607, 4608, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))


def drawn_rows(draw: random.Random, seeds: list[bytes]) -> bytes:
    """Changes to the rows of a part, as JSON: a value, a row left out or there twice, a column of another type or left out."""
    columns, rows = _columns_and_rows(seeds[0])
    changes: list[list[object]] = []
    for _ in range(1 + int(draw.expovariate(0.8))):
        row, column = draw.randrange(len(rows)), draw.randrange(len(columns))
        name, old, other = columns[column], rows[row][column], draw.choice(rows)[column]
        match draw.randrange(40):
            case 0:
                changes.append(["without", name])
            case 1:
                changes.append(
                    ["kind", name, draw.choice(("VARCHAR", "DOUBLE", "HUGEINT", "VARCHAR[]", "TINYINT"))]
                )
            case 2:
                changes.append(["drop", row])
            case 3:
                changes.append(["twice", row])
            case _:
                changes.append(["value", row, name, _drawn_value(draw, old, other)])
    return json.dumps(changes).encode()


@cache
def _columns_and_rows(seed: bytes) -> Any:
    return json.loads(seed)


def _drawn_value(draw: random.Random, old: Any, other: Any) -> object:
    if draw.random() < 0.15:
        return draw.choice((None, other))
    if isinstance(old, list):
        taken = [_drawn_value(draw, each, each) if draw.random() < 0.3 else each for each in old]
        return draw.choice((taken, taken[1:], [*taken, *taken[:1]], [], other))
    if isinstance(old, int):
        return draw.choice((*_NUMBERS, old + 1, old - 1, -old, draw.randrange(2**40), draw.getrandbits(63)))
    old, other = str(old or ""), str(other or "")
    texts = ("", old[1:], old[:-1], old + "1", f"{old}={other}", f"cpu={draw.getrandbits(40)}", "\u202e", "²")
    return draw.choice(texts)


class Rows:
    """A part of a trial with other rows. Read alone, with an engine that is kept, or with all that is shown of the campaign."""

    def __init__(self, part: str) -> None:
        self.part, self.columns = part, PARTS[part]

    @cached_property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """With the part as it was, as a table."""
        kept = engine.connect(threads=1)
        kept.execute(f"CREATE TABLE seed AS FROM {self._stored()}")
        return kept

    def _stored(self) -> str:
        return f"read_parquet({engine.quoted(str(_place(part_file(self.part))))})"

    def seeds(self) -> list[bytes]:
        """Its columns and rows."""
        rows = self.engine.execute("FROM seed").fetchall()
        return [json.dumps([list(self.columns), rows]).encode()]

    def write(self, data: bytes, file: Path) -> None:
        """Writes the part with these changes."""
        taken = {column: engine.name(column) for column in self.columns}
        table = "SELECT rowid, * FROM seed"
        gone, twice = "true", ""
        for what, *how in json.loads(data):
            match what:
                case "without":
                    taken.pop(how[0], None)
                case "kind" if how[0] in taken:
                    taken[how[0]] = f"({taken[how[0]]})::{how[1]}"
                case "drop":
                    gone += f" AND rowid <> {how[0]}"
                case "twice":
                    twice += f" UNION ALL {table} WHERE rowid = {how[0]}"
                case "value" if how[1] in taken:
                    row, column, value = how
                    taken[column] = f"CASE rowid WHEN {row} THEN {_literal(value)} ELSE {taken[column]} END"
        rows = ", ".join(f"{value} AS {engine.name(column)}" for column, value in taken.items())
        try:
            self.engine.execute(
                f"COPY (SELECT {rows} FROM ({table} WHERE {gone}{twice})) TO {engine.quoted(str(file))} (FORMAT parquet)"
            )
        except duckdb.Error as error:
            raise NotWrittenError(str(error)) from error

    def alone(self, data: bytes) -> object:
        """What the reader of campaigns makes of this part."""
        found = _of_one_part(self.part)
        self.write(data, _place(part_file(self.part)))
        with found.reading(found.trials) as connection:
            return connection.execute(f"FROM {found.sources(found.trials)[self.part]}").fetchall()

    def whole(self, data: bytes) -> object:
        """All that is shown of the campaign."""
        with tempfile.NamedTemporaryFile() as file:
            self.write(data, Path(file.name))
            return stored(part_file(self.part))(Path(file.name).read_bytes())


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return "NULL" if value is None else engine.quoted(value) if isinstance(value, str) else str(value)


@cache
def _of_one_part(part: str) -> reader.Campaign:
    """With this part of its first trial alone."""
    found = reader.read_campaign(campaign())
    # An engine for each query takes ten times as long as the query.
    kept = engine.connect(threads=1)
    reader.connect = kept.cursor  # type: ignore[attr-defined]
    first, file = found.trials[0], part_file(part)
    manifest = {**first.manifest, "parts": {file: first.manifest["parts"][file]}}
    return replace(found, trials=(replace(first, manifest=manifest),), background={})


PARTS_CHANGED = [Rows(part) for part in PARTS if part not in OPTIONAL]
