"""A feed that nobody measured: a campaign's folder, and records of a known truth told by the lab's own feed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from made_campaign import SECOND, Layout, Truth, _record, make_campaign

from iodyno.campaign.feed import Feed
from iodyno.watch.follow import Follower

ROLES = ("send", "receive")


def unfinished(folder: Path, *, trials: int = 4, question: str = "What is it?") -> Path:
    """A campaign of that many trials, of which none has run, and that is not finished."""
    points = [({"connections": 1 << n, "size": 65536}, Truth()) for n in range(trials)]
    make_campaign(folder, points, layout=Layout(replicates=0, idle=()), question=question)
    header = json.loads((folder / "campaign.json").read_text())
    header["design"]["trials"] = [
        {"order": number, "block": 0, "replicate": 0, "point": point["id"]}
        for number, point in enumerate(header["design"]["points"])
    ]
    (folder / "campaign.json").write_text(json.dumps(header | {"finished": False}))
    return folder


def line(host: str, index: int, *, interval_ns: int = SECOND, rate: float = 1e9) -> dict[str, Any]:
    """What the lab tells of one interval of a host, with seed and truth by its name."""
    kind = "client" if hash_of(host) % 2 == 0 else "server"
    layout = Layout(interval_ns=interval_ns)
    moved = int(rate * interval_ns / SECOND)
    own = random.Random(f"{host}/{index}")
    record = _record(kind, index, moved, 300.0, 4, 65536, Truth(), layout, own)
    record["window"] = "warm_up" if index == 0 else "measured"
    times = record["load"]["service_time"]
    if times["count"] > 20:
        # Two modes, and an outlier that one host alone has.
        buckets = sorted({times["buckets"][0], times["buckets"][0] + 256, 2400 if kind == "client" else 2000})
        counts = [times["count"] - 3 * (len(buckets) - 1), *([3] * (len(buckets) - 1))]
        record["load"]["service_time"] = {**times, "buckets": buckets, "counts": counts}
    role = ROLES[hash_of(host) % 2]
    cpus = list(layout.cpus[kind])
    place = {"role": role, "operation": {"send": "write", "receive": "read"}[role], "cpus": cpus}
    return {"host": host, "place": place, "record": record}


def hash_of(host: str) -> int:
    """The same in every process; client and server differ."""
    return {"client": 0, "server": 1}.get(host, sum(host.encode()))


def tell_trial(
    feed: Feed,
    order: int,
    hosts: Sequence[str] = ("client", "server"),
    *,
    intervals: int = 5,
    interval_ns: int = SECOND // 5,
    pace: Callable[[float], None] = time.sleep,
    end: bool = True,
) -> str:
    """One trial, an interval at a time; `pace` waits between them."""
    name = f"{order:05d}-1"
    levels = {"connections": 1 << order, "size": 65536}
    feed.event("time_left", left_ns=60 * SECOND)
    feed.begin_trial(name, order=order, attempt=1, point=f"p{order + 1:02d}", levels=levels, proof=False)
    for index in range(intervals):
        pace(interval_ns / SECOND)
        for host in hosts:
            told = line(host, index, interval_ns=interval_ns)
            feed.record(name, told["host"], told["place"], json.dumps(told["record"]).encode())
    if end:
        feed.end_trial(name, status="finished", reason=None)
    return name


def until(ready: Callable[[], Any], seconds: float = 60.0) -> None:
    """Waits until it is true."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


@contextmanager
def followers_closed() -> Iterator[None]:
    """Closes every follower that is made meanwhile, also those of boards."""
    made: list[Follower] = []
    original = Follower.__init__

    def noted(self: Follower, folder: Path) -> None:
        original(self, folder)
        made.append(self)

    with patch.object(Follower, "__init__", noted):
        yield
    for follower in made:
        follower.close()
