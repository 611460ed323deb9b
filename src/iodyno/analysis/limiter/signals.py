"""Signals of a trial: one number per interval record of the measured window, for the rules to hold against thresholds.

Ratios are shares of the interval, 0 to 1, unless they say otherwise. A signal that cannot be had says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps

from iodyno.analysis import arrivals, datagrams
from iodyno.analysis.cpu_classes import by_cpu
from iodyno.analysis.host_data import HostData
from iodyno.analysis.observer import looked
from iodyno.analysis.readings import Reading
from iodyno.analysis.trial import Trial
from iodyno.core.tunable import asked_of

_TICK_NS = 10_000_000
_TICKS_LEAST = 100
"""A window of fewer ticks of /proc/stat knows a share to no better than 1 %; then the whole measured window counts."""
_LONG = 0.1
"""Operations that last longer than this share of the window straddle its ends too often (chosen: an error of a tenth)."""
ALL_WORKERS = "worker=all"
NEVER = "never"
"""Source of a signal that cannot be anything but 0, whatever happens: it is no evidence."""


@dataclass(frozen=True)
class Signal:
    """Values by index of the record; empty with `missing` saying why. `source`: the sensor."""

    values: Mapping[int, float]
    unit: str
    source: str
    missing: str | None = None


def absent(source: str, why: str) -> Signal:
    """A signal that cannot be had."""
    return Signal({}, "1", source, why)


@dataclass(frozen=True)
class View:
    """One trial, as seen from one of its ends."""

    trial: Trial
    host: HostData
    sender: HostData
    receiver: HostData
    cpus: int = field(default=0)

    @classmethod
    def of(cls, trial: Trial, role: str) -> View | None:
        """The view of the end with that role; None when the trial lacks an end.

        Of a load that needs no other end the role is `alone`: the first client, which reads the machine for all on it.
        """
        if trial.clients:
            one = next((host for name, host in trial.hosts.items() if name in trial.clients), None)
            if role != "alone" or one is None or not one.measured:
                return None
            return cls(trial, one, one, one, len(one.cpus))
        sender, receiver = trial.end("send"), trial.end("receive")
        if sender is None or receiver is None or not sender.measured or not receiver.measured:
            return None
        host = sender if role == "send" else receiver
        return cls(trial, host, sender, receiver, len(host.cpus))

    @property
    def connections(self) -> int:
        """Connections of the trial."""
        return self.trial.connections

    @property
    def workers(self) -> int:
        """Worker threads of the host that the view is of."""
        return int((self.host.manifest.get("ready") or {}).get("workers") or self.connections)

    def setting_of_sender(self, tunable: str) -> int | None:
        """Return the value that the experiment sets on the sending host, by the tunable's name."""
        name = self.sender.name
        found = asked_of(self.trial.settings, (name,))[name].get(tunable)
        return found if isinstance(found, int) else None


SignalOf = Callable[[View], Signal]


def once(signal: SignalOf) -> SignalOf:
    """The signal, worked out once for each host of a trial: others are made of it."""

    @wraps(signal)
    def kept(view: View) -> Signal:
        key = ("signal", signal.__name__)
        known: tuple[Trial, Signal] | None = view.host.derived.get(key)
        if known is None or known[0] is not view.trial:
            known = view.host.derived[key] = view.trial, signal(view)
        return known[1]

    return kept


def grown(
    host: HostData, sensor: str, compute: Callable[[Reading], float | None], *, unit: str = "1"
) -> Signal:
    """The signal that `compute` makes of every reading of the sensor in the measured window, for the records that it
    covers.
    """
    values = {}
    for reading, records in host.covered(sensor):
        value = compute(reading) if reading.span_ns > 0 else None
        if value is not None:
            values.update(dict.fromkeys((record.index for record in records), value))
    return Signal(values, unit, sensor) if values else absent(sensor, host.why_missing(sensor))


