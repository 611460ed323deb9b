"""Reads the manifest of a trial and checks its parts against it; standard library only.

A trial folder counts when its manifest is there, is of a version that this program knows, and every part has
the size and SHA-256 that the manifest names.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from iodyno.core.errors import StoreError
from iodyno.store.schema import MANIFEST, SCHEMA_VERSION


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the trial in `folder`. Raises StoreError when it is missing, broken or newer."""
    return read_json(folder / MANIFEST)


def check_parts(folder: Path, manifest: dict[str, Any]) -> None:
    """Raises StoreError, naming the file, unless every part is there and as the manifest says."""
    for name, part in manifest["parts"].items():
        path = folder / name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise StoreError(
                f"cannot be read: {error.strerror or error}",
                where=str(path),
                advice="run the campaign again with `iodyno run --resume`; this trial will be repeated",
            ) from error
        if digest != part["sha256"]:
            raise StoreError(
                f"does not hold what its manifest says ({path.stat().st_size} bytes found, "
                f"{part['bytes']} written, SHA-256 differs)",
                where=str(path),
                advice="restore the file, or repeat the trial with `iodyno run --resume`",
            )


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a campaign. Raises StoreError when it is broken or of a newer version."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    except ValueError as error:
        raise StoreError(f"is not JSON: {error}", where=str(path)) from error
    if not isinstance(value, dict) or not isinstance(value.get("schema_version"), int):
        raise StoreError("is not a file of a campaign: it has no schema_version", where=str(path))
    if value["schema_version"] > SCHEMA_VERSION:
        raise StoreError(
            f"was written by a newer iodyno (schema {value['schema_version']}, known up to {SCHEMA_VERSION})",
            where=str(path),
            advice="upgrade: pip install --upgrade iodyno",
        )
    return value
