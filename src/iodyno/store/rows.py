"""Rows of a trial's parts, taken by SQL out of its `record` messages and call stacks as JSON, and written as Parquet.

DuckDB reads the lines once for each part, only the keys that the part needs, a buffer at a time: memory is bounded however
long the trial was, and Python sees no row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import duckdb

from iodyno.store.engine import connect, listed, name, quoted
from iodyno.store.schema import HISTOGRAM_LAYOUT, OPTIONAL, PARTS, part_file

_LONGEST_LINE_BYTES = (16 << 20) + (64 << 10)
"""A message of the longest that the wire carries, with what stands around it here; twice that is the engine's buffer."""
_MEMORY = "1GB"
"""Most memory of the engine (chosen: it takes some 200 MB; a part is rather refused than the machine's memory used up)."""
_TOGETHER = "16MB"
"""Rows of a part that are encoded together (chosen: a histogram may have thousands of buckets, and its row is as wide)."""

_TIMES = "STRUCT(count BIGINT, sum_ns BIGINT, buckets INTEGER[], counts BIGINT[])"
_MORE_HISTOGRAMS = ("response_time", "lateness", "waiting", "batch")
"""Histograms of a record besides service times; `batch` has messages where the others have nanoseconds."""
_READ = "sensor VARCHAR, read_ns BIGINT, span_ns BIGINT"
# Each is [metric, label, number]: as texts, of which the last is a number that fits or does not.
_VALUES = '"values" VARCHAR[][]'
_FITS = "(try_cast(one[3] AS BIGINT) IS NOT NULL)"
_PLACE = 'host, "index", "window"'
_READINGS = f"SELECT {_PLACE}, unnest(record.sensors) AS reading FROM records"