def of_window(host: HostData, value: float | None, sensor: str, why: str = "", *, unit: str = "1") -> Signal:
    """A value of the whole measured window, for every record of it."""
    if value is None:
        return absent(sensor, why or host.why_missing(sensor))
    return Signal({record.index: value for record in host.measured}, unit, sensor)


def total(reading: Reading, metric: str, labels: Iterable[str] | None = None) -> float | None:
    """Sum of a metric over its labels; None when it has none."""
    return reading.values.total(metric, labels)


def nothing(view: View) -> Signal:
    """There can be none of it, whatever happens."""
    return Signal({record.index: 0.0 for record in view.sender.measured}, "1", NEVER)


# CPU time


def _has_exact(view: View) -> bool:
    return any(
        ("exact.idle_ns", f"cpu={cpu}") in reading.values
        for reading in view.host.measured_readings("cpu_exact")
        for cpu in view.host.cpus
    )


def _cpu_share(
    view: View,
    exact: Sequence[str],
    states: Sequence[str],
    pick: Callable[[Sequence[float]], float],
) -> Signal:
    """Share of time in classes of `cpu_exact`, else in states of /proc/stat, per CPU; `pick` chooses among the CPUs."""
    host = view.host
    if not host.cpus:
        return absent("cpu_times", f"the CPUs of {host.name} are not known")
    if _has_exact(view):

        def of_exact(reading: Reading) -> float | None:
            spent = by_cpu(reading, exact)
            known = [spent[cpu] / reading.span_ns for cpu in host.cpus if cpu in spent]
            return pick(known) if known else None

        return grown(host, "cpu_exact", of_exact)

    def of_ticks(readings: Sequence[Reading]) -> float | None:
        shares = []
        for cpu in host.cpus:
            keys = [(f"cpu.{state}_ns", f"cpu={cpu}") for state in states]
            whole = [r for r in readings if all(key in r.values for key in keys)]
            span = sum(r.span_ns for r in whole)
            if span:
                shares.append(sum(r.values[key] for r in whole for key in keys) / span)
        return pick(shares) if shares else None

    readings = host.measured_readings("cpu_times")
    if readings and min(r.span_ns for r in readings) < _TICKS_LEAST * _TICK_NS:
        return of_window(host, of_ticks(readings), "cpu_times")
    return grown(host, "cpu_times", lambda reading: of_ticks([reading]))


@once
def cpu_idle_least(view: View) -> Signal:
    """Idle share of the host's busiest CPU."""
    return _cpu_share(view, ("exact.idle_ns",), ("idle", "iowait"), min)


def cpu_idle_mean(view: View) -> Signal:
    """Idle share of the host's CPUs."""
    return _cpu_share(view, ("exact.idle_ns",), ("idle", "iowait"), lambda found: sum(found) / len(found))


def cpu_idle_most(view: View) -> Signal:
    """Idle share of the host's idlest CPU."""
    return _cpu_share(view, ("exact.idle_ns",), ("idle", "iowait"), max)


def interrupts_most(view: View) -> Signal:
    """Share of hard and soft interrupts on the CPU that has most of them."""
    return _cpu_share(view, ("exact.hardirq_ns", "exact.softirq_ns"), ("irq", "softirq"), max)


def interrupts_mean(view: View) -> Signal:
    """Share of hard and soft interrupts on the host's CPUs."""
    return _cpu_share(
        view,
        ("exact.hardirq_ns", "exact.softirq_ns"),
        ("irq", "softirq"),
        lambda found: sum(found) / len(found),
    )


def steal_most(view: View) -> Signal:
    """Stolen share of the CPU that lost most."""
    host = view.host

    def of(reading: Reading) -> float | None:
        keys = [("cpu.steal_ns", f"cpu={cpu}") for cpu in host.cpus]
        known = [reading.values[key] / reading.span_ns for key in keys if key in reading.values]
        return max(known) if known else None

    return grown(host, "cpu_times", of)


