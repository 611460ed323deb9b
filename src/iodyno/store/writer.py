"""Writes a trial: Parquet parts first, its manifest last, then one rename.

A reader sees a trial complete or not at all: the folder carries a `.partial-` name until every file in it,
and the folder itself, is on the disk. Nothing here interprets what it writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iodyno.core.errors import StoreError
from iodyno.store.arrays import table
from iodyno.store.schema import HISTOGRAM_LAYOUT, MANIFEST, PARTIAL, PARTS, SCHEMA_VERSION, part_file
from iodyno.store.tape import Tape

_ROWS_HELD = 16_384
"""Rows of a part held in memory before they are written (chosen: some MB; a long trial stays that small)."""
_ENTRIES_HELD = 500_000
"""Entries of its lists, above all buckets and counts of histograms, held before they are written: of those a row may have
thousands (chosen: 6 MB, which are on the disk in some 20 ms)."""
_MOST_WAITING = 16
"""Pieces that may wait for a disk that is slow (chosen: some 100 MB); with more, the lab waits for it."""
_ITEMS = {pa.int32(): "i", pa.int64(): "q"}
"""Type codes of the standard library's arrays, in which a list of whole numbers takes a seventh of its memory."""
_CODES = {
    (part, field.name): _ITEMS[field.type.value_type]
    for part, schema in PARTS.items()
    for field in schema
    if pa.types.is_list(field.type) and field.type.value_type in _ITEMS
}
_LARGEST = 2**63 - 1
_LOAD = ("bytes", "operations", "connections_active", "connections_lost")
_MORE_HISTOGRAMS = ("response_time", "lateness", "waiting", "batch")
"""What a record may count besides service times; `batch` has messages where the others have nanoseconds."""


