"""Reads the manifest of a trial and checks its parts against it; standard library only.

A trial folder counts when its manifest is there, is of a version that this program knows, and every part has
the size and SHA-256 that the manifest names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from iodyno.core.errors import StoreError
from iodyno.store.schema import CAMPAIGN, MANIFEST, SCHEMA_VERSION, TRIALS

_TRIAL_NAME = re.compile(r"[0-9]{5,}-[0-9]+")
_OF_HEADER: Mapping[str, Any] = {
    "name": str,
    "created": str,
    "seed": int,
    "quick": bool,
    "experiment": {"factors": list, "workload": dict},
    "design": {"kind": str, "points": list, "trials": list},
    "hosts": dict,
    "doubts": list,
}
"""Keys of `campaign.json` that every version has, and that no command can do without."""
_OF_MANIFEST: Mapping[str, Any] = {
    "trial": str,
    "order": int,
    "attempt": int,
    "point": str,
    "levels": dict,
    "status": str,
    "reason": (dict, type(None)),
    "started_wall": str,
    "windows": dict,
    "hosts": dict,
    "parts": dict,
}
"""The same of `manifest.json`."""


class NewerError(StoreError):
    """The file is of a version of the store that this program does not know: whole, as far as anybody here can tell."""


def read_header(folder: Path) -> dict[str, Any]:
    """`campaign.json` of the campaign in `folder`. Raises StoreError when it is missing, broken or newer."""
    header = read_json(folder / CAMPAIGN)
    _require(header, _OF_HEADER, folder / CAMPAIGN, "")
    return header


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the trial in `folder`. Raises StoreError when it is missing, broken or newer."""
    manifest = read_json(folder / MANIFEST)
    _require(manifest, _OF_MANIFEST, folder / MANIFEST, "")
    for name in manifest["parts"]:
        _require(manifest["parts"], {name: {"sha256": str, "bytes": int}}, folder / MANIFEST, "parts.")
    return manifest


def places_of_trials(folder: Path) -> Iterator[Path]:
    """Folders that have the name of a trial of a campaign, by order and attempt, whole or not.

    Not those that are no trial's: a copy that somebody put beside one is not one more trial.
    """
    parent = folder / TRIALS
    found = [each for each in parent.iterdir() if _TRIAL_NAME.fullmatch(each.name)] if parent.is_dir() else []
    for each in sorted(found, key=lambda one: [int(number) for number in one.name.split("-")]):
        if each.is_dir():
            yield each


def trial_folders(folder: Path) -> Iterator[Path]:
    """Of these, the folders that have a manifest: stored trials, each written to its end."""
    return (each for each in places_of_trials(folder) if (each / MANIFEST).is_file())


def folders_without_manifest(folder: Path) -> Iterator[Path]:
    """Of these, the folders whose manifest is gone: a trial gets its name after it was written."""
    return (each for each in places_of_trials(folder) if not (each / MANIFEST).is_file())


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
                advice="restore the file, or repeat the trial with `iodyno run --resume`",
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
    except (ValueError, RecursionError) as error:
        raise StoreError(f"is not JSON: {error}", where=str(path)) from error
    if not isinstance(value, dict) or not isinstance(value.get("schema_version"), int):
        raise StoreError("is not a file of a campaign: it has no schema_version", where=str(path))
    if value["schema_version"] > SCHEMA_VERSION:
        raise NewerError(
            f"was written by a newer iodyno (schema {value['schema_version']}, known up to {SCHEMA_VERSION})",
            where=str(path),
            advice="upgrade: pip install --upgrade iodyno",
        )
    return value


def _require(found: Any, needed: Mapping[str, Any], path: Path, within: str) -> None:
    for key, kind in needed.items():
        value = found.get(key)
        allowed = dict if isinstance(kind, Mapping) else kind
        if key not in found or not isinstance(value, allowed):
            raise StoreError(
                f"is not whole: {within}{key} is missing, or not what it should be",
                where=str(path),
                advice="put the file back as it was, from a copy of the campaign",
            )
        if isinstance(kind, Mapping):
            _require(value, kind, path, f"{within}{key}.")
