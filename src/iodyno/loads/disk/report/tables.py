"""Results of a load on disks, in tables and sentences: operations, times and cost of each; of all clients and of each.

Nothing here speaks of goodput: what a disk does is counted where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from iodyno.analysis.compare import change
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.outcome import Estimate
from iodyno.core.volume import ROLES
from iodyno.core.warnings import WarningCode
from iodyno.loads.base.report import End
from iodyno.loads.disk.core.parameters import NULL_TARGET
from iodyno.loads.disk.report.served import served_table
from iodyno.report.layout import Layout, layout_of, place_name, sections
from iodyno.report.limiter import cell as limiter_cell
from iodyno.report.numbers import between, details, digits, with_interval
from iodyno.report.sentence import Sentence
from iodyno.report.table import Cell, Column, Table, level_cell
from iodyno.report.void import MARK, WHY, costs_at, is_void

TIMES = {"p50": "p50", "p99": "p99"}
COST = "cpu_us_per_io"
_EVEN = 0.98
"""Part of the mean rate that the slowest client has where nobody is called slow (chosen: as far as trials differ)."""
_MEAN_TIME = "service_time_mean_ns"
_CLIENT_ROWS = 40
"""Rows of a table of clients (chosen: what is still looked at), unless one point has more."""
_MACHINES_MOST = 3
"""Machines with columns of their own (chosen: as many as a table has room for); every outcome has all of them."""


def storage_tables(summary: CampaignSummary) -> list[Table]:
    """A row for each point, a table for each level of the section factor; then the clients, where there are several."""
    layout = layout_of(summary)
    factors = [*layout.rest, *([layout.along] if layout.along else [])]
    times = _times(summary)
    machines = machines_of(summary)
    columns = [Column(factor.name.replace("_", " "), hint=factor.name) for factor in factors]
    columns += [
        Column("IO/s", hint="reads and writes completed per second, of all clients"),
        Column("moved", hint="bytes read and written per second"),
    ]
    columns += [Column(title, hint=hint) for _, title, hint in times]
    columns += [Column(*_cost_head(summary, name, machines)) for name in machines]
    columns += [
        Column("device busy", name, "share of the time with an operation in flight")
        for name in (machines if uses_device(summary) else ())
    ]
    if _share_alike(summary):
        columns.append(Column("fairness", hint="Jain's index of the clients' IO/s"))
    columns.append(Column("Limiter", hint="what stops the rate from rising"))
    names = storage_names(summary)
    found = []
    for level, points in sections(summary, layout):
        # A level may have no times of a kind: writes that are synchronous by themselves are followed by no fsync.
        without = {name for name, _, _ in times if not any(p.knows(name) for p in points)}
        shown = [n for n, name in enumerate([*(f.name for f in factors), *names]) if name not in without]
        shown.append(len(columns) - 1)
        rows = []
        for point in points:
            row = [level_cell(point, factor.name) for factor in factors]
            row += [_cell(point, name) for name in names]
            row.append(limiter_cell(point.id, point.limiter))
            rows.append(tuple(row[n] for n in shown))
        title, heads = _title(summary, layout, level), tuple(columns[n] for n in shown)
        found.append(Table(title, heads, tuple(rows), len(factors)))
    served = [
        table for machine in machines_of(summary)[:1] if (table := served_table(summary, layout, machine))
    ]
    return [
        *served,
        *found,
        *_role_table(summary, layout),
        *_client_table(summary, layout),
        *_target_table(summary, layout),
    ]


def storage_names(summary: CampaignSummary) -> list[str]:
    """The outcomes in the columns of the points' tables, in order."""
    machines = machines_of(summary)
    return [
        *("iops", "bytes_per_s", *(name for name, _, _ in _times(summary))),
        *(f"{machine}.{COST}" for machine in machines),
        *(f"{machine}.device_busy_ratio" for machine in (machines if uses_device(summary) else ())),
        *(["fairness"] if _share_alike(summary) else []),
    ]


def storage_sentences(
    summary: CampaignSummary,
    range_of: Callable[[str, str], Iterable[Sentence]],
    along: Callable[[str, str], Iterable[Sentence]],
) -> Iterator[Sentence]:
    """Yield the answers of the campaign about a disk. `range_of` and `along` say of an outcome how far it ranges, and how it goes
    along the main factor.
    """
    if asked := asks_mean_time(summary):
        kind = asked.removesuffix(_MEAN_TIME).rstrip("_")
        whose = f"a {kind}" if kind else "an operation"
        yield from range_of(asked, f"The mean service time of {whose} is")
        yield from _mean_hides(summary, asked, whose)
        yield from along(asked, f"the mean service time of {whose}")
    costs_first = bool(summary.asked) and summary.asked[0].endswith(f".{COST}")
    if costs_first:
        machine = summary.asked[0].rpartition(".")[0]
        yield from range_of(summary.asked[0], costs_at(summary, summary.asked[0], "an operation"))
        yield from along(summary.asked[0], f"the CPU time of an operation on {machine}")
    yield from range_of("iops", "The rate in operations per second is")
    yield from along("iops", "the rate")
    for name, _, hint in _times(summary):
        if name.endswith("p99_ns"):
            yield from range_of(name, f"The {hint} is")
    for machine in machines_of(summary):
        if not costs_first or f"{machine}.{COST}" != summary.asked[0]:
            cost = f"{machine}.{COST}"
            yield from range_of(cost, costs_at(summary, cost, "an operation"))
    yield from map(Sentence, _slowest(summary))


