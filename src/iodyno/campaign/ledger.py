"""Plan and catalogue of a campaign: which trials there are, and how far each has come.

SQLite with a write-ahead log, so that others may read while the campaign runs. It holds nothing that the manifests
and `campaign.json` do not hold, and can be made again from them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, Self

from iodyno.core.design import PlannedTrial, Point
from iodyno.core.errors import StoreError
from iodyno.core.limiter import Perturbation
from iodyno.store.manifest import (
    NewerError,
    background_folders,
    check_parts,
    places_of_trials,
    read_header,
    read_manifest,
    trial_folders,
)
from iodyno.store.schema import DAMAGED
from iodyno.store.writer import RESUME

FILE = "campaign.sqlite"
Status = Literal["planned", "running", "finished", "failed", "skipped"]

_TABLES = """
create table if not exists campaign (name text, created text, seed integer, design text, experiment text);
create table if not exists factor (name text primary key, levels text, together text);
create table if not exists point (id text primary key, levels text);
create table if not exists trial (
    "order" integer primary key, block integer, replicate integer, point text references point (id),
    status text check (status in ('planned', 'running', 'finished', 'failed', 'skipped')),
    attempt integer, reason text, folder text);
"""
_ENTRIES = 'select "order", status, attempt, reason, folder from trial'


@dataclass(frozen=True)
class Entry:
    """A trial in the ledger. `attempt` is the last one, 0 before the first; `reason` why that failed, or why the
    trial was skipped."""

    order: int
    status: Status
    attempt: int
    reason: str | None
    folder: str | None


class Ledger:
    """The open ledger of one campaign. Every change is on the disk when its method returns.

    `damaged`: trials and measurements of the idle machine whose files were not whole when it was opened; `beyond`: stored
    trials that are not of the design.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.damaged: dict[str, tuple[str, str]] = {}
        self.beyond: list[PlannedTrial] = []
        with self._errors():
            self._base = sqlite3.connect(self._path, isolation_level=None)
            self._base.execute("pragma journal_mode = wal")
            self._base.executescript(_TABLES)

    @classmethod
    def rebuild_from(cls, folder: Path) -> Self:
        """The ledger of the campaign in `folder`, made again from `campaign.json` and the trials.

        A trial whose files are not what its manifest says, or whose manifest is gone, is set aside in the folder `DAMAGED` of
        the campaign, and planned again: `damaged` of the ledger names it, says what is wrong and where it lies now. So is the
        background. Raises StoreError.
        """
        header = read_header(folder)
        for suffix in ("", "-wal", "-shm"):
            (folder / (FILE + suffix)).unlink(missing_ok=True)
        ledger = cls(folder)
        try:
            ledger._fill(header, folder)
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _fill(self, header: Mapping[str, Any], folder: Path) -> None:
        """Writes down the plan, and what is stored of each of its trials."""
        self.plan(header)
        known = set(self.entries())
        for place in list(places_of_trials(folder)):
            manifest = self._whole(f"trial {place.name}", place, folder / DAMAGED / place.name)
            if manifest is None:
                order, attempt = map(int, place.name.split("-"))
                self.mark(order, "planned", attempt)
                continue
            if manifest["order"] not in known:
                self.add([_planned(manifest)])
                self.beyond.append(_planned(manifest))
                known.add(manifest["order"])
            reason = manifest["reason"]
            self.mark(
                manifest["order"],
                manifest["status"],
                manifest["attempt"],
                reason=f"{reason['code']}: {reason['what']}" if reason else None,
                folder=f"trials/{manifest['trial']}",
            )
        for place in background_folders(folder):
            self._whole(f"background {place.name}", place, folder / DAMAGED / f"background-{place.name}")

    def _whole(self, name: str, place: Path, aside: Path) -> dict[str, Any] | None:
        """The manifest of what is stored there; None: it is damaged, and was set aside."""
        try:
            manifest = read_manifest(place)
            check_parts(place, manifest)
        except StoreError as error:
            if isinstance(error, NewerError) or isinstance(error.__cause__, PermissionError):
                # It may be whole; whoever can read it is to say.
                raise
            self.damaged[name] = (
                f"{error.where}: {error.what}",
                f"{DAMAGED}/{_set_aside(place, aside).name}",
            )
            return None
        return manifest

    def plan(self, campaign: Mapping[str, Any]) -> None:
        """Writes the plan down: `campaign` is the content of `campaign.json`."""
        design, experiment = campaign["design"], campaign["experiment"]
        with self._errors(), self._base:
            self._base.execute("begin")
            self._base.execute(
                "insert into campaign values (?, ?, ?, ?, ?)",
                (
                    campaign["name"],
                    campaign["created"],
                    campaign["seed"],
                    design["kind"],
                    json.dumps(experiment),
                ),
            )
            self._base.executemany(
                "insert into factor values (?, ?, ?)",
                [
                    (factor["name"], json.dumps(factor["levels"]), json.dumps(factor["together"]))
                    for factor in experiment["factors"]
                ],
            )
            self._base.executemany(
                "insert into point values (?, ?)",
                [(point["id"], json.dumps(point["levels"])) for point in design["points"]],
            )
            self._base.executemany(
                "insert into trial values (?, ?, ?, ?, 'planned', 0, null, null)",
                [
                    (trial["order"], trial["block"], trial["replicate"], trial["point"])
                    for trial in design["trials"]
                ],
            )
            self._base.execute("commit")

    def add(self, trials: Iterable[PlannedTrial]) -> None:
        """Adds trials to the plan, and their points where they are new."""
        trials = list(trials)
        with self._errors():
            self._base.executemany(
                "insert or ignore into point values (?, ?)",
                [(trial.point.id, json.dumps(dict(trial.point.levels))) for trial in trials],
            )
            self._base.executemany(
                "insert into trial values (?, ?, ?, ?, 'planned', 0, null, null)",
                [(trial.order, trial.block, trial.replicate, trial.point.id) for trial in trials],
            )

    def mark(
        self,
        order: int,
        status: Status,
        attempt: int,
        *,
        reason: str | None = None,
        folder: str | None = None,
    ) -> None:
        """Notes how far a trial has come."""
        with self._errors():
            self._base.execute(
                'update trial set status = ?, attempt = ?, reason = ?, folder = ? where "order" = ?',
                (status, attempt, reason, folder, order),
            )

    def entries(self) -> dict[int, Entry]:
        """Every trial by its order."""
        with self._errors():
            return {row[0]: Entry(*row) for row in self._base.execute(f"{_ENTRIES} order by 1")}

    def entry(self, order: int) -> Entry:
        """The trial of that order."""
        with self._errors():
            return Entry(*self._base.execute(f'{_ENTRIES} where "order" = ?', (order,)).fetchone())

    def close(self) -> None:
        """Closes the file."""
        self._base.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"the ledger cannot be used: {error}",
                where=str(self._path),
                advice=f"free space, then {RESUME}; the ledger is made again from the finished trials",
            ) from error


def manifests(folder: Path) -> Iterator[dict[str, Any]]:
    """Manifests of the trials of a campaign, by order and attempt. Raises StoreError."""
    return map(read_manifest, trial_folders(folder))


def _planned(manifest: Mapping[str, Any]) -> PlannedTrial:
    """The trial that a manifest is of, as it was asked for."""
    change = manifest.get("perturbation")
    return PlannedTrial(
        manifest["order"],
        manifest["block"],
        manifest["replicate"],
        Point(manifest["point"], manifest["levels"]),
        Perturbation(**{key: change[key] for key in Perturbation.__dataclass_fields__ if key in change})
        if change
        else None,
    )


def _set_aside(place: Path, aside: Path) -> Path:
    """Moves what is damaged there; where it lies then, which is beside what was moved earlier under that name."""
    try:
        aside.parent.mkdir(exist_ok=True)
        places = (aside.with_name(f"{aside.name}.{number}") if number > 1 else aside for number in count(1))
        return place.rename(next(each for each in places if not each.exists()))
    except OSError as error:
        raise StoreError(f"cannot be moved to {aside.parent}: {error.strerror}", where=str(place)) from error
