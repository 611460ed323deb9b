"""Rows of a campaign's trials in memory: all of them where they are few, else those of some trials at a time.

A campaign may have more rows than a machine has memory. Then each trial's are read when somebody asks for them, and let go when
others are asked for: whoever goes through the trials one by one reads each once, and with `in_turn` those of several at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from operator import attrgetter
from typing import Any

from iodyno.analysis.histogram import Histogram
from iodyno.analysis.host_data import ClassCounts, HostData, merged_histograms
from iodyno.analysis.readings import Sheet, number_of, trial_of
from iodyno.analysis.records import Record, parts_of
from iodyno.analysis.trial import Trial
from iodyno.core.errors import StoreError
from iodyno.core.outcome import split_beside
from iodyno.store.engine import listed, quoted
from iodyno.store.reader import Campaign
from iodyno.store.schema import BACKGROUND, MANIFEST, TRIALS, part_file

ROWS_HELD = 500_000
"""Rows that are in memory at a time (chosen: some 50 MB, and sixty trials of the shipped studies; those that are let go are read
again by each part of a report that asks for them). Half of them is read at once, as a query costs as much as a thousand rows."""
METRICS_USED = frozenset(
    (
        *("arrivals", "block", "ceph", "cgroup", "connect", "cpu", "cycles", "datagram", "disk", "exact"),
        *(
            "interrupts",
            "lock",
            "napi",
            "net",
            "nfs",
            "nfsd",
            "numa",
            "part",
            "pressure",
            "process",
            "qdisc",
            "role",
            "sched",
        ),
        *("server", "stream", "syscalls", "target", "tcp", "waits", "writeback", "zerocopy", "zfs"),
    )
)
"""Families of metrics (`FAMILY.NAME`) that the analysis uses all of."""
# Times of each worker are of use only in all, and there may be thousands of workers.
_FOLDED = ("thread.run_ns", "thread.wait_ns")
METRICS_USED_IN_PART: Mapping[str, Callable[[str, str], bool]] = {
    "softirqs": lambda _metric, label: label.endswith("NET_RX"),
    "softnet": lambda metric, _label: metric == "softnet.processed",
    "tcp_ip": lambda _metric, label: label.startswith("counter=Udp"),
    "thread": lambda metric, _label: metric in ("thread.busiest_run_ns", "thread.workers", *_FOLDED),
}
"""Those of which it uses what these say of metric and label."""
METRICS_NOT_USED = frozenset(("application", "memory", "reclaim", "syscall"))
"""Those that are stored for whoever looks at frames. A metric of none of these three is an error, and not left out in silence."""
# What histograms of service times are of.
_SERVICE_TIMES = ("write", "read", "io")
_ALL_WORKERS = "worker=all"
_PARTS = "parts"


class HeldRows:
    """Reads the rows of trials that count. Raises StoreError for rows that cannot be read."""

    def __init__(self, campaign: Campaign, trials: Sequence[Trial]) -> None:
        self._campaign = campaign
        self._stored = {stored.name: stored for stored in campaign.trials}
        self._trials = {trial.name: trial for trial in trials if trial.finished}
        self._due: deque[Trial] = deque()
        self._held: dict[str, Trial] = {}
        self._rows = 0
        self._sensors: Collection[str] | None = None
        self._times = True
        self.come_when_asked = False
        self.processes = 1

    def read(self) -> None:
        """Reads all of them, or makes each come when it is asked for."""
        if sum(map(self._rows_in, self._trials)) <= ROWS_HELD:
            self._fill([*self._trials.values()])
            return
        self.come_when_asked = True
        for trial in self._trials.values():
            for host in _hosts_of(trial):
                host.fetch = partial(self._fetch, trial)
                host.without_rows()

    @contextmanager
    def of(self, sensors: Collection[str] | None, *, times: bool = True) -> Iterator[None]:
        """Meanwhile, rows that come when they are asked for are those of these sensors alone (None: of all), with all records;
        without `times`, without histograms and classes.
        """
        self._let_go()
        self._sensors, self._times = sensors, times
        try:
            yield
        finally:
            self._let_go()
            self._sensors, self._times = None, True

    def in_turn(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        """Give these trials in their order, and read rows of several that come next at a time. A trial of another dataset has its
        own.
        """
        each = list(trials)
        due = deque(self._trials[trial.name] for trial in each if self._has(trial))
        for trial in each:
            self._due = due
            yield trial
            if self._has(trial):
                due.popleft()

    def _has(self, trial: Trial) -> bool:
        return trial.finished and trial.name in self._trials

    def _let_go(self) -> None:
        for trial in self._held.values():
            _without_rows(trial)
        self._held, self._rows = {}, 0

    def _fetch(self, trial: Trial) -> None:
        wanted, rows = [trial], self._rows_in(trial.name)
        for other in islice(self._due, 1, None) if self._due and self._due[0] is trial else ():
            if other.name not in self._held:
                rows += self._rows_in(other.name)
                if rows > ROWS_HELD // self.processes // 2:
                    break
                wanted.append(other)
        while self._held and self._rows + rows > ROWS_HELD // self.processes:
            gone = self._held.pop(next(iter(self._held)))
            self._rows -= self._rows_in(gone.name)
            _without_rows(gone)
        self._fill(wanted)
        for each in wanted:
            self._held[each.name] = each
            self._rows += self._rows_in(each.name)

    def _fill(self, wanted: Sequence[Trial]) -> None:
        stored = [self._stored[each.name] for each in wanted]
        with self._campaign.reading(stored) as connection:
            fill(connection, self._campaign.sources(stored), wanted, sensors=self._sensors, times=self._times)

    def _rows_in(self, trial: str) -> int:
        return sum(int(part["rows"]) for part in self._stored[trial].manifest["parts"].values())


def _hosts_of(trial: Trial) -> list[HostData]:
    """All that a trial has rows of, each once: of clients on one machine `hosts` has the first alone."""
    beside = [host for each in trial.bystanders.values() for host in each.hosts.values()]
    own = [host for host in trial.hosts.values() if not host.made_of]
    every = (*own, *trial.clients.values(), *trial.members.values(), *beside)
    return list({id(host): host for host in every}.values())


def _without_rows(trial: Trial) -> None:
    """Lets go of all rows of a trial, and of what was made of them."""
    for host in (*_hosts_of(trial), *trial.hosts.values()):
        host.without_rows()


def fill(
    connection: Any,
    sources: Mapping[str, str],
    trials: Iterable[Trial],
    *,
    idle: bool = False,
    sensors: Collection[str] | None = None,
    times: bool = True,
) -> None:
    """Puts the rows of trials that count where they belong. `sources`: what each part is read from; `idle`: no trials of it;
    `sensors`: those whose readings are wanted, None: all; `times`: whether histograms and classes are.
    """
    by_name = {trial.name: trial for trial in trials if trial.finished}
    for each in by_name.values():
        for host in _hosts_of(each):
            host.with_no_rows()

    def rows(part: str, columns: str) -> Iterable[tuple[Any, ...]]:
        # Of a part without rows no file is opened.
        if not any(_rows_in(trial.manifest, part) for trial in by_name.values()):
            return ()
        found = connection.execute(
            f'SELECT trial, host, "index", {columns} FROM {sources[part]}'
        ).fetchnumpy()
        return zip(*(found[name].tolist() for name in found), strict=True)

    @cache
    def end_of(trial: str, host: str) -> HostData:
        beside, name = split_beside(host)
        found = by_name[trial].bystanders.get(beside) if beside else by_name[trial]
        end = found and (found.members.get(name) or found.hosts.get(name) or found.clients.get(name))
        if not end:
            raise StoreError(
                f"is not what was written: hosts: it lacks {host}, of which the trial {trial} has records",
                where=f"{BACKGROUND if idle else TRIALS}/{trial}/{MANIFEST}",
                advice="put the file back as it was, from a copy of the campaign",
            )
        return end

    load = '"window", begin_ns, end_ns, bytes, operations, connections_active, connections_lost'
    for trial, host, index, window, *counts in rows("records", load):
        end_of(trial, host).records.append(Record(index, window, *counts))
    for each in by_name.values():
        for host in _hosts_of(each):
            host.records.sort(key=attrgetter("index"))
    for trial, host, index, name, moved, operations, errors in (
        rows("classes", '"class", bytes, operations, errors') if times else ()
    ):
        by_index = end_of(trial, host).classes.setdefault(name, {})
        by_index[index] = ClassCounts(moved, operations, errors)
    for trial, host, index, operation, total, sum_ns, buckets, counts in (
        rows("histograms", "operation, count, sum_ns, buckets, counts") if times else ()
    ):
        end = end_of(trial, host)
        found = Histogram(total, sum_ns, memoryview(buckets), memoryview(counts))
        metric, sensed, label = operation.partition("[")
        if sensed:
            end.sensed_times.setdefault((metric, label.removesuffix("]")), {})[index] = found
        elif operation in _SERVICE_TIMES:
            end.histograms[index] = found
        else:
            end.more_histograms.setdefault(operation, {})[index] = found
    for one in by_name.values():
        for client in one.clients.values():
            _add_up_responses(client)
    if sensors is not None and not sensors:
        return
    among = "true" if sensors is None else f"sensor IN ({', '.join(map(quoted, sensors))})"
    names = list(by_name)
    number = number_of(f"list_position({listed(names)}, trial)::BIGINT", '"index"')
    sheets: dict[tuple[str, str], Sheet] = {}
    for host, sensor, numbers, spans_ns, costs_ns, missing in _grouped(
        connection,
        sources["sensors"],
        "host, sensor",
        among,
        (number, "span_ns", "cost_ns", "coalesce(missing, '')"),
    ):
        sheets[host, sensor] = sheet = Sheet(numbers, spans_ns, costs_ns, missing)
        for place, readings in sheet.by_trial():
            end_of(names[place - 1], host).readings[sensor] = readings
    of_workers = f"CASE WHEN metric IN {_FOLDED} THEN {quoted(_ALL_WORKERS)} ELSE label END AS label"
    for host, sensor, metric, label, numbers, values in _grouped(
        connection, sources["series"], f"host, sensor, metric, {of_workers}", among, (number, "value")
    ):
        family = metric.partition(".")[0]
        name = names[trial_of(numbers[0]) - 1]
        if family in METRICS_USED or (
            family in METRICS_USED_IN_PART and METRICS_USED_IN_PART[family](metric, label)
        ):
            if (readings_of := sheets.get((host, sensor))) is None:
                raise StoreError(
                    f"has a value of the sensor {sensor} of {host}, of which {part_file('sensors')} has no reading",
                    where=f"{BACKGROUND if idle else TRIALS}/{name}/{part_file('series')}",
                    advice="repeat the trial: remove its folder, then `iodyno run --resume`",
                )
            readings_of.add(metric, label, numbers, values)
        elif family not in METRICS_USED_IN_PART and family not in METRICS_NOT_USED:
            raise StoreError(
                f"holds the metric {metric} of the sensor {sensor}, which this version of iodyno does not know",
                where=f"{BACKGROUND if idle else TRIALS}/{name}/{part_file('series')}",
                advice="upgrade: pip install --upgrade iodyno",
            )
    for each in by_name.values():
        for end in _hosts_of(each):
            if (cut := end.readings.pop(_PARTS, None)) is not None:
                end.records = [
                    replace(record, parts=parts_of(record, cut[record.index].values))
                    if record.index in cut
                    else record
                    for record in end.records
                ]


def _grouped(
    connection: Any, source: str, keys: str, condition: str, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """The columns of all rows that have the same keys, as arrays behind these."""
    lists = ", ".join(f"list({column}) AS column{place}" for place, column in enumerate(columns))
    found = connection.execute(
        f"SELECT {keys}, {lists} FROM {source} WHERE {condition} GROUP BY ALL"
    ).fetchnumpy()
    return zip(*(found[name].tolist() for name in found), strict=True)


def _rows_in(manifest: Mapping[str, Any], part: str) -> int:
    # A campaign of an older version lacks the parts that came later.
    return int((manifest["parts"].get(part_file(part)) or {"rows": 0})["rows"])


def _add_up_responses(client: HostData) -> None:
    """Response times of all operations, where the agent counted them by class alone."""
    every = client.more_histograms.get("response_time", {})
    by_class = [h for name, h in client.more_histograms.items() if name.startswith("response.")]
    if by_class and not any(histogram.count for histogram in every.values()):
        client.more_histograms["response_time"] = merged_histograms(by_class)