def asks_mean_time(summary: CampaignSummary) -> str | None:
    """The first outcome that the experiment names, where that is a mean service time."""
    first = summary.asked[0] if summary.asked else ""
    return first if first.endswith(_MEAN_TIME) else None


def _mean_hides(summary: CampaignSummary, asked: str, whose: str) -> Iterator[Sentence]:
    """State where the mean is farthest above the median, if anywhere their intervals do not overlap."""
    found = []
    for point in summary.points:
        mean, half = (point.outcomes.get(asked.replace("_mean_", f"_{name}_")) for name in ("mean", "p50"))
        if mean and half and mean.estimate and half.estimate and change(half, mean).verdict == "rises":
            found.append((mean.estimate / half.estimate, point, mean, half))
    if not found:
        return
    ratio, point, mean, half = max(found, key=lambda each: each[0])
    place = place_name(point, layout_of(summary).factors)
    rare = point.outcomes.get(asked.replace("_mean_", "_p999_"))
    slow = f", and one in a thousand more than {between(rare)}" if rare and rare.estimate else ""
    yield Sentence(
        f"The mean tells little of {whose}: it is {digits(ratio)} times the median{f' ({place})' if place else ''}:"
        f" {between(mean)}, where half of them take no more than {between(half)}{slow}.",
        about="spread",
    )


def machines_of(summary: CampaignSummary) -> list[str]:
    """The first hosts that tell of a machine: the first client of each, and hosts that serve."""
    return [
        host.name
        for host in summary.hosts
        if any(point.knows(f"{host.name}.cpu_busy_ratio") for point in summary.points)
    ][:_MACHINES_MOST]


def uses_device(summary: CampaignSummary) -> bool:
    """Tell whether some of the load is on a device or on files; the target null is on neither."""
    common = (summary.workload.get("settings") or {}).get("target", summary.workload.get("target"))
    return any(point.levels.get("target", common) != NULL_TARGET for point in summary.points)


def _of_files(summary: CampaignSummary) -> bool:
    """Tell whether all of the load are file programs; files may also be one level of a load on blocks."""
    return bool(summary.workload.get("kind") == "files")


def _clients(summary: CampaignSummary) -> int:
    return len(summary.workload.get("hosts") or ())


def _share_alike(summary: CampaignSummary) -> bool:
    """Tell whether there are clients that do the same, so that they can be fair to each other."""
    return _clients(summary) > 1 and not summary.workload.get("own")


def _times(summary: CampaignSummary) -> list[tuple[str, str, str]]:
    """Outcome, head of its column, and words, of the times that any point has."""
    found = []
    if _of_files(summary):
        # Flowops have rows of their own.
        return [
            ("service_time_p50_ns", "p50", "median service time of all flowops"),
            ("service_time_p99_ns", "p99", "99th percentile of the service time of all flowops"),
        ]
    for kind in ("read", "write", "fsync"):
        for quantile, head in TIMES.items():
            words = {"p50": "median service time", "p99": "99th percentile of the service time"}[quantile]
            found.append(
                (
                    f"{kind}_service_time_{quantile}_ns",
                    f"{kind} {head}",
                    f"{words} of {'an' if kind == 'fsync' else 'a'} {kind}",
                )
            )
    for quantile, head in TIMES.items():
        words = {"p50": "median response time", "p99": "99th percentile of the response time"}[quantile]
        found.append(
            (f"response_time_{quantile}_ns", f"response {head}", f"{words} (from when it was to begin)")
        )
    return [entry for entry in found if any(p.knows(entry[0]) for p in summary.points)]


