"""What a job asks is read alike, whether its keys belong to a kind of load or lie side by side, as in older campaigns."""

from __future__ import annotations

import json
from pathlib import Path

from iodyno.core.asked import asked

GOLDEN = Path(__file__).parents[2] / "schema" / "golden" / "commands.jsonl"
JOBS = [json.loads(line)["job"] for line in GOLDEN.read_text().splitlines() if '"prepare"' in line]


def test_every_kind_of_load_is_read_with_all_of_its_keys() -> None:
    found = {(asked(job)["role"], asked(job).get("workload")) for job in JOBS}
    ends = {("send", kind) for kind in ("stream", "request_response", "connect_request_response", "script")}
    assert found == ends | {("alone", "disk"), ("alone", "files"), ("idle", None)}
    stream = next(asked(job) for job in JOBS if asked(job).get("workload") == "stream")
    assert (stream["think_ns"], stream["direction"], stream["connections"]) == (1_000_000, "forward", 100)
    assert stream["socket"]["send_buffer_bytes"] == 262_144 and "load" not in stream


def test_a_job_of_an_older_campaign_reads_as_it_is() -> None:
    for job in JOBS:
        assert asked(asked(job)) == asked(job)
