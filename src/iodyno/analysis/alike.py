"""Hosts of one end of a load on one set of CPUs, as one host: what they did is added up, and the CPUs are those of all of them.

Each of them counts what it moved itself; the first reads the CPUs, for all. So the cost is that of all together, under the name
of the end (`client` of `client-1` to `client-18`), and each of them has a rate of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from iodyno.analysis.host_data import ClassCounts, HostData, merged_histograms
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record, parts_together
from iodyno.loads.base.kinds import FOLDERS

_GREATEST = ("arrivals.oldest_wait_ns", "thread.busiest_run_ns", "net.speed_bits_per_s")
"""States of which the greatest is that of all."""
_COUNTS = ("bytes", "operations", "connections_active", "connections_lost")


def groups_of(workload: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The ends of several hosts by name, of a load on connections, as `campaign.json` has it."""
    groups = workload.get("groups") or {}
    of_ends = FOLDERS.get(str(workload.get("kind"))) == "network"
    return {name: tuple(hosts) for name, hosts in groups.items()} if of_ends else {}


def on_one_machine(
    groups: Mapping[str, Sequence[str]], machines: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """The hosts that are one to those who ask what a host costs, by the name that they have together: that of the end, where all
    of it is on one machine. `machines`: by host, what it shares CPUs with.

    >>> on_one_machine({"c": ("c-1", "c-2")}, {"c-1": "x", "c-2": "x"})
    {'c': ('c-1', 'c-2')}
    >>> on_one_machine({"c": ("c-1", "c-2", "c-3")}, {"c-1": "x", "c-2": "y", "c-3": "y"})
    {'c-2+1': ('c-2', 'c-3')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, hosts in groups.items():
        by_machine: dict[str, list[str]] = {}
        for host in hosts:
            by_machine.setdefault(machines.get(host, host), []).append(host)
        for among in by_machine.values():
            if len(among) > 1:
                found[name if len(by_machine) == 1 else f"{among[0]}+{len(among) - 1}"] = tuple(among)
    return found


def as_one(name: str, hosts: Sequence[HostData]) -> HostData:
    """The hosts as one of that name; its rows are made of theirs when they are asked for."""
    first = hosts[0]
    one = HostData(
        name, first.role, first.cpus, _manifest(hosts), machine=first.machine, lacking=first.lacking
    )
    one.made_of = tuple(hosts)
    one.without_rows()
    one.fetch = partial(_add_up, one, hosts)
    return one


def _add_up(one: HostData, hosts: Sequence[HostData]) -> None:
    """Fills a host with the rows of several: interval by interval, each as long as that of the first of them."""
    one.with_no_rows()
    add_rows(one, hosts)
    for sensor in dict.fromkeys(sensor for host in hosts for sensor in host.readings):
        into: dict[int, Reading] = {}
        for index, reading in (item for host in hosts for item in host.readings.get(sensor, {}).items()):
            into[index] = _both(into[index], reading) if index in into else reading
        one.readings[sensor] = into
    one.sensed_times = hosts[0].sensed_times


def add_rows(one: HostData, hosts: Sequence[HostData]) -> None:
    """Adds up what several hosts did, without what their sensors read."""
    by_index: dict[int, list[Record]] = {}
    for record in (record for host in hosts for record in host.records):
        by_index.setdefault(record.index, []).append(record)
    for _, records in sorted(by_index.items()):
        sums = {name: sum(getattr(record, name) for record in records) for name in _COUNTS}
        one.records.append(replace(records[0], **sums, parts=parts_together(records)))
    one.histograms = merged_histograms([host.histograms for host in hosts])
    for name in dict.fromkeys(name for host in hosts for name in host.more_histograms):
        one.more_histograms[name] = merged_histograms([h.more_histograms.get(name, {}) for h in hosts])
    for name in dict.fromkeys(name for host in hosts for name in host.classes):
        into = one.classes.setdefault(name, {})
        for index, counts in (item for host in hosts for item in host.classes.get(name, {}).items()):
            had = into.get(index, ClassCounts(0, 0, 0))
            into[index] = ClassCounts(
                had.bytes + counts.bytes, had.operations + counts.operations, had.errors + counts.errors
            )


def _both(one: Reading, other: Reading) -> Reading:
    """Two readings of one sensor at the end of an interval. Counts add up; of states it is what they are for all flows."""
    values = dict(one.values)
    flows = [reading.values.get(("tcp.flows", ""), 1) for reading in (one, other)]
    for (metric, label), value in other.values.items():
        before = values.get((metric, label))
        if before is None:
            values[metric, label] = value
        elif label == "of=min":
            values[metric, label] = min(before, value)
        elif label == "of=max" or metric in _GREATEST:
            values[metric, label] = max(before, value)
        elif label == "of=mean":
            values[metric, label] = round((before * flows[0] + value * flows[1]) / max(1, sum(flows)))
        else:
            values[metric, label] = before + value
    missing = "; ".join(dict.fromkeys(filter(None, (one.missing, other.missing)))) or None
    return Reading(one.span_ns, one.cost_ns + other.cost_ns, missing, values)


def _manifest(hosts: Sequence[HostData]) -> dict[str, Any]:
    """Job, socket and reading of several hosts, as of one."""
    every, found = [host.manifest for host in hosts], dict(hosts[0].manifest)
    sums: Mapping[str, Sequence[str]] = {
        "job": ("connections",),
        "ready": ("connections", "workers", "foreign_refused"),
        "result": ("bytes", "operations", "connections_carrying", "connections_lost", "records"),
    }
    for part, names in sums.items():
        each = [manifest[part] for manifest in every if manifest.get(part)]
        if len(each) == len(every):
            added = {
                name: sum(one[name] for one in each) for name in names if all(name in one for one in each)
            }
            found[part] = {**each[0], **added}
    if found.get("result"):
        found["result"]["connection_fairness_ppb"] = _fairness_ppb(every)
    return found


def _fairness_ppb(manifests: Iterable[Mapping[str, Any]]) -> int | None:
    """Jain's index of the connections of all, of that of each: the squares of each are (sum x)^2 / (n J)."""
    moved = squares = connections = 0.0
    for manifest in manifests:
        result, count = manifest["result"], (manifest.get("job") or {}).get("connections", 1)
        index, mine = result.get("connection_fairness_ppb"), float(result["bytes"])
        connections += count
        if index and mine:
            moved += mine
            squares += mine * mine / (count * index / 1e9)
    return round(1e9 * moved * moved / (connections * squares)) if squares else None