class TrialWriter:
    """Collects the records of one trial in `parent/.partial-<name>` and seals them as `parent/<name>`.

    A thread of its own writes what is added, a piece at a time: agents hear of the lab meanwhile, also when the disk is slow.
    Raises StoreError, and removes the partial folder, when the disk cannot take it.
    """

    def __init__(self, parent: Path, name: str) -> None:
        self._final = parent / name
        self._partial = parent / f"{PARTIAL}{name}"
        self._rows: dict[str, dict[str, list[Any]]] = {}
        self._entries: dict[str, int] = {}
        self._files: dict[str, pq.ParquetWriter] = {}
        self._hand = ThreadPoolExecutor(1, "store")
        self._waiting: deque[Future[None]] = deque()
        self._tape = Tape(self._partial)
        with self._writing():
            parent.mkdir(parents=True, exist_ok=True)
            if self._partial.exists():
                shutil.rmtree(self._partial)
            self._partial.mkdir()
            for part, schema in PARTS.items():
                self._begin_piece(part)
                self._files[part] = pq.ParquetWriter(
                    self._partial / part_file(part), schema, compression="zstd", store_schema=False
                )

    def hold(self, host: str, operation: str, payload: bytes) -> None:
        """Takes a `record` message of the wire as it came, as JSON. It is added when the trial is sealed: until then its load may
        need the CPU.
        """
        with self._writing():
            self._tape.add(host, operation, payload)

    def add_record(self, host: str, operation: str, record: Mapping[str, Any]) -> None:
        """Adds a `record` message of the wire, as parsed from JSON.

        `operation` names what its service times are of: `write` at a sender, `read` at a receiver.
        """
        place = {"host": host, "index": record["index"], "window": record["window"]}
        load = record["load"]
        self._add(
            "records",
            place
            | {"begin_ns": record["begin_ns"], "end_ns": record["end_ns"]}
            | {name: load[name] for name in _LOAD},
        )
        times = load["service_time"]
        self._add(
            "histograms",
            place
            | {"operation": operation, "layout": HISTOGRAM_LAYOUT}
            | {name: times[name] for name in ("count", "sum_ns", "buckets", "counts")},
        )
        for more in _MORE_HISTOGRAMS:
            if (counted := load.get(more)) is not None:
                self._add(
                    "histograms",
                    place
                    | {"operation": more, "layout": HISTOGRAM_LAYOUT}
                    | {name: counted[name] for name in ("count", "sum_ns", "buckets", "counts")},
                )
        for one in record.get("classes") or ():
            self._add_class(place, one)
        for reading in record["sensors"]:
            self._add_reading(place, reading)

    def _add_class(self, place: Mapping[str, Any], one: Mapping[str, Any]) -> None:
        counts = {name: one[name] for name in ("bytes", "operations", "errors")}
        self._add("classes", {**place, "class": one["name"], **counts})
        for kind, key in (("io", "service_time"), ("response", "response_time")):
            if (times := one.get(key)) is not None:
                values = {name: times[name] for name in ("count", "sum_ns", "buckets", "counts")}
                row = {**place, "operation": f"{kind}.{one['name']}", "layout": HISTOGRAM_LAYOUT, **values}
                self._add("histograms", row)

    def add_profile(self, host: str, profile: Mapping[str, Any]) -> None:
        """Adds the call stacks of a `profile` message of the wire, as parsed from JSON."""
        names = [function["name"] for function in profile["functions"]]
        modules = [function["module"] for function in profile["functions"]]
        for stack in profile["stacks"]:
            row = {"host": host, "owner": stack["owner"], "mode": stack["mode"], "count": stack["count"]}
            row["functions"] = [names[index] for index in stack["frames"]]
            row["modules"] = [modules[index] for index in stack["frames"]]
            self._add("stacks", row)

    def seal(self, manifest: Mapping[str, Any]) -> Path:
        """Finishes the trial and returns its folder. Adds `parts` and `schema_version` to the manifest.

        It adds what is held and waits for the disk; may be called in another thread than the records came in.
        """
        with self._writing():
            for host, operation, payload in self._tape.play():
                self.add_record(host, operation, json.loads(payload))
            parts = {}
            for part in self._files:
                self._hand_over(part)
            self._wait(0)
            self._hand.shutdown()
            for part, file in self._files.items():
                file.close()
                path = self._partial / part_file(part)
                with path.open("rb") as written:
                    os.fsync(written.fileno())
                    digest = hashlib.file_digest(written, "sha256").hexdigest()
                rows = pq.read_metadata(path).num_rows
                parts[path.name] = {"sha256": digest, "bytes": path.stat().st_size, "rows": rows}
            self._files = {}
            complete = {"schema_version": SCHEMA_VERSION} | dict(manifest) | {"parts": parts}
            write_json_atomically(self._partial / MANIFEST, complete)
            _sync_folder(self._partial)
            self._partial.rename(self._final)
            _sync_folder(self._final.parent)
        return self._final

    def discard(self) -> None:
        """Drops everything collected. May be called at any time, also twice."""
        self._hand.shutdown(cancel_futures=True)
        self._waiting.clear()
        self._tape.close()
        files, self._files = self._files, {}
        for file in files.values():
            try:
                file.close()
            except OSError:
                continue  # a full disk must not keep the folder from being removed
        shutil.rmtree(self._partial, ignore_errors=True)

    def _add_reading(self, place: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
        when = {name: reading[name] for name in ("sensor", "read_ns", "span_ns")}
        missing = [reading["missing"]] if reading.get("missing") else []
        fit = []
        for metric, label, value in reading["values"]:
            if value > _LARGEST:
                missing.append(f"{metric}[{label}] = {value} does not fit into 63 bits")
            else:
                fit.append((metric, label, value))
        self._add_series({**place, **when}, fit)
        for one in reading.get("times") or ():
            values = {name: one["times"][name] for name in ("count", "sum_ns", "buckets", "counts")}
            named = {"operation": f"{one['metric']}[{one['label']}]", "layout": HISTOGRAM_LAYOUT}
            self._add("histograms", {**place, **named, **values})
        cost = {"cost_ns": reading["cost_ns"], "missing": "; ".join(missing) or None}
        self._add("sensors", {**place, **when, **cost})

    def _add_series(self, same: Mapping[str, Any], values: Sequence[tuple[str, str, int]]) -> None:
        """Adds a row a value, column by column: there are hundreds a record, and the lab's time is taken from a load on the
        same machine.
        """
        columns = self._rows["series"]
        for name, cell in same.items():
            columns[name] += [cell] * len(values)
        for name, cells in zip(("metric", "label", "value"), zip(*values, strict=True), strict=False):
            columns[name] += cells
        self._keep_bounded("series")

    def _add(self, part: str, row: Mapping[str, Any]) -> None:
        columns = self._rows[part]
        for name, cells in columns.items():
            cell = row[name]
            if code := _CODES.get((part, name)):
                cell = array(code, cell)
            if isinstance(cell, (array, list)):
                self._entries[part] += len(cell)
            cells.append(cell)
        self._keep_bounded(part)

    def _keep_bounded(self, part: str) -> None:
        if len(self._rows[part]["host"]) >= _ROWS_HELD or self._entries[part] >= _ENTRIES_HELD:
            with self._writing():
                self._hand_over(part)
                self._wait(_MOST_WAITING)

    def _begin_piece(self, part: str) -> None:
        self._rows[part] = {column: [] for column in PARTS[part].names}
        self._entries[part] = 0

    def _hand_over(self, part: str) -> None:
        """Has the rows held of a part written, after those before them."""
        columns = self._rows[part]
        if columns["host"]:
            self._begin_piece(part)
            self._waiting.append(self._hand.submit(self._write, part, columns))

    def _write(self, part: str, columns: dict[str, list[Any]]) -> None:
        self._files[part].write_table(table(columns, PARTS[part]))

    def _wait(self, most: int) -> None:
        """Until no more than so many pieces wait; raises what went wrong with those that are done."""
        while self._waiting and (len(self._waiting) > most or self._waiting[0].done()):
            self._waiting.popleft().result()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.discard()
            raise _cannot_write(self._final, error) from error


def write_json_atomically(path: Path, value: Any) -> None:
    """Replaces `path` by the JSON of `value`: after a crash it holds the old text or the new."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    fresh = path.with_name(f"{PARTIAL}{path.name}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def remove_partials(parent: Path) -> list[str]:
    """Removes what a killed campaign left half-written in `parent`; returns the names of those trials."""
    removed = []
    for left in sorted(parent.glob(f"{PARTIAL}*")) if parent.is_dir() else []:
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
        removed.append(left.name.removeprefix(PARTIAL))
    return removed


def _cannot_write(path: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    return StoreError(
        f"cannot be written: {reason}",
        where=str(path),
        advice="free space, then `iodyno run --resume`; finished trials are intact",
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
