"""Delivery by the server of a volume, row by row, in the columns of the second article of "CPU utilization in networking /
Storage appliance" (2008): the rate of all clients, CPU and network of the server; with its disk and the clients' CPU beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.factor import VARIANT
from iodyno.core.outcome import Estimate
from iodyno.core.volume import CLIENT_DAEMON, CREATE_FILES, SERVER
from iodyno.loads.files.analysis.flowops import FoundProgram
from iodyno.report.layout import Layout, place_name, sections
from iodyno.report.limiter import sentence as limiter_sentence
from iodyno.report.limiter import short
from iodyno.report.numbers import details, with_interval
from iodyno.report.table import Cell, Column, Table

_SHARE = 0.02
"""Chosen: as much as does not make a trial void (`iodyno.loads.disk.analysis.cache.SHARE`)."""
_MOVED = (
    (
        "network",
        "server_network_bytes_per_s",
        "what the server sent to its clients and received from them, with all headers",
    ),
    ("disk read", "server_disk_read_bytes_per_s", "what its disk gave: what its page cache had is not in it"),
    (
        "disk written",
        "device_write_bytes_per_s",
        "what the busiest disk was written, by anybody, at once or later",
    ),
)


def served_table(summary: CampaignSummary, layout: Layout, machine: str) -> Table | None:
    """A row for each point; None where no server of a volume is known. Servers are observed on `machine`."""
    clients = [str(name) for name in summary.workload.get("hosts") or ()]
    known = [point for point in summary.points if point.knows(f"{machine}.server_cpus_busy")]
    if not known:
        return None
    rows = []
    for _, points in sections(summary, layout):
        rows += [_row(summary, layout, point, machine, len(clients)) for point in points if point.finished]
    columns = (
        Column("row"),
        Column("threads", hint="of all clients"),
        Column("moved", "clients", "bytes read and written per second, of all clients"),
        Column("rate", "clients", "operations per second, of all clients; of file creation: files made"),
        Column("p50", "clients", "median time of an operation"),
        Column("p99", "clients", "99th percentile of it"),
        *(Column(head, "server", hint) for head, _, hint in _MOVED),
        Column(
            "from cache",
            "server",
            "share of the bytes read that the server's disk did not give, or how much of them it gave",
        ),
        Column("server", "CPUs busy", "the server's processes; the kernel's network is in the machine"),
        Column("clients", "CPUs busy", "the clients' protocol daemons; the load itself is not in it"),
        Column("machine", hint="busy share of all CPUs: clients, server and all else are on one machine"),
        Column("Limiter", hint="what stops the rate from rising"),
    )
    most = max(int(_settings(summary, point).get("clients", len(clients))) for point in known)
    several = f" to {most} clients" if most > 1 else ""
    return Table(f"What the server delivered{several}", columns, tuple(rows))


def _settings(summary: CampaignSummary, point: PointSummary) -> dict[str, Any]:
    return {**(summary.workload.get("settings") or {}), **point.levels}


def _row(
    summary: CampaignSummary, layout: Layout, point: PointSummary, machine: str, clients: int
) -> tuple[Cell, ...]:
    settings = _settings(summary, point)
    taking_part = int(settings.get("clients", clients))
    alone = [factor.name for factor in layout.factors] == [VARIANT]
    name = point.labels[VARIANT] if alone else place_name(point, layout.factors) or point.id
    times = [_cell(point, f"service_time_{quantile}_ns") for quantile in ("p50", "p99")]
    moved, rate = _cell(point, "bytes_per_s"), _cell(point, "iops")
    threads, program = int(settings.get("workers", 1)), _program(summary, point)
    if settings.get("work") == CREATE_FILES and program:
        created = next(flowop for flowop in program.flowops if flowop.call == "createfile")
        rate = Cell(with_interval(created.rate_per_s), "files made, written, closed and removed")
        times = [
            Cell(with_interval(found), "of making the file alone")
            for found in (created.p50_ns, created.p99_ns)
        ]
    elif program:
        threads = program.threads
        most = max(program.flowops, key=lambda flowop: flowop.bytes)
        rate, *times = (
            Cell(with_interval(found), f"of the flowop {most.name} ({most.call}), which moves the most bytes")
            for found in (most.rate_per_s, most.p50_ns, most.p99_ns)
        )
    return (
        Cell(name),
        Cell(str(taking_part * threads)),
        moved,
        rate,
        *times,
        *(_cell(point, f"{machine}.{outcome}") for _, outcome, _ in _MOVED),
        _from_cache(point),
        *(_cell(point, f"{machine}.{role}_cpus_busy", unit=False) for role in (SERVER, CLIENT_DAEMON)),
        _cell(point, f"{machine}.cpu_busy_ratio"),
        Cell(short(point.limiter), limiter_sentence(point.limiter)),
    )


def _from_cache(point: PointSummary) -> Cell:
    """State the share that the server's page cache gave, in words where it is nothing or all."""
    cell, found = _cell(point, "server_cached_ratio"), point.outcomes.get("server_cached_ratio")
    if found is None or found.estimate is None or _SHARE < found.estimate < 1 - _SHARE:
        return cell
    given = f"its disk gave {1 - found.estimate:.1%} of the bytes read"
    if found.estimate > _SHARE:
        return Cell("all", given)
    if found.estimate < -_SHARE:
        # Or the rate of the disk would be taken for what clients needed.
        return Cell(f"none, {1 - found.estimate:.0%} read", f"{given}: it read ahead")
    return Cell("none", given)


def _program(summary: CampaignSummary, point: PointSummary) -> FoundProgram | None:
    """The program of a point, which has all of the point's levels."""
    labels: Mapping[str, str] = point.labels
    return next(
        (
            p
            for p in summary.programs
            if all(p.labels.get(name, text) == text for name, text in labels.items())
        ),
        None,
    )


def _cell(point: PointSummary, name: str, *, unit: bool = True) -> Cell:
    found: Estimate | None = point.outcomes.get(name)
    if found is None or found.estimate is None:
        return Cell("–", (found.missing if found else None) or "")
    return Cell(
        with_interval(found, name.rpartition(".")[2], unit=unit), details(found, name.rpartition(".")[2])
    )
