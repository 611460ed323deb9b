"""Names of the files of a campaign, and the columns of a trial's Parquet parts. What stands in its JSON: `campaign_json.py`,
`manifest_json.py`.

A trial is a folder. Its parts hold counts, sums and histograms, never rates or percentiles; its manifest is
written last, so that a folder with a manifest is complete. All times are nanoseconds on the monotonic axis of
the host they come from, unless a name says `wall`.
"""

from __future__ import annotations

from collections.abc import Mapping

SCHEMA_VERSION = 7
"""Version of the campaign folder. A reader refuses a newer one. History: `schema/VERSIONS.md`."""

MANIFEST = "manifest.json"
CAMPAIGN = "campaign.json"
EXPLORATION = "exploration.json"
"""Beside the campaigns of an exploration, one a stage."""
EXPERIMENT = "experiment.yaml"
TRIALS = "trials"
DAMAGED = "damaged"
"""Folder of trials whose files are not what their manifests say, and that are made again."""
BACKGROUND = "background"
BACKGROUNDS = ("before", "after")
PARTIAL = ".partial-"

HISTOGRAM_LAYOUT = "ll7"

_PLACE = {"host": "VARCHAR", "index": "INTEGER", "window": "VARCHAR"}

PARTS: Mapping[str, Mapping[str, str]] = {
    # One row per interval of one host: what the load did.
    "records": {
        **_PLACE,
        "begin_ns": "BIGINT",
        "end_ns": "BIGINT",
        "bytes": "BIGINT",
        "operations": "BIGINT",
        "connections_active": "INTEGER",
        "connections_lost": "INTEGER",
    },
    # One row per interval of one host and class of operations, where the load has classes: a disk's `read`, `write`, `fsync`,
    # a file program's flowops.
    "classes": {
        **_PLACE,
        "class": "VARCHAR",
        "bytes": "BIGINT",
        "operations": "BIGINT",
        "errors": "BIGINT",
    },
    # One row per interval of one host and kind of values, counts per bucket of the layout, sparse. `operation` is `write`
    # or `read` for service times, `io` where the load has classes, and then `io.CLASS` and `response.CLASS` of each;
    # `response_time`, `lateness` and `waiting` for times of an open loop; `batch` for messages of
    # a call, whose sum is no time; `METRIC[LABEL]` for times that a sensor counted, such as those of a block device.
    "histograms": {
        **_PLACE,
        "operation": "VARCHAR",
        "layout": "VARCHAR",
        "count": "BIGINT",
        "sum_ns": "BIGINT",
        "buckets": "INTEGER[]",
        "counts": "BIGINT[]",
    },
    # One row per value of a sensor reading: growth of a counter over `span_ns`, or the state of a gauge.
    "series": {
        **_PLACE,
        "sensor": "VARCHAR",
        "metric": "VARCHAR",
        "label": "VARCHAR",
        "read_ns": "BIGINT",
        "span_ns": "BIGINT",
        "value": "BIGINT",
    },
    # One row per sensor reading: its own cost, and why something of it is missing.
    "sensors": {
        **_PLACE,
        "sensor": "VARCHAR",
        "read_ns": "BIGINT",
        "span_ns": "BIGINT",
        "cost_ns": "BIGINT",
        "missing": "VARCHAR",
    },
    # One row per call stack that was sampled in the measured window of one host, the outermost caller first.
    "stacks": {
        "host": "VARCHAR",
        "owner": "VARCHAR",
        "mode": "VARCHAR",
        "functions": "VARCHAR[]",
        "modules": "VARCHAR[]",
        "count": "BIGINT",
    },
    # One row per reading of a metric that another program holds, where the experiment names any: between two times of the
    # lab's monotonic clock since the load began; without `value` it is `missing`.
    "metrics": {
        "source": "VARCHAR",
        "metric": "VARCHAR",
        "before_ns": "BIGINT",
        "after_ns": "BIGINT",
        "value": "DOUBLE",
        "missing": "VARCHAR",
    },
}
"""Columns of each part of a trial with their types, as DuckDB names them; the file is `<part>.parquet`. Only `missing` may be
null, and a `value` that is missing."""
OPTIONAL = frozenset({"metrics"})
"""Parts that a trial without rows of them has no file of."""


def part_file(part: str) -> str:
    """File name of a part."""
    return f"{part}.parquet"