@once
def others_cpu(view: View) -> Signal:
    """Share of the host's CPUs that tasks of others have."""
    host = view.host
    if _has_exact(view):
        return _cpu_share(view, ("exact.other_ns",), (), lambda found: sum(found) / len(found))
    # Without exact accounting: what is busy, is no interrupt, and is not the agent's.
    busy = [
        sum(r.values.get((f"cpu.{state}_ns", f"cpu={cpu}"), 0) for state in ("user", "nice", "system"))
        for r in host.measured_readings("cpu_times")
        for cpu in host.cpus
    ]
    own = host.growth("process", "process.cpu_ns")
    if not busy or own is None or not host.measured_ns or not host.cpus:
        return absent("cpu_times", host.why_missing("cpu_times" if not busy else "process"))
    return of_window(
        host, max(0.0, sum(busy) - own) / (host.measured_ns * len(host.cpus)), "cpu_times, process"
    )


def load_cpu_most(view: View) -> Signal:
    """Share that the load takes of the CPU that it takes most of: its tasks and all interrupts."""
    if _has_exact(view):
        return _cpu_share(view, ("exact.app_ns", "exact.hardirq_ns", "exact.softirq_ns"), (), max)
    # /proc/stat does not tell whose time it is on each CPU: what others take is spread over all of them.
    idle, others = cpu_idle_least(view), others_cpu(view)
    if not idle.values or not others.values:
        return idle if not idle.values else others
    values = {i: 1 - v - others.values[i] for i, v in idle.values.items() if i in others.values}
    return Signal(values, "1", others.source)


def agent_cpu(view: View) -> Signal:
    """CPUs' worth of time that the agent takes; 1 is one CPU."""
    return grown(view.host, "process", lambda r: over(total(r, "process.cpu_ns"), r.span_ns), unit="CPU")


def own_code(view: View) -> Signal:
    """Share of the agent's CPU time that it spends in its own code, not in the kernel."""
    host = view.host
    if _has_exact(view) and host.labels("cpu_exact", "exact.app_user_ns"):
        return grown(
            host, "cpu_exact", lambda r: ratio(total(r, "exact.app_user_ns"), total(r, "exact.app_ns"))
        )
    user, system = host.growth("process", "process.user_ns"), host.growth("process", "process.system_ns")
    both = (user or 0) + (system or 0)
    return of_window(host, user / both if user is not None and both else None, "process")


def observer(view: View) -> Signal:
    """Share of one CPU that sensors and kernel programs of the measurement take."""
    host = view.host
    values, found, exact = {}, looked(host), host.readings.get("cpu_exact", {})
    for record in host.measured:
        if record.span_ns <= 0:
            continue
        cost_ns, span_ns = found.get(record.index, (0, 0))
        spent = float(cost_ns)
        if reading := exact.get(record.index):
            spent += total(reading, "exact.observer_ns") or 0.0
        values[record.index] = spent / max(record.span_ns, span_ns)
    return Signal(values, "CPU", "every sensor") if values else absent("every sensor", "no record")


# Threads


def of_workers(view: View, reading: Reading, what: str) -> float | None:
    """Time of all workers from the scheduler, `run` or `wait`: where the agent read a sample of them, as much for each of the
    others.
    """
    found, read = total(reading, f"thread.{what}_ns", (ALL_WORKERS,)), total(reading, "thread.workers")
    return found * view.workers / read if found is not None and read else found


def _threads(view: View, what: str) -> Signal:
    """Mean over the workers of a time from the scheduler, over the interval."""
    workers = view.workers
    return grown(view.host, "threads", lambda r: over(of_workers(view, r, what), r.span_ns * workers))


def thread_busiest(view: View) -> Signal:
    """Share of the interval in which the busiest worker was on a CPU."""
    return grown(view.host, "threads", lambda r: over(total(r, "thread.busiest_run_ns"), r.span_ns))


