"""What the files of a trial hold: columns of its Parquet parts. What stands in its JSON: `documents.py`.

A trial is a folder. Its parts hold counts, sums and histograms, never rates or percentiles; its manifest is
written last, so that a folder with a manifest is complete. All times are nanoseconds on the monotonic axis of
the host they come from, unless a name says `wall`.
"""

from __future__ import annotations

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
