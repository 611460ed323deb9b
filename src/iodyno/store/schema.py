"""What the files of a trial hold: columns of its Parquet parts, and the JSON Schema of its manifest.

A trial is a folder. Its parts hold counts, sums and histograms, never rates or percentiles; its manifest is
written last, so that a folder with a manifest is complete. All times are nanoseconds on the monotonic axis of
the host they come from, unless a name says `wall`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA_VERSION = 4
"""Version of the campaign folder. A reader refuses a newer one. History: `schema/VERSIONS.md`."""

MANIFEST = "manifest.json"
CAMPAIGN = "campaign.json"
EXPERIMENT = "experiment.yaml"
TRIALS = "trials"
DAMAGED = "damaged"
"""Where a trial is put whose files are not what its manifest says, when it is made again."""
BACKGROUND = "background"
BACKGROUNDS = ("before", "after")
PARTIAL = ".partial-"

HISTOGRAM_LAYOUT = "ll7"

_PLACE = [
    pa.field("host", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("window", pa.string(), nullable=False),
]

PARTS: dict[str, pa.Schema] = {
    # One row per interval of one host: what the load did.
    "records": pa.schema(
        [
            *_PLACE,
            pa.field("begin_ns", pa.int64(), nullable=False),
            pa.field("end_ns", pa.int64(), nullable=False),
            pa.field("bytes", pa.int64(), nullable=False),
            pa.field("operations", pa.int64(), nullable=False),
            pa.field("connections_active", pa.int32(), nullable=False),
            pa.field("connections_lost", pa.int32(), nullable=False),
        ]
    ),
    # One row per interval of one host and class of operations, where the load has classes: a disk's `read`, `write`, `fsync`,
    # a file program's flowops.
    "classes": pa.schema(
        [
            *_PLACE,
            pa.field("class", pa.string(), nullable=False),
            pa.field("bytes", pa.int64(), nullable=False),
            pa.field("operations", pa.int64(), nullable=False),
            pa.field("errors", pa.int64(), nullable=False),
        ]
    ),
    # One row per interval of one host and kind of values, counts per bucket of the layout, sparse. `operation` is `write`
    # or `read` for service times, `io` where the load has classes, and then `io.CLASS` and `response.CLASS` of each;
    # `response_time`, `lateness` and `waiting` for times of an open loop; `batch` for messages of
    # a call, whose sum is no time; `METRIC[LABEL]` for times that a sensor counted, such as those of a block device.
    "histograms": pa.schema(
        [
            *_PLACE,
            pa.field("operation", pa.string(), nullable=False),
            pa.field("layout", pa.string(), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
            pa.field("sum_ns", pa.int64(), nullable=False),
            pa.field("buckets", pa.list_(pa.int32()), nullable=False),
            pa.field("counts", pa.list_(pa.int64()), nullable=False),
        ]
    ),
    # One row per value of a sensor reading: growth of a counter over `span_ns`, or the state of a gauge.
    "series": pa.schema(
        [
            *_PLACE,
            pa.field("sensor", pa.string(), nullable=False),
            pa.field("metric", pa.string(), nullable=False),
            pa.field("label", pa.string(), nullable=False),
            pa.field("read_ns", pa.int64(), nullable=False),
            pa.field("span_ns", pa.int64(), nullable=False),
            pa.field("value", pa.int64(), nullable=False),
        ]
    ),
    # One row per sensor reading: its own cost, and why something of it is missing.
    "sensors": pa.schema(
        [
            *_PLACE,
            pa.field("sensor", pa.string(), nullable=False),
            pa.field("read_ns", pa.int64(), nullable=False),
            pa.field("span_ns", pa.int64(), nullable=False),
            pa.field("cost_ns", pa.int64(), nullable=False),
            pa.field("missing", pa.string(), nullable=True),
        ]
    ),
    # One row per call stack that was sampled in the measured window of one host, the outermost caller first.
    "stacks": pa.schema(
        [
            pa.field("host", pa.string(), nullable=False),
            pa.field("owner", pa.string(), nullable=False),
            pa.field("mode", pa.string(), nullable=False),
            pa.field("functions", pa.list_(pa.string()), nullable=False),
            pa.field("modules", pa.list_(pa.string()), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
        ]
    ),
}
"""Columns of each part of a trial; the file is `<part>.parquet`."""


def part_file(part: str) -> str:
    """File name of a part."""
    return f"{part}.parquet"


def manifest_json_schema() -> dict[str, Any]:
    """JSON Schema of `manifest.json`."""
    integer = {"type": "integer"}
    count = {"type": "integer", "minimum": 0}
    text = {"type": "string"}
    level = {"type": ["integer", "boolean", "string"]}
    clock = _object(
        {"offset_ns": integer, "error_ns": count, "rtt_min_ns": count, "at_ns": integer}, nullable=True
    )
    profile = _object(
        {
            "hz": count,
            "event": text,
            **dict.fromkeys(("begin_ns", "end_ns"), integer),
            **dict.fromkeys(("samples", "idle_samples", "lost", "cost_ns", "symbolise_ns"), count),
            "missing": {"type": ["string", "null"]},
        },
        nullable=True,
    )
    host = _object(
        {
            "role": {"enum": ["send", "receive", "alone", "idle"]},
            "job": {"type": ["object", "null"]},
            "ready": {"type": ["object", "null"]},
            "result": {"type": ["object", "null"]},
            "clock": _object({"before": clock, "after": clock}, nullable=True),
            "cpus": {"type": "array", "items": count},
            "profile": profile,
        }
    )
    # Not in a campaign that was made before hosts had knobs.
    any_level = {"type": ["integer", "boolean", "string", "null"]}
    knob = _object(
        {
            **dict.fromkeys(("asked", "before", "obtained", "restored"), any_level),
            **{name: {"type": ["string", "null"]} for name in ("device", "why")},
        }
    )
    host["properties"]["knobs"] = {"type": ["object", "null"], "additionalProperties": knob}
    doubt = _object({"code": text, "text": text, "where": text})
    part = _object({"sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "bytes": count, "rows": count})
    windows = _object(
        {"warm_up_ns": count, "measured_ns": count, "drain_ns": count, "interval_ns": count}, closed=False
    )
    start = _object(
        {
            "skew_ns": {"type": ["integer", "null"]},
            "skew_error_ns": {"type": ["integer", "null"]},
            "slack_ns": {"type": "object", "additionalProperties": integer},
            "realtime": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
        nullable=True,
    )
    # Of loads without another end: when each host began, after the first.
    start["properties"]["offset_ns"] = {"type": "object", "additionalProperties": count}
    manifest = _object(
        {
            "schema_version": {"type": "integer", "minimum": 1, "maximum": SCHEMA_VERSION},
            "trial": text,
            "order": integer,
            "attempt": {"type": "integer", "minimum": 1},
            "block": integer,
            "replicate": integer,
            "point": text,
            "levels": {"type": "object", "additionalProperties": level},
            "settings": {"type": "object", "additionalProperties": level},
            "status": {"enum": ["finished", "failed"]},
            "reason": _object({"code": text, "what": text, "where": text, "advice": text}, nullable=True),
            "started_wall": text,
            "windows": windows,
            "start": start,
            "hosts": {"type": "object", "additionalProperties": host},
            "doubts": {"type": "array", "items": doubt},
            "overhead_ns": {"type": ["integer", "null"]},
            "parts": {
                "type": "object",
                "properties": {part_file(name): part for name in PARTS},
                "required": [part_file(name) for name in PARTS],
                "additionalProperties": False,
            },
        },
        closed=False,
    )
    # Not in a campaign of version 2 that was made before limiters were proved.
    manifest["properties"] |= {
        "purpose": {"enum": ["design", "proof"]},
        "perturbation": _object(
            {
                "limiter": text,
                "direction": {"enum": ["relax", "tighten", "none"]},
                "setting": {"type": ["string", "null"]},
                "before": {"type": ["integer", "boolean", "string", "null"]},
                "after": {"type": ["integer", "boolean", "string", "null"]},
                "resource_ratio": {"type": "number", "exclusiveMinimum": 0},
            },
            nullable=True,
        ),
        "path": {"type": ["object", "null"]},
        # Files and devices of a load on disks, by host.
        "targets": {"type": "object", "additionalProperties": {"type": "object"}},
        # Clients that the trial lost and went on without.
        "losses": {"type": "array", "items": _object({"host": text, "code": text, "what": text})},
        # The second workload of the trial, whose hosts are `bystander.HOST` in the parts.
        "bystander": _object(
            {
                "settings": {"type": "object", "additionalProperties": level},
                "start": start,
                "hosts": {"type": "object", "additionalProperties": host},
            },
            nullable=True,
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "iodyno trial manifest",
        **manifest,
    }


def write_manifest_schema(folder: Path) -> Path:
    """Writes `manifest.schema.json` into `folder`, as the project publishes it, and names the file."""
    path = folder / "manifest.schema.json"
    path.write_text(json.dumps(manifest_json_schema(), indent=2) + "\n", encoding="utf-8")
    return path


def _object(properties: dict[str, Any], *, nullable: bool = False, closed: bool = True) -> dict[str, Any]:
    return {
        "type": ["object", "null"] if nullable else "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": not closed,
    }