@once
def run_delay(view: View) -> Signal:
    """Of the time in which the workers were ready to run, the share in which they waited for a CPU."""

    def of(reading: Reading) -> float | None:
        wait, run = (total(reading, f"thread.{what}_ns", (ALL_WORKERS,)) for what in ("wait", "run"))
        # Where none was ready, none waited.
        return None if wait is None or run is None else ratio(wait, wait + run) or 0.0

    return grown(view.host, "threads", of)


@once
def cpu_wait(view: View) -> Signal:
    """Mean share of the interval in which a worker was ready and waited for a CPU."""
    return _threads(view, "wait")


@once
def asleep(view: View) -> Signal:
    """Mean share of the interval in which a worker slept: it neither ran nor was ready to."""
    run, wait = _threads(view, "run"), cpu_wait(view)
    if not wait.values:
        return wait
    return Signal(
        {i: min(1.0, max(0.0, 1 - run.values[i] - wait.values[i])) for i in wait.values if i in run.values},
        "1",
        "threads",
    )


def sender_asleep(view: View) -> Signal:
    """`asleep` of the sender, for the other end."""
    return asleep(replace(view, host=view.sender, cpus=len(view.sender.cpus)))


def nobody_ready(view: View) -> Signal:
    """Share of what the CPUs could do for which no worker was ready: 0 where on average one is for each CPU."""
    slept, most = asleep(view), min(view.workers, view.cpus) or 1
    return replace(
        slept, values={i: max(0.0, 1 - (1 - v) * view.workers / most) for i, v in slept.values.items()}
    )


def cpu_free_least(view: View) -> Signal:
    """Share of a CPU that the load could have more of, on the host that has less: it idles, or others have it for whom the load
    does not wait.
    """
    found = []
    for end in (view.sender, view.receiver):
        at = replace(view, host=end, cpus=len(end.cpus))
        idle, taken, delay = cpu_idle_least(at), others_cpu(at), run_delay(at)
        for signal in (idle, taken, delay):
            if not signal.values:
                return signal
        common = idle.values.keys() & taken.values.keys() & delay.values.keys()
        found.append({i: idle.values[i] + taken.values[i] * (1 - delay.values[i]) for i in common})
    values = {i: min(one[i] for one in found) for i in found[0].keys() & found[1].keys()}
    return Signal(values, "1", "cpu_exact, threads" if _has_exact(view) else "cpu_times, threads")


@once
def in_call(view: View) -> Signal:
    """Share of the measured window in which a connection had an operation in flight (Little's law, X R / N)."""
    host = view.host
    times = host.all_times()
    if not times.count or not host.measured_ns:
        return absent("records", f"no service times of {host.name}")
    if times.time_biased_mean > _LONG * host.measured_ns:
        return absent(
            "records", f"operations of {host.name} are long against the window: those at its ends count wrong"
        )
    # One that is never answered has no time, but is in flight until it is given up.
    calling = times.sum_ns + datagrams.given_up_ns(host)
    return of_window(host, calling / host.measured_ns / view.connections, "records")


def pausing(view: View) -> Signal:
    """Least share of the interval in which the application slept outside its calls: asleep less time in calls."""
    if view.host.role == "receive" and view.trial.settings.get("engine") == "epoll":
        return absent("threads", "a reader with epoll sleeps for data outside its calls too")
    slept, calling = asleep(view), in_call(view)
    if not slept.values or not calling.values:
        return slept if not slept.values else calling
    return Signal(
        {i: max(0.0, value - calling.values[i]) for i, value in slept.values.items() if i in calling.values},
        "1",
        "threads, records",
    )


@once
def blocked(view: View) -> Signal:
    """Share of the interval in which a worker slept inside its calls at least: asleep less what is outside calls."""
    slept, calling = asleep(view), in_call(view)
    if not slept.values or not calling.values:
        return slept if not slept.values else calling
    return Signal(
        {
            i: max(0.0, value - max(0.0, 1 - calling.values[i]))
            for i, value in slept.values.items()
            if i in calling.values
        },
        "1",
        "threads, records",
    )