def _role_table(summary: CampaignSummary, layout: Layout) -> list[Table]:
    """CPU time of an operation by whose it is, where servers or daemons are known on a host."""
    tables = []
    for machine in machines_of(summary):
        names = [f"{machine}.cpu_{role}_us_per_io" for role in ("generator", *ROLES, "rest")]
        names += [f"{machine}.{COST}", f"{machine}.cpu_without_generator_us_per_io"]
        served = [f"{machine}.cpu_{role}_us_per_io" for role in ROLES]
        if not any(point.knows(name) for point in summary.points for name in served):
            continue
        rows = tuple(
            (
                Cell(place_name(point, layout.factors) or point.id),
                *(_cell(point, name) for name in names),
            )
            for point in summary.points
            if point.finished
        )
        columns = (
            Column("point"),
            Column("generator", hint="the load itself, which no protocol is to blame for"),
            *(
                Column(role.replace("_", " "), hint=f"processes of the {role.replace('_', ' ')}")
                for role in ROLES
            ),
            Column("rest", hint="the kernel's own threads, interrupts, other tasks"),
            Column("all"),
            Column("without the generator", hint="all less the generator"),
        )
        tables.append(Table(f"CPU time of an operation on {machine}, by role, us", columns, rows))
    return tables


def _client_table(summary: CampaignSummary, layout: Layout) -> list[Table]:
    clients = [str(name) for name in summary.workload.get("hosts") or ()]
    if len(clients) < 2:
        return []
    names = ("iops", "bytes_per_s", "service_time_p50_ns", "service_time_p99_ns")
    heads = ("IO/s", "moved", "p50", "p99")
    finished = [point for point in summary.points if point.finished and _rates(point, clients)]
    # Of many clients at many points only their spread is told, in the outcomes; the least fair is among those that are shown.
    shown: list[PointSummary] = []
    for point in sorted(finished, key=lambda one: one is not _least_fair(finished)):
        if shown and sum(len(_rates(one, clients)) for one in (*shown, point)) > _CLIENT_ROWS:
            break
        shown.append(point)
    rows = [
        (
            Cell(place_name(point, layout.factors) or point.id),
            Cell(f"{client}, until it was lost" if client in _lost(point) else client),
            *(_cell(point, f"{client}.{n}") for n in names),
        )
        for point in finished
        if point in shown
        for client in _rates(point, clients)
    ]
    part = f", at {len(shown)} of {len(finished)} points: the least fair and the first (--json has all)"
    title = "Each client" + (part if len(shown) < len(finished) else "")
    columns = (Column("point"), Column("client"), *(Column(head) for head in heads))
    return [Table(title, columns, tuple(rows), keys=2)] if rows else []


def _target_table(summary: CampaignSummary, layout: Layout) -> list[Table]:
    """Return the table of each target, where a client has several."""
    heads = {
        "operations_per_s": "IO/s",
        "bytes_per_s": "moved",
        "service_time_p50_ns": "p50",
        "service_time_p99_ns": "p99",
        "device_busy_ratio": "device busy",
        "errors_per_s": "failed/s",
    }
    points = [point for point in summary.points if point.targets]
    each = [(point, one) for point in points for one in point.targets]
    if not any(one.estimates["errors_per_s"].estimate for _, one in each):
        heads.pop("errors_per_s")
    several = len({one.host for _, one in each}) > 1
    rows = [
        (
            Cell(place_name(point, layout.factors) or point.id),
            *([Cell(one.host)] if several else []),
            Cell(one.target),
            Cell(one.operation),
            *(_estimate_cell(one.estimates[name], name) for name in heads),
        )
        for point, one in each[:_CLIENT_ROWS]
    ]
    names = ("point", *(["client"] if several else []), "target", "operation")
    columns = (*map(Column, names), *(Column(head) for head in heads.values()))
    part = f", {len(rows)} of {len(each)} (--json has all)" if len(rows) < len(each) else ""
    return [Table(f"Each target{part}", columns, tuple(rows), keys=len(names))] if rows else []


def _estimate_cell(found: Estimate, outcome: str) -> Cell:
    if found.estimate is None:
        return Cell("–", found.missing or "")
    return Cell(with_interval(found, outcome), details(found, outcome), estimates=(found,))


def _rates(point: PointSummary, clients: Iterable[str]) -> dict[str, float]:
    """Operations per second of each client that took part."""
    found = {client: point.outcomes.get(f"{client}.iops") for client in clients}
    return {client: e.estimate for client, e in found.items() if e and e.estimate is not None}


def _lost(point: PointSummary) -> set[str]:
    """The clients without which a trial of the point went on."""
    said = (warning.where for warning in point.warnings if warning.code is WarningCode.CLIENT_LOST)
    return {where.rpartition("host ")[2] for where in said}


def _least_fair(points: Sequence[PointSummary]) -> PointSummary | None:
    known = {
        point.id: e.estimate
        for point in points
        if (e := point.outcomes.get("fairness")) and e.estimate is not None
    }
    return min((point for point in points if point.id in known), key=lambda one: known[one.id], default=None)


