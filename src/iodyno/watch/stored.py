"""The trials of a campaign that are stored: which there are, and their samples, as if they had just come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from iodyno.campaign.feed import SENSORS
from iodyno.core.errors import StoreError
from iodyno.core.outcome import bystanders_of
from iodyno.store.manifest import no_campaign, read_header, read_manifest, trial_folders
from iodyno.store.schema import CAMPAIGN, MANIFEST, TRIALS, part_file
from iodyno.watch.facts import CLOCKS, SENSED_TIMES, Cutter, Sample

_OPERATION = {"send": "write", "receive": "read"}
_CLASSES = "classes"
_NOTHING = {"count": 0, "sum_ns": 0, "buckets": [], "counts": []}


def header(folder: Path) -> dict[str, Any]:
    """Read `campaign.json`. Raises StoreError when the folder is not that of a campaign."""
    if not (folder / CAMPAIGN).is_file():
        raise no_campaign(folder)
    return read_header(folder)


def trial_names(folder: Path) -> list[str]:
    """Names of the stored trials, in the order of the design."""
    return sorted(each.name for each in trial_folders(folder))


def describe(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a stored trial without its rows."""
    reason = manifest.get("reason") or {}
    began = datetime.fromisoformat(manifest["started_wall"]).timestamp()
    windows = manifest["windows"]
    length_ns = sum(windows.get(f"{name}_ns", 0) for name in ("warm_up", "measured", "drain"))
    return {
        "trial": manifest["trial"],
        "order": manifest["order"],
        "attempt": manifest["attempt"],
        "point": manifest["point"],
        "levels": manifest["levels"],
        "status": manifest["status"],
        "reason": reason.get("what"),
        "proof": manifest.get("purpose") == "proof",
        "start_s": began + _until_load_s(manifest),
        "length_s": length_ns / 1e9,
        "warnings": [warning["text"] for warning in manifest.get("warnings", ())],
    }


def read_description(folder: Path, name: str) -> dict[str, Any]:
    """Of the trial `name` of the campaign in `folder`. Raises StoreError."""
    try:
        return describe(read_manifest(folder / TRIALS / name))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"is no manifest of a trial: {error}", where=str(folder / TRIALS / name)) from error


def sharing(campaign: Mapping[str, Any]) -> frozenset[str]:
    """Hosts that are on the same machine as one before them, by what `campaign.json` says of their boots."""
    machines: dict[str, str] = {}
    seconds = []
    for host, facts in sorted((campaign.get("hosts") or {}).items()):
        boot = ((facts.get("hello") or {}).get("host") or {}).get("boot_id")
        if boot and machines.setdefault(boot, host) != host:
            seconds.append(host)
    return frozenset(seconds)


def read_samples(folder: Path, name: str, seconds: frozenset[str] = frozenset()) -> list[Sample]:
    """Every sample of a stored trial, by interval and host; `seconds` as `Cutter` has it.

    Raises StoreError when it cannot be read.
    """
    # Imported here: slow, and not needed to watch a campaign that runs.
    from iodyno.store.reader import read_rows

    place = folder / TRIALS / name
    manifest = read_manifest(place)
    # A trial that was stored before loads had classes has no such part.
    parts = ["records", "histograms", *([_CLASSES] if (place / part_file(_CLASSES)).is_file() else [])]
    rows = read_rows(place, parts) | read_rows(place, ("series", "sensors"), sensors=sorted(SENSORS))
    records, series, sensors = rows["records"], rows["series"], rows["sensors"]
    hosts = {
        name: {"role": facts["role"], "cpus": facts["cpus"]} for name, facts in manifest["hosts"].items()
    }
    # Those of the bystanders read no sensors.
    hosts |= {
        f"{beside}.{name}": {"role": facts["role"], "cpus": []}
        for beside, bystander in bystanders_of(manifest).items()
        for name, facts in bystander["hosts"].items()
    }
    times, of_classes = _by_place(rows["histograms"]), _by_place(rows.get(_CLASSES, ()))
    readings = _readings(series, sensors)
    cutter, samples = Cutter(seconds), []
    for row in sorted(records, key=lambda row: (row["index"], row["host"])):
        key = (row["host"], row["index"])
        if row["host"] not in hosts:
            raise StoreError(
                f"lacks {row['host']}, of which the trial has records", where=str(place / MANIFEST)
            )
        line = _line(row, hosts[row["host"]], times.get(key, ()), of_classes.get(key, ()))
        sensed = {
            "sensor": "",
            "cost_ns": 0,
            "values": [],
            "times": _sensed_times(times.get(key, ())),
        }
        line["record"]["sensors"] = [*readings.get(key, {}).values(), sensed]
        samples.append(cutter.cut(name, line))
    return samples


def _until_load_s(manifest: Mapping[str, Any]) -> float:
    """Return the time from the beginning of the attempt to that of its load: by the clock fit that was made in between."""
    for facts in manifest.get("hosts", {}).values():
        result, clock = facts.get("result") or {}, (facts.get("clock") or {}).get("before")
        if clock and result.get("start_ns") is not None:
            return max(0.0, float(result["start_ns"] - clock["offset_ns"] - clock["at_ns"]) / 1e9)
    return 0.0


def _line(
    row: Mapping[str, Any],
    place: Mapping[str, Any],
    histograms: Iterable[Mapping[str, Any]],
    classes: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """A line of a feed, made again from rows, without its readings."""
    load: dict[str, Any] = {name: row[name] for name in ("bytes", "operations", "connections_active")}
    operation = _OPERATION.get(place["role"], "none")
    named = {histogram["operation"]: histogram for histogram in histograms}
    for name, histogram in named.items():
        if name in CLOCKS:
            load[name] = histogram
        elif name != "batch" and "." not in name:
            operation, load["service_time"] = name, histogram
    record = {key: row[key] for key in ("index", "window", "begin_ns", "end_ns")}
    record["load"] = {"service_time": _NOTHING, **load}
    record["classes"] = [
        {**each, "name": each["class"], "service_time": named.get(f"io.{each['class']}", _NOTHING)}
        for each in classes
    ]
    return {"host": row["host"], **place, "operation": operation, "record": record}


def _sensed_times(histograms: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Times of block devices and system calls, as a sensor's reading had them."""
    named = (
        (*histogram["operation"].removesuffix("]").partition("["), histogram) for histogram in histograms
    )
    return [
        {"metric": metric, "label": label, "times": histogram}
        for metric, _, label, histogram in named
        if metric in SENSED_TIMES
    ]


def _by_place(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["host"], row["index"]), []).append(row)
    return found


def _readings(
    series: Iterable[Mapping[str, Any]], sensors: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in sensors:
        reading = {
            "sensor": row["sensor"],
            "cost_ns": row["cost_ns"],
            "missing": row["missing"],
            "values": [],
        }
        found.setdefault((row["host"], row["index"]), {})[row["sensor"]] = reading
    for row in series:
        place = found.get((row["host"], row["index"]), {})
        if row["sensor"] in place:
            place[row["sensor"]]["values"].append((row["metric"], row["label"], row["value"]))
    return found