# The host


def throttled(view: View) -> Signal:
    """Share of the control group's periods in which its CPU time ran out, over the whole measured window."""
    host = view.host
    periods = host.growth("cgroup_cpu", "cgroup.periods")
    stopped = host.growth("cgroup_cpu", "cgroup.throttled_periods")
    if periods is None or stopped is None:
        return absent("cgroup_cpu", host.why_missing("cgroup_cpu"))
    return of_window(host, stopped / periods if periods else 0.0, "cgroup_cpu")


def quota_used(view: View) -> Signal:
    """CPU time that the agent took over the quota of its control group: the job's, else that of the host."""
    quota = (view.host.manifest.get("ready") or {}).get("cpu_quota") or {}
    cpus = ratio(quota.get("quota_ns"), quota.get("period_ns"))
    if cpus is None:
        return absent("experiment", "the job has no CPU quota")
    return grown(view.host, "process", lambda r: over(total(r, "process.cpu_ns"), r.span_ns * cpus))


def _pressure(resource: str) -> SignalOf:
    def of(view: View) -> Signal:
        metric = f"pressure.{resource}_some_ns"
        return grown(view.host, "pressure", lambda r: over(total(r, metric), r.span_ns))

    return of


memory_pressure = _pressure("memory")


def io_pressure(view: View) -> Signal:
    """Time in which some task of the machine waited for storage. A load that touches no file is not among those that wait."""
    if not view.host.job.get("script"):
        return absent("experiment", "the load reads and writes no file")
    return _pressure("io")(view)


def lock_wait(view: View) -> Signal:
    """Time that tasks of the agent waited for kernel locks, in CPUs' worth of time."""
    return grown(view.host, "cpu_exact", lambda r: over(total(r, "lock.contended_ns"), r.span_ns), unit="CPU")


def off_exclusion(view: View) -> Signal:
    """Return the distance of the mean number of operations in flight from one (Little's law): 0 where workers exclude each other.
    Of workers that share no lock, it is by chance where one is in flight.
    """
    if not view.sender.job.get("serialised"):
        return absent("experiment", "the workers share no lock")
    if view.workers < 2:
        return absent("experiment", "one worker has nobody to exclude")
    calling = in_call(view)
    values = {i: abs(value * view.connections - 1) for i, value in calling.values.items()}
    return Signal(values, "1", "records", calling.missing)


def offered_reached(view: View) -> Signal:
    """Arrivals that were begun over those that were due, where the loop is open."""
    if not arrivals.is_open(view.trial):
        return absent("experiment", "the load is closed: no rate is offered")
    # An interval in which nothing was due tells nothing by itself: it is as all of them together.
    in_all = all_begun(view.sender)

    def of(reading: Reading) -> float | None:
        begun, due = total(reading, "arrivals.begun"), total(reading, "arrivals.due")
        return None if begun is None or due is None else ratio(begun, due) or (0.0 if due else in_all)

    return grown(view.sender, "arrivals", of)


def all_begun(host: HostData) -> float | None:
    """Arrivals that were begun over those that were due, in the whole measured window; None where none was due."""
    return ratio(host.growth("arrivals", "arrivals.begun"), host.growth("arrivals", "arrivals.due"))


def waits_for_answers(view: View) -> Signal:
    """Share of time in which a connection waits for the answer to its one request; only where requests are answered."""
    if not view.sender.answered:
        return absent("experiment", "no operation waits for an answer: concurrency is no limit")
    return in_call(view)


def over(value: float | None, span: float) -> float | None:
    """A quotient; None where there is no value, or nothing to divide by."""
    return None if value is None or not span else value / span


def ratio(above: float | None, below: float | None) -> float | None:
    """The same of two numbers that may not be known."""
    return None if above is None or not below else above / below
