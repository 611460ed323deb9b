"""The column engine: DuckDB in memory, which reads and writes Parquet and JSON by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb

_SETTINGS: Mapping[str, Any] = {
    # What it has is in the wheel; nothing is looked for on the disk or on the network.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}


def connect(**settings: Any) -> duckdb.DuckDBPyConnection:
    """A connection to an empty database in memory, with these settings."""
    connection = duckdb.connect(":memory:", config={**_SETTINGS, **settings})
    connection.execute("SET enable_progress_bar = false")
    return connection


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Iterable[str]) -> str:
    """A list of texts as SQL writes it."""
    return f"[{', '.join(map(quoted, texts))}]"


def name(column: str) -> str:
    """The name of a column as SQL writes it."""
    return '"' + column.replace('"', '""') + '"'