def _slowest(summary: CampaignSummary) -> Iterator[str]:
    """Name the client that was served worst, where clients differ by more than their intervals: at the least fair point, since
    what one of several loads is to another is no unfairness.
    """
    clients = [str(name) for name in summary.workload.get("hosts") or ()]
    if not _share_alike(summary):
        return
    lost = sorted({client for point in summary.points for client in _lost(point)})
    shares: dict[str, dict[str, float]] = {}
    for point in summary.points:
        rates = _rates(point, [client for client in clients if client not in _lost(point)])
        if len(rates) > 1 and (mean := sum(rates.values()) / len(rates)):
            shares[point.id] = {client: rate / mean for client, rate in rates.items()}
    worst = _least_fair([point for point in summary.points if point.id in shares])
    if worst is None:
        return
    most = max(len(of_point) for of_point in shares.values())
    index = (
        f" Fairness (Jain's index) is {between(_index(worst.outcomes['fairness'], len(shares[worst.id])))}"
    )
    index += "." if len(shares) == 1 else " at the least."
    if lost:
        index += f" Lost on the way, and not among them: {', '.join(lost)}."
    least = min(share for of_point in shares.values() for share in of_point.values())
    if least > _EVEN:
        yield f"All {most} clients have the same rate to within {1 - least:.1%} of its mean.{index}"
        return
    here = shares[worst.id]
    name = min(here, key=lambda client: here[client])
    throughout = all(min(of_point, key=lambda c: of_point[c]) == name for of_point in shares.values())
    text, share = f"Of {len(here)} clients {name} is the slowest", f"{here[name]:.1%} of the mean rate"
    place = place_name(worst, layout_of(summary).factors)
    if len(shares) == 1:
        yield f"{text}, with {share}.{index}"
    elif throughout:
        fewest = min(len(of_point) for of_point in shares.values())
        if fewest != most:
            text = f"Of {fewest} to {most} clients {name} is the slowest"
        yield f"{text} at every point, with {share} at the least fair one ({place}).{index}"
    else:
        yield f"{text} at the least fair point ({place}), with {share}; at others it is another one.{index}"


def _cost_head(summary: CampaignSummary, machine: str, machines: Sequence[str]) -> tuple[str, str, str]:
    """Title, host and hint of the CPU time of an operation: where several machines have one, it says over whose operations."""
    if len(machines) < 2:
        return "us of CPU/IO", machine, "background subtracted"
    if machine in (summary.workload.get("hosts") or ()):
        whose = "CPU time of its CPUs over the operations of the clients on them"
        return "us of own CPU/IO", machine, f"{whose}, background subtracted"
    whose = "CPU time of a host without a load, over the operations of all clients"
    return "us of CPU/IO of all", machine, f"{whose}, background subtracted"


def _index(found: Estimate, clients: int | None = None) -> Estimate:
    """Jain's index with no more of its interval than it can have: 1/n, where one of n has all, to 1."""
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(found.low, 1 / clients if clients else 0.0), high=min(found.high, 1.0))


def _title(summary: CampaignSummary, layout: Layout, level: object) -> str:
    settings = summary.workload.get("settings") or {}
    target = settings.get("target")
    load = "File program" if _of_files(summary) else "Disk load"
    what = f"{load} {'in' if _of_files(summary) else 'on'} {target}" if target else load
    most = [int(point.levels["clients"]) for point in summary.points if "clients" in point.levels]
    clients = max(most, default=int(settings.get("clients", _clients(summary))))
    what += f", {clients} clients" if clients > 1 else ""
    if layout.section is None:
        return what
    labels = dict(zip(layout.section.levels, summary.factor_labels[layout.section.name], strict=True))
    return f"{what}, {_name(layout.section)} = {labels[level]}"  # type: ignore[index]


def _name(factor: FactorLevels) -> str:
    return factor.name.replace("_", " ")


def _cell(point: PointSummary, name: str) -> Cell:
    found = point.outcomes.get(name)
    if found is None:
        return Cell("–")
    if name == "fairness":
        found = _index(found)
    if found.estimate is None:
        return Cell("skipped" if point.skipped else "–", found.missing or "")
    outcome = name.rpartition(".")[2]
    link = f"functions-{point.id}" if outcome == COST else ""
    text, hint = with_interval(found, outcome), details(found, outcome)
    void = is_void(point, name)
    return Cell(text + MARK * void, hint + f"; {WHY}" * void, link, estimates=(found,))


def ends(summary: CampaignSummary) -> list[End]:
    """The numbers of the first screen."""
    times = [(name, hint) for name, _, hint in _times(summary) if name.endswith("p99_ns")]
    words = [hint.removeprefix("99th percentile").partition(" (")[0] for _, hint in times]
    costs = [f"{machine}.{COST}" for machine in machines_of(summary)]
    return [
        End("iops", "Operations", "Most operations"),
        *(End(name, f"p99{of}", f"Longest p99{of}") for (name, _), of in zip(times[:1], words, strict=False)),
        *(End(name, "CPU of an operation", "Highest CPU cost of an operation") for name in costs[:1]),
    ]
