"""Operations of network file systems and of ZFS: rates, times and failures of known counts, in JSON, on the page, live."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_campaign import Truth, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.file_systems import ROWS_MOST
from iodyno.analysis.summary import analyse
from iodyno.report.html import page
from iodyno.report.json import campaign
from iodyno.watch.stored import read_samples

READ, WRITE = "mount=/mnt,operation=read", "mount=/mnt,operation=write"
COUNTS = {
    "nfs_operations": {
        ("nfs.operations", WRITE): 50,
        ("nfs.operation_ns", WRITE): 100_000_000,
        ("nfs.operations", READ): 200,
        ("nfs.operation_ns", READ): 600_000_000,
        ("nfs.server_ns", READ): 400_000_000,
        ("nfs.failed_operations", READ): 2,
    },
    "nfsd_operations": {("nfsd.operations", "version=4,operation=read"): 70},
    "zfs_cache": {
        ("zfs.operations", f"operation=cache_{what}"): n for what, n in (("hit", 900), ("miss", 30))
    },
    "ceph_requests": {
        ("ceph.operations", "client=client7,operation=write"): 10,
        ("ceph.operation_ns", "client=client7,operation=write"): 50_000_000,
    },
}
"""Of a second."""


def test_each_has_its_rate_and_what_its_clients_wait_for(tmp_path: Path) -> None:
    made = make_campaign(tmp_path / "c", [({}, Truth(counted=COUNTS)), ({}, Truth())])
    summary = analyse(read_dataset(made))
    counted, none = summary.points
    assert none.file_operations == ()
    found = {
        (one.file_system, one.operation): {name: e.estimate for name, e in one.estimates.items()}
        for one in counted.file_operations
    }
    of_counts = {"mean_ns": None, "server_mean_ns": None, "failed_per_s": 0.0}
    assert found == {
        ("NFS /mnt", "read"): {"per_s": 200, "mean_ns": 3e6, "server_mean_ns": 2e6, "failed_per_s": 2},
        ("NFS /mnt", "write"): {"per_s": 50, "mean_ns": 2e6, "server_mean_ns": None, "failed_per_s": 0},
        ("NFS server, version 4", "read"): {"per_s": 70, **of_counts},
        ("Ceph client7", "write"): {"per_s": 10, **of_counts, "mean_ns": 5e6},
        ("ZFS", "cache_hit"): {"per_s": 900, **of_counts},
        ("ZFS", "cache_miss"): {"per_s": 30, **of_counts},
    }
    assert {one.host for one in counted.file_operations} == {"client"}, "both are on one machine"
    assert next(iter(found)) == ("NFS /mnt", "read"), "the most frequent first"
    told, without = campaign(summary)["points"]
    assert without["file_systems"] == []
    assert told["file_systems"][0]["per_s"]["estimate"] == 200
    shown = page(summary)
    assert shown.count('id="file-systems"') == 1 and "NFS server, version 4" in shown
    # 900 found in the cache each second, on both hosts of the machine as one.
    trials = {one.name: read_samples(made, one.name) for one in read_dataset(made).trials if one.finished}
    live = {sum(s.amount("file_systems", first="cache_hit") for s in samples) for samples in trials.values()}
    assert len(live) == 2 and 0 in live and max(live) % 900 == 0


def test_of_many_operations_the_most_frequent_are_told(tmp_path: Path) -> None:
    many = {("nfsd.operations", f"version=3,operation=op{n}"): 10 + n for n in range(30)}
    made = make_campaign(tmp_path / "c", [({}, Truth(counted={"nfsd_operations": many}))])
    (point,) = analyse(read_dataset(made)).points
    rates = [one.estimates["per_s"].estimate for one in point.file_operations]
    assert len(rates) == ROWS_MOST and rates == pytest.approx(list(range(39, 39 - ROWS_MOST, -1)))
