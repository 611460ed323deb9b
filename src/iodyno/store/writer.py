"""Writes a trial: Parquet parts first, its manifest last, then one rename.

A reader sees a trial complete or not at all: the folder carries a `.partial-` name until every file in it,
and the folder itself, is on the disk. Nothing here interprets what it writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iodyno.core.errors import StoreError
from iodyno.store.files import sync_folder, write_file
from iodyno.store.schema import MANIFEST, PARTIAL, SCHEMA_VERSION, part_file
from iodyno.store.seal import sealed
from iodyno.store.spool import Spool

JOURNAL, BEGUN = "records.jsonl", "begun.json"
"""Files of a trial with a journal until it is sealed: its records as they came, and its manifest as far as it is known."""
RESUME = "`iodyno run --resume`"
"""Command with which a campaign goes on, in the words of who does not know by which command it was begun."""


class TrialWriter:
    """Collects what the agents say of one trial in `parent/.partial-<name>` and seals it as `parent/<name>`.

    Raises StoreError, and removes the partial folder, when the disk cannot take it. With `begun`, the manifest as far as it is
    known, a lab that is killed leaves what `recover` seals.
    """

    def __init__(self, parent: Path, name: str, begun: Mapping[str, Any] | None = None) -> None:
        self._final = parent / name
        self._partial = parent / f"{PARTIAL}{name}"
        self._records = Spool(self._partial, kept=JOURNAL) if begun else Spool(self._partial)
        self._stacks = Spool(self._partial)
        self._metrics = Spool(self._partial)
        with self._writing():
            parent.mkdir(parents=True, exist_ok=True)
            _remove(self._partial)
            self._partial.mkdir()
            if begun:
                write_file(self._partial / BEGUN, json.dumps(begun).encode())

    def add_record(self, host: str, operation: str, payload: bytes) -> None:
        """Takes a `record` message of the wire as it came, as JSON. It is taken apart when the trial is sealed: until then its
        load may need the CPU.

        `operation` names what its service times are of: `write` at a sender, `read` at a receiver.
        """
        names = json.dumps({"host": host, "operation": operation})[:-1].encode()
        with self._writing():
            self._records.add(b'%s, "record": %s}' % (names, payload))

    def add_lines(self, lines: Iterable[bytes]) -> None:
        """Takes records as they stand in a journal."""
        with self._writing():
            for line in lines:
                self._records.add(line)

    def add_profile(self, host: str, profile: Mapping[str, Any]) -> None:
        """Adds the call stacks of a `profile` message of the wire, as parsed from JSON."""
        names = [function["name"] for function in profile["functions"]]
        modules = [function["module"] for function in profile["functions"]]
        with self._writing():
            for stack in profile["stacks"]:
                row = {"host": host, "owner": stack["owner"], "mode": stack["mode"], "count": stack["count"]}
                row["functions"] = [names[index] for index in stack["frames"]]
                row["modules"] = [modules[index] for index in stack["frames"]]
                self._stacks.add(json.dumps(row).encode())

    def add_metric(self, row: Mapping[str, Any]) -> None:
        """Adds a reading of a metric that another program holds, with the columns of that part."""
        with self._writing():
            self._metrics.add(json.dumps(row, allow_nan=False).encode())

    def seal(self, manifest: Mapping[str, Any]) -> Path:
        """Finishes the trial and returns its folder. Adds `parts` and `schema_version` to the manifest.

        It takes the records apart and waits for the disk; may be called in another thread than the records came in.
        """
        # Imported here: nothing of the engine is needed before a trial is over.
        from iodyno.store.rows import write_parts

        with self._writing():
            rows = write_parts(self._partial, *(each.files() for each in self._spools))
            self._close()
            for left in (JOURNAL, BEGUN):
                (self._partial / left).unlink(missing_ok=True)
            files = [self._partial / part_file(part) for part in rows]
            # Side by side: a disk takes all of them in the time of one.
            with ThreadPoolExecutor(len(files), "store") as hands:
                digests = list(hands.map(_on_disk, files))
            parts = {
                file.name: {"sha256": digest, "bytes": file.stat().st_size, "rows": rows[part]}
                for part, file, digest in zip(rows, files, digests, strict=True)
            }
            complete = {"schema_version": SCHEMA_VERSION} | dict(manifest) | {"parts": parts}
            # It also puts the folder on the disk, with the names of all files in it.
            write_document(self._partial / MANIFEST, complete)
            self._partial.rename(self._final)
            sync_folder(self._final.parent)
        return self._final

    def discard(self) -> None:
        """Drops everything collected. May be called at any time, also twice."""
        self._close()
        shutil.rmtree(self._partial, ignore_errors=True)

    def _close(self) -> None:
        for spool in self._spools:
            spool.close()

    @property
    def _spools(self) -> tuple[Spool, ...]:
        return self._records, self._stacks, self._metrics

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.discard()
            raise _cannot_write(self._final, error) from error


def recover(parent: Path, sealable: Callable[[dict[str, Any], int], Mapping[str, Any]]) -> list[Path]:
    """Seals what a killed lab left of trials with a journal; returns their folders. `sealable` makes the manifest out of what was
    known when the trial began and the number of its records. Raises StoreError.
    """
    found = []
    for partial in sorted(parent.glob(f"{PARTIAL}*")):
        try:
            begun = json.loads((partial / BEGUN).read_bytes())
            lines = (partial / JOURNAL).read_bytes()
        except (OSError, ValueError):
            continue  # one without a journal, or killed before its first record
        # The last line may be cut where the lab was.
        whole = lines[: lines.rfind(b"\n") + 1].splitlines()
        if not whole:
            continue
        writer = TrialWriter(parent, partial.name.removeprefix(PARTIAL), begun)
        writer.add_lines(whole)
        found.append(writer.seal(sealable(begun, len(whole))))
    return found


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a `campaign.json` or `manifest.json`, with its seal. Raises StoreError."""
    write_json_atomically(path, sealed(document))


def write_json_atomically(path: Path, value: Any) -> None:
    """Replaces `path` by the JSON of `value`: after a crash it holds the old text or the new."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise _cannot_write(path, error) from error


def remove_partials(parent: Path) -> list[str]:
    """Removes what a killed campaign left half-written in `parent`; returns the names of those trials."""
    removed = []
    for left in sorted(parent.glob(f"{PARTIAL}*")) if parent.is_dir() else []:
        _remove(left)
        removed.append(left.name.removeprefix(PARTIAL))
    return removed


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _on_disk(path: Path) -> str:
    """The SHA-256 of a file that is on the disk from now on."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return digest


def _cannot_write(path: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    return StoreError(
        f"cannot be written: {reason}",
        where=str(path),
        advice=f"free space, then {RESUME}; finished trials are intact",
    )
