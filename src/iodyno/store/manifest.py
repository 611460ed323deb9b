"""Reads the manifest of a trial and checks its parts against it.

A trial folder counts when its manifest is there, is of a version that this program knows, and every part has
the size and SHA-256 that the manifest names.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from iodyno.core.errors import StoreError
from iodyno.core.factor import parameter_of
from iodyno.loads.base.workloads import workload_of_stored
from iodyno.store.older_names import in_present_words
from iodyno.store.schema import BACKGROUND, BACKGROUNDS, CAMPAIGN, MANIFEST, SCHEMA_VERSION, TRIALS
from iodyno.store.seal import unsealed

_SEALED_SINCE = 7
"""Version from which on both files end with their seal."""
_NUMBERS = ("size", "duration", "count", "rate", "bit_rate", "share")
"""Kinds of parameters whose levels are numbers, but where they are drawn from a law."""
_TRIAL_NAME = re.compile(r"[0-9]{5,}-[0-9]+")


class NewerError(StoreError):
    """The file is of a version of the store that this program does not know: whole, as far as anybody here can tell."""


def no_campaign(folder: Path) -> StoreError:
    """Return the error of a folder that is not that of a campaign, with what may have been meant."""
    advice = "`iodyno run` names the folder of a campaign on its last line"
    if folder.is_dir():
        what = f"is not the folder of a campaign: {CAMPAIGN} is not there"
        inside = max(folder.glob(f"*/{CAMPAIGN}"), default=None)
        advice = f"name a campaign in it: {inside.parent}" if inside else advice
    elif not folder.exists():
        what = f"there is no such folder{_nearest(folder)}"
    else:
        what = "is a file, where the folder of a campaign is needed"
        holds = next((each for each in folder.absolute().parents if (each / CAMPAIGN).is_file()), None)
        advice = f"name the folder that it lies in: {holds}" if holds else advice
    return StoreError(what, where=str(folder), advice=advice)


def _nearest(folder: Path) -> str:
    """`; did you mean ...?` with the campaign whose name is nearest, beside a folder that is not there; empty: none is near."""
    around = [folder.parent] if folder.parent.is_dir() else list(folder.parent.parent.glob("*/"))
    there = [str(each) for parent in around for each in parent.glob("*/") if (each / CAMPAIGN).is_file()]
    near = difflib.get_close_matches(str(folder), there, n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""


def read_header(folder: Path) -> dict[str, Any]:
    """`campaign.json` of the campaign in `folder`. Raises StoreError when it is missing, broken or newer."""
    header = read_json(folder / CAMPAIGN)
    _require(header, "campaign", folder / CAMPAIGN)
    factors = [factor["name"] for factor in header["experiment"]["factors"]]
    points = {point["id"] for point in header["design"]["points"]}
    for number, point in enumerate(header["design"]["points"]):
        if lacks := [name for name in factors if name not in point["levels"]]:
            raise _altered(folder / CAMPAIGN, f"design.points[{number}].levels", f"no level of {lacks[0]}")
    for number, trial in enumerate(header["design"]["trials"]):
        if trial["point"] not in points:
            raise _altered(
                folder / CAMPAIGN, f"design.trials[{number}].point", f"{trial['point']!r:.40}, no point"
            )
    return header


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the trial in `folder`. Raises StoreError when it is missing, broken or newer."""
    manifest = read_json(folder / MANIFEST)
    _require(manifest, "manifest", folder / MANIFEST)
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


def background_folders(folder: Path) -> list[Path]:
    """Folders of the measurements of the idle machine that the campaign in `folder` has, whole or not."""
    return [each for when in BACKGROUNDS if (each := folder / BACKGROUND / when).is_dir()]


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
    document = unsealed(value, _SEALED_SINCE)
    if document is None:
        raise StoreError(
            "does not hold what was written (SHA-256 differs)",
            where=str(path),
            advice="restore the file"
            + (
                ", or repeat the trial with `iodyno run --resume`"
                if path.name == MANIFEST
                else " from a copy of the campaign"
            ),
        )
    return in_present_words(document)


def check_against_campaign(folder: Path, manifest: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Raises StoreError unless a trial has the levels that its campaign plans for its point, numbers where settings are
    numbers, and its hosts. Levels of a search are planned as it goes: there is one of each factor.
    """
    hosts = {**header["hosts"], **header.get("pairs", {}).get(manifest.get("pair"), {})}
    for name in manifest["hosts"]:
        if name not in hosts:
            raise _altered(folder / MANIFEST, f"hosts.{name:.40}", "no host of the campaign")
    planned = {point["id"]: point["levels"] for point in header["design"]["points"]}
    names = {factor["name"] for factor in header["experiment"]["factors"]}
    levels, known = manifest["levels"], planned.get(manifest["point"])
    if (known is not None and levels != known) or (known is None and not names <= set(levels)):
        raise _altered(folder / MANIFEST, "levels", "others than those of its point")
    workload = workload_of_stored(header["experiment"]["workload"])
    for name, level in manifest.get("settings", {}).items():
        parameter = parameter_of(workload, name)
        drawn = isinstance(level, str) and "(" in level
        if parameter and parameter.kind in _NUMBERS and not (drawn or type(level) is int):
            raise _altered(folder / MANIFEST, f"settings.{name}", f"{level!r:.40}, expected a number")


def _altered(path: Path, key: str, found: str) -> StoreError:
    return StoreError(
        f"is not what was written: invalid value for {key}: {found}",
        where=str(path),
        advice="put the file back as it was, from a copy of the campaign",
    )


def _require(found: Any, kind: Literal["campaign", "manifest"], path: Path) -> None:
    # Imported here: nothing of a campaign is read before its load runs, and pydantic takes its time.
    from iodyno.store.documents import misfit

    wrong = misfit(found, kind)
    if wrong:
        raise StoreError(
            f"is not whole: {wrong}",
            where=str(path),
            advice="put the file back as it was, from a copy of the campaign",
        )
