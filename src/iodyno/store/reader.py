"""Reads a campaign folder: what was planned, which trials are there and whole, and their rows.

Rows are queried with DuckDB in memory over the Parquet files; nothing is copied, converted or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from iodyno.core.errors import StoreError
from iodyno.store.engine import connect, listed, name
from iodyno.store.manifest import (
    background_folders,
    check_against_campaign,
    check_parts,
    folders_without_manifest,
    no_campaign,
    read_header,
    read_manifest,
    trial_folders,
)
from iodyno.store.row_checks import condition
from iodyno.store.schema import (
    BACKGROUND,
    CAMPAIGN,
    EXPERIMENT,
    MANIFEST,
    PARTS,
    part_file,
)


@dataclass(frozen=True)
class StoredTrial:
    """One folder of a trial. `invalid` says why its rows cannot be trusted; None when they can."""

    name: str
    folder: Path
    manifest: Mapping[str, Any]
    invalid: StoreError | None = None

    @property
    def counts(self) -> bool:
        """True where it finished and is whole: only such trials enter the views."""
        return self.invalid is None and self.manifest.get("status") == "finished"


@dataclass(frozen=True)
class Campaign:
    """A campaign folder as it lies on the disk.

    `header` is `campaign.json`; `background` holds the idle measurements, by name (`before`, `after`).
    """

    folder: Path
    header: Mapping[str, Any]
    experiment_text: str
    trials: tuple[StoredTrial, ...]
    background: Mapping[str, StoredTrial] = field(default_factory=dict)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection in memory.

        Views `records`, `histograms`, `series`, `sensors`, `stacks` hold the rows of all finished and whole trials,
        with the trial's name in the column `trial`; `background_records` and so on those of the idle
        measurements. Raises StoreError.
        """
        try:
            return self._database.cursor()
        except duckdb.Error as error:
            raise self._unreadable(error) from error

    @contextmanager
    def reading(self, trials: Sequence[StoredTrial] | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Such a connection; raises StoreError, which names the file, for one that its queries cannot read. Where `trials` are
        named it has no views: `sources` tells what theirs are.
        """
        with self.connect() if trials is None else self._engine.cursor() as connection:
            try:
                yield connection
            except duckdb.Error as error:
                raise self._unreadable(error) from error

    def sources(self, trials: Sequence[StoredTrial]) -> dict[str, str]:
        """The rows of these trials, part by part, as SQL that stands behind FROM."""
        return {part: f"({_rows_of(part, trials)})" for part in PARTS}

    def _unreadable(self, error: duckdb.Error) -> StoreError:
        """The error of a query as one of the first file that cannot be read: all are what their manifests say."""
        for trial in (*self.trials, *self.background.values()):
            for part in PARTS if trial.counts else ():
                file = trial.folder / part_file(part)
                try:
                    if file.name in trial.manifest["parts"]:
                        with connect() as connection:
                            rows = _rows_of(part, [trial], named=True)
                            connection.execute(f"CREATE TEMP TABLE whole AS {rows}")
                except duckdb.Error as found:
                    return _no_part(file, found)
        return _no_part(self.folder, error)

    def let_go(self) -> None:
        """Closes the column engine, and its threads with it; it is there again when it is asked for."""
        for engine in ("_engine", "_database"):
            if (open_one := self.__dict__.pop(engine, None)) is not None:
                open_one.close()

    @cached_property
    def _engine(self) -> duckdb.DuckDBPyConnection:
        return connect()

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        # Kept: views of thousands of files take their time.
        database = connect()
        for part in PARTS:
            _view(database, part, part, self.trials)
            _view(database, f"{BACKGROUND}_{part}", part, self.background.values())
        return database


def read_campaign(folder: Path | str) -> Campaign:
    """The campaign in `folder`.

    Raises StoreError when the folder is not one of a campaign, or is of a newer version. A trial, or a
    measurement of the idle machine, whose manifest or parts are damaged or gone is kept with the reason in `invalid`.
    """
    folder = Path(folder)
    if not (folder / CAMPAIGN).is_file():
        raise no_campaign(folder)
    header = read_header(folder)
    experiment = folder / EXPERIMENT
    try:
        text = experiment.read_text(encoding="utf-8") if experiment.is_file() else ""
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot be read: {error}", where=str(experiment)) from error
    gone = (
        StoredTrial(each.name, each, {}, StoreError("is not there", where=str(each / MANIFEST)))
        for each in folders_without_manifest(folder)
    )
    trials = sorted((*_trials(trial_folders(folder), header), *gone), key=lambda trial: trial.name)
    background = {trial.name: trial for trial in _trials(background_folders(folder))}
    return Campaign(folder, header, text, tuple(trials), background)


def _no_part(place: Path, error: duckdb.Error) -> StoreError:
    return StoreError(
        f"holds no rows that can be read, though it is what its manifest says: {str(error).splitlines()[0]}",
        where=str(place),
        advice="repeat the trial: remove its folder, then `iodyno run --resume`",
    )


def read_rows(
    folder: Path, parts: Iterable[str], sensors: Iterable[str] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The rows of these parts of the trial in `folder`; only those of some `sensors`, where they are named. Raises StoreError."""
    rows = {}
    chosen = "true" if sensors is None else f"list_contains({listed(sensors)}, sensor)"
    try:
        with connect() as connection:
            for part in parts:
                found = connection.execute(f"FROM ({_checked(part, [folder])}) WHERE {chosen}")
                names = [column[0] for column in found.description or ()]
                rows[part] = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    except duckdb.Error as error:
        raise StoreError(
            f"cannot be read: {error}",
            where=str(folder),
            advice="`iodyno report` says which trials are whole",
        ) from error
    return rows


def _trials(folders: Iterable[Path], header: Mapping[str, Any] | None = None) -> Iterable[StoredTrial]:
    """With `header`, trials of its design; without, of the idle machine."""
    for folder in folders:
        manifest: Mapping[str, Any] = {}
        invalid = None
        try:
            manifest = read_manifest(folder)
            if header is not None:
                check_against_campaign(folder, manifest, header)
            check_parts(folder, dict(manifest))
        except StoreError as error:
            invalid = error
        yield StoredTrial(folder.name, folder, manifest, invalid)


def _view(connection: duckdb.DuckDBPyConnection, view: str, part: str, trials: Iterable[StoredTrial]) -> None:
    connection.execute(f"CREATE VIEW {view} AS {_rows_of(part, trials)}")


def _rows_of(part: str, trials: Iterable[StoredTrial], *, named: bool = False) -> str:
    """The query for one part of the trials that count, with the trial's name; `named`: its error says which columns are wrong."""
    # A campaign of an older version lacks the parts that came later.
    folders = [
        trial.folder for trial in trials if trial.counts and part_file(part) in trial.manifest["parts"]
    ]
    if not folders:
        columns = ", ".join(f"NULL::{kind} AS {name(column)}" for column, kind in PARTS[part].items())
        return f"SELECT NULL::VARCHAR AS trial, {columns} WHERE false"
    # The folder's name is the trial's: the second part of the path from its end.
    return _checked(part, folders, "parse_path(filename)[-2] AS trial, ", named=named)


def _checked(part: str, folders: Iterable[Path], more: str = "", *, named: bool = False) -> str:
    """The query for a part in these folders, as the columns' types and with what is true of every row as its condition."""
    files = listed(str(folder / part_file(part)) for folder in folders)
    typed = ", ".join(f"{name(column)}::{kind} AS {name(column)}" for column, kind in PARTS[part].items())
    rows = f"SELECT {more}{typed} FROM read_parquet({files}, filename = true)"
    return f"SELECT * FROM ({rows}) WHERE {condition(part, named=named)}"