def write_parts(
    folder: Path, records: Sequence[str], stacks: Sequence[str], metrics: Sequence[str] = ()
) -> dict[str, int]:
    """Writes every part of a trial into `folder`, and gives the rows of each; of one that is optional only where it has any.

    `records` are files with an object a line: `host`, `operation` (what its service times are of) and `record`, a message of
    the wire; those of `stacks` and `metrics` have the columns of that part. Raises OSError when the disk cannot take the parts,
    or a line is not what is written here.
    """
    rows = {}
    try:
        with _engine().cursor() as engine:
            as_they_are = {"stacks": stacks, "metrics": metrics}
            for part, columns in PARTS.items():
                if part in OPTIONAL and not as_they_are[part]:
                    continue
                lines = as_they_are.get(part)
                whole = f"({_query(part, records) if lines is None else f'FROM {_lines(lines, columns)}'})"
                typed = ", ".join(
                    f"{name(column)}::{kind} AS {name(column)}" for column, kind in columns.items()
                )
                engine.execute(
                    f"COPY (SELECT {typed} FROM {whole}) TO {quoted(str(folder / part_file(part)))} "
                    f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE_BYTES '{_TOGETHER}')"
                )
                rows[part] = int((engine.fetchone() or (0,))[0])
    except duckdb.Error as error:
        _engine.cache_clear()
        raise _as_of_the_system(error) from error
    return rows


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One for all trials of the process: to make it takes longer than to write the parts of a short trial.

    One thread: the agents of the hosts may be on this machine, and go on.
    """
    return connect(threads=1, memory_limit=_MEMORY)


def _as_of_the_system(error: duckdb.Error) -> OSError:
    """The error as the system gave it, where it did."""
    if known := re.search(r'"errno":"(\d+)"', str(error)):
        number = int(known[1])
        return OSError(number, os.strerror(number))
    return OSError(str(error).splitlines()[0])


def _query(part: str, records: Sequence[str]) -> str:
    keys, rows = _OF_RECORDS[part]
    columns = {
        "host": "VARCHAR",
        "operation": "VARCHAR",
        "record": f'STRUCT("index" INTEGER, "window" VARCHAR, {keys})',
    }
    return f"""
        WITH records AS (
            SELECT host, operation, record, record."index" AS "index", record."window" AS "window"
            FROM {_lines(records, columns)}
        )
        {rows}"""


def _lines(files: Sequence[str], columns: Mapping[str, str]) -> str:
    """The objects of files, with these keys, as a table of SQL."""
    if not files:
        nothing = ", ".join(f"NULL::{kind} AS {name(column)}" for column, kind in columns.items())
        return f"(SELECT {nothing} WHERE false)"
    typed = ", ".join(f"{name(column)}: {quoted(kind)}" for column, kind in columns.items())
    return (
        f"read_json({listed(files)}, format = 'newline_delimited', columns = {{{typed}}}, "
        f"maximum_object_size = {_LONGEST_LINE_BYTES})"
    )


_RECORDS = f"""
    SELECT {_PLACE}, record.begin_ns AS begin_ns, record.end_ns AS end_ns, record.load.bytes AS bytes,
        record.load.operations AS operations, record.load.connections_active AS connections_active,
        record.load.connections_lost AS connections_lost
    FROM records"""
_CLASSES = f"""
    SELECT {_PLACE}, one.name AS "class", one.bytes AS bytes, one.operations AS operations, one.errors AS errors
    FROM (SELECT {_PLACE}, unnest(record.classes) AS one FROM records)"""
# One after the other: those of the load, of its classes, of sensors.
_HISTOGRAMS = f"""
    SELECT {_PLACE}, one.operation AS operation, '{HISTOGRAM_LAYOUT}' AS layout,
        one.times.count AS count, one.times.sum_ns AS sum_ns, one.times.buckets AS buckets, one.times.counts AS counts
    FROM (
        SELECT {_PLACE}, unnest(list_concat(
            [
                {{operation: operation, times: record.load.service_time}},
                {", ".join(f"{{operation: '{more}', times: record.load.{more}}}" for more in _MORE_HISTOGRAMS)}
            ],
            flatten(list_transform(coalesce(record.classes, []), lambda one: [
                {{operation: 'io.' || one.name, times: one.service_time}},
                {{operation: 'response.' || one.name, times: one.response_time}}
            ])),
            flatten(list_transform(record.sensors, lambda reading: list_transform(
                coalesce(reading.times, []),
                lambda one: {{operation: one.metric || '[' || one.label || ']', times: one.times}}
            )))
        )) AS one
        FROM records
    )
    WHERE one.times IS NOT NULL"""
_SERIES = f"""
    SELECT *, one[1] AS metric, one[2] AS label, one[3] AS value
    FROM (
        SELECT {_PLACE}, reading.sensor AS sensor, reading.read_ns AS read_ns, reading.span_ns AS span_ns,
            unnest(reading."values") AS one
        FROM ({_READINGS})
    )
    WHERE {_FITS}"""
_SENSORS = f"""
    SELECT {_PLACE}, reading.sensor AS sensor, reading.read_ns AS read_ns, reading.span_ns AS span_ns,
        reading.cost_ns AS cost_ns,
        nullif(concat_ws('; ', nullif(reading.missing, ''), nullif(array_to_string(list_transform(
            list_filter(reading."values", lambda one: NOT {_FITS}),
            lambda one: one[1] || '[' || one[2] || '] = ' || one[3] || ' does not fit into 63 bits'
        ), '; '), '')), '') AS missing
    FROM ({_READINGS})"""

_OF_RECORDS = {
    "records": (
        "begin_ns BIGINT, end_ns BIGINT, load STRUCT(bytes BIGINT, operations BIGINT, connections_active INTEGER, "
        "connections_lost INTEGER)",
        _RECORDS,
    ),
    "classes": ("classes STRUCT(name VARCHAR, bytes BIGINT, operations BIGINT, errors BIGINT)[]", _CLASSES),
    "histograms": (
        f"load STRUCT({', '.join(f'{key} {_TIMES}' for key in ('service_time', *_MORE_HISTOGRAMS))}), "
        f"classes STRUCT(name VARCHAR, service_time {_TIMES}, response_time {_TIMES})[], "
        f"sensors STRUCT(times STRUCT(metric VARCHAR, label VARCHAR, times {_TIMES})[])[]",
        _HISTOGRAMS,
    ),
    "series": (f"sensors STRUCT({_READ}, {_VALUES})[]", _SERIES),
    "sensors": (f"sensors STRUCT({_READ}, cost_ns BIGINT, missing VARCHAR, {_VALUES})[]", _SENSORS),
}
"""Of each part that is made of records: the keys of a record that it needs, with their types, and its rows."""
