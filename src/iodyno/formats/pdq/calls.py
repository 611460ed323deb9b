"""What the calls of PDQ do: they build a network, solve it, and ask it.

Names and meanings are those of versions 6 and 7; a multi-server node may be of any kind (CEN, MSQ, MSO, MSC) and
take any class, where PDQ wants MSO for open and MSC for closed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from iodyno.core.errors import ExperimentError
from iodyno.core.network import Class, ClosedClass, Demand, Discipline, Network, OpenClass, Station, checked
from iodyno.formats.mistakes import found, shortened, unknown
from iodyno.formats.pdq.tokens import ScriptError

Value = float | int | str | list["Value"] | None

CONSTANTS = (
    "TRANS", "TERM", "BATCH", "CEN", "DLY", "MSQ", "MSO", "MSC",
    "FCFS", "PSHR", "LCFS", "ISRV", "CANON", "STREAMING", "EXACT", "APPROX", "APPROXMSO",
)  # fmt: skip
_DISCIPLINES: dict[str, Discipline] = {"FCFS": "fcfs", "PSHR": "ps", "LCFS": "lcfs-pr"}
_TIME_UNITS_S = {
    1.0: ("", "s", "sec", "secs", "second", "seconds"),
    1e-3: ("ms", "msec", "msecs", "millisec", "millisecs", "millisecond", "milliseconds"),
    1e-6: ("us", "µs", "usec", "usecs", "microsec", "microsecs", "microsecond", "microseconds"),
    1e-9: ("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}

MAX_RUNS = 10_000
"""Solutions of one script (chosen: more than anybody reads)."""


class Answers(Protocol):
    """A solved network, as the calls that ask it want it: in seconds, 1/s and ratios."""

    def throughput_per_s(self, work: str) -> float:
        """Jobs of a class per second."""

    def response_time_s(self, work: str) -> float:
        """Time of a job of the class from beginning to end."""

    def residence_time_s(self, work: str, node: str) -> float:
        """Time of a job at a station, over all visits."""

    def utilisation_ratio(self, work: str, node: str) -> float:
        """Busy share of one server of a station by the class; the number there at a delay."""

    def queue_length(self, work: str, node: str) -> float:
        """Jobs of the class at a station, served ones too."""

    def throughput_most_per_s(self, work: str) -> float:
        """The upper bound of the class's throughput."""

    def optimal_population(self, work: str) -> float:
        """N* of a closed class."""


@dataclass
class Run:
    """One call of Solve: the network in seconds, its solution, the units, and what was asked of it afterwards."""

    network: Network
    solution: Answers
    line: int
    method: str
    work_unit: str
    time_unit: str
    unit_s: float
    comment: str
    notes: tuple[str, ...]
    answers: list[tuple[str, float]] = field(default_factory=list)


class Model:
    """The model that the calls of a script have built so far."""

    def __init__(self, solver: Callable[[Network], Answers]) -> None:
        self.solver = solver
        self.runs: list[Run] = []
        self.begun = False
        self.forget("")

    def forget(self, name: str) -> None:
        """Begins a new model."""
        self.name = name
        self.classes: dict[str, Class] = {}
        self.stations: dict[str, Station] = {}
        self.demands: dict[str, dict[str, Demand]] = {}
        self.work_unit, self.time_unit, self.comment = "", "", ""
        self.solved: Run | None = None

    def call(self, name: str, arguments: Sequence[Value], line: int) -> Value:
        """Carries out one call. Raises ScriptError."""
        handler, count = CALLS[name]
        if len(arguments) != count:
            raise ScriptError(
                line, f"{name} was given {len(arguments)} arguments, allowed: {count} ({USAGE[name]})"
            )
        if not self.begun and name not in ("Init", "SetDebug"):
            raise ScriptError(line, f"{name} stands before Init, allowed: Init first")
        return handler(self, arguments, line)

    def init(self, arguments: Sequence[Value], line: int) -> Value:
        """Init: begins a new model."""
        self.forget(_text(arguments[0] or " ", line, "a name").strip())
        self.begun = True
        return 0

    def create_open(self, arguments: Sequence[Value], line: int) -> Value:
        """CreateOpen: a class that comes at a rate."""
        name = self._new_class(arguments[0], line)
        self.classes[name] = OpenClass(name, _number(arguments[1], line, "a rate of 0 or more"))
        return 0

    def create_closed(self, arguments: Sequence[Value], line: int) -> Value:
        """CreateClosed: a class with a population; of BATCH ones nobody thinks."""
        name = self._new_class(arguments[0], line)
        kind = _word(arguments[1], ("TERM", "BATCH"), line)
        jobs = _number(arguments[2], line, "a population")
        if jobs != int(jobs):
            raise ScriptError(line, f"found {jobs:g} jobs, allowed: a whole number")
        think = _number(arguments[3], line, "a think time of 0 or more")
        self.classes[name] = ClosedClass(name, int(jobs), think if kind == "TERM" else 0.0)
        return 0

    def create_node(self, arguments: Sequence[Value], line: int) -> Value:
        """CreateNode: one server, or a delay."""
        return self._station(arguments[0], 1, arguments[1], ("CEN", "DLY"), arguments[2], line)

    def create_multi_node(self, arguments: Sequence[Value], line: int) -> Value:
        """CreateMultiNode: several servers behind one queue."""
        servers = _number(arguments[0], line, "a number of servers")
        if servers != int(servers):
            raise ScriptError(line, f"found {servers:g} servers, allowed: a whole number")
        kinds = ("CEN", "MSQ", "MSO", "MSC")
        return self._station(arguments[1], int(servers), arguments[2], kinds, arguments[3], line)

    def set_demand(self, arguments: Sequence[Value], line: int) -> Value:
        """SetDemand: service time over all visits."""
        service = _number(arguments[2], line, "a service time of 0 or more")
        self._demand(arguments[0], arguments[1], Demand(service), line)
        return 0

    def set_visits(self, arguments: Sequence[Value], line: int) -> Value:
        """SetVisits: visits, and service time of one."""
        visits = _number(arguments[2], line, "0 visits or more")
        service = _number(arguments[3], line, "a service time of 0 or more")
        self._demand(arguments[0], arguments[1], Demand(service, visits), line)
        return 0

    def set_work_unit(self, arguments: Sequence[Value], line: int) -> Value:
        """SetWUnit: what is done, shown with rates."""
        self.work_unit = _text(arguments[0], line, "a unit")
        return 0

    def set_time_unit(self, arguments: Sequence[Value], line: int) -> Value:
        """SetTUnit: what times and rates of the script are counted in."""
        self.time_unit = _text(arguments[0], line, "a unit")
        return 0

    def set_comment(self, arguments: Sequence[Value], line: int) -> Value:
        """SetComment: shown with the results."""
        self.comment = _text(arguments[0] or " ", line, "a text").strip()
        return 0

    def nothing(self, arguments: Sequence[Value], line: int) -> Value:
        """Report and SetDebug: what there is to report is shown anyway."""
        return 0

    def solve(self, arguments: Sequence[Value], line: int) -> Value:
        """Solve: the model as it is now."""
        method = _word(arguments[0], ("CANON", "STREAMING", "EXACT", "APPROX", "APPROXMSO"), line)
        if len(self.runs) >= MAX_RUNS:
            raise ScriptError(line, f"found more than {MAX_RUNS} calls of Solve, allowed: {MAX_RUNS}")
        unit_s, notes = _unit_s(self.time_unit)
        try:
            network = checked(self._network(unit_s))
            solution = self.solver(network)
        except ExperimentError as problem:
            place = f"{problem.where}: " if problem.where else ""
            raise ScriptError(line, f"{place}{problem.what}", problem.advice) from None
        if method == "APPROX":
            notes = (*notes, "the script asks for APPROX, which is done with --method approximate only")
        self.solved = Run(
            network, solution, line, method, self.work_unit, self.time_unit, unit_s, self.comment, notes
        )
        self.runs.append(self.solved)
        return 0

    def get(self, name: str, work: Value, node: Value, kind: Value, line: int) -> float:
        """One answer of the last solution, in the units of the script; it is noted in the run."""
        if self.solved is None:
            raise ScriptError(line, f"{name} stands before Solve, allowed: Solve first")
        of = _word(work, tuple(self.classes), line)
        entry = self.classes[of]
        kinds = ("TRANS",) if isinstance(entry, OpenClass) else ("TERM", "BATCH")
        if kind not in kinds:
            raise ScriptError(line, f"found {found(kind)} for the class {of}, allowed: {' or '.join(kinds)}")
        at = "" if node is None else _word(node, tuple(self.stations), line)
        solution, unit = self.solved.solution, self.solved.unit_s
        questions: dict[str, Callable[[], float]] = {
            "GetResponse": lambda: solution.response_time_s(of) / unit,
            "GetResidenceTime": lambda: solution.residence_time_s(of, at) / unit,
            "GetThruput": lambda: solution.throughput_per_s(of) * unit,
            "GetUtilization": lambda: solution.utilisation_ratio(of, at),
            "GetQueueLength": lambda: solution.queue_length(of, at),
            "GetThruMax": lambda: solution.throughput_most_per_s(of) * unit,
            "GetLoadOpt": lambda: solution.optimal_population(of),
        }
        try:
            value = questions[name]()
        except ExperimentError as problem:
            raise ScriptError(line, problem.what, problem.advice) from None
        self.solved.answers.append((f"{name}({at}, {of})" if at else f"{name}({of})", value))
        return value

    def _network(self, unit_s: float) -> Network:
        classes = tuple(
            OpenClass(c.name, c.rate_per_s / unit_s)
            if isinstance(c, OpenClass)
            else ClosedClass(c.name, c.population, c.think_time_s * unit_s)
            for c in self.classes.values()
        )
        demands = {
            work: {node: Demand(d.service_time_s * unit_s, d.visits) for node, d in by_node.items()}
            for work, by_node in self.demands.items()
        }
        return Network(tuple(self.stations.values()), classes, demands, self.name or "network")

    def _new_class(self, value: Value, line: int) -> str:
        name = _text(value, line, "the name of a class")
        if name in self.classes:
            raise ScriptError(line, f"found the class {name!r} twice, allowed: once")
        return name

    def _station(
        self, name: Value, servers: int, kind: Value, kinds: Sequence[str], discipline: Value, line: int
    ) -> Value:
        called = _text(name, line, "the name of a node")
        if called in self.stations:
            raise ScriptError(line, f"found the node {called!r} twice, allowed: once")
        sort = _word(kind, tuple(kinds), line)
        order = _word(discipline, (*_DISCIPLINES, "ISRV"), line)
        delay = sort == "DLY" or order == "ISRV"
        self.stations[called] = Station(
            called,
            "delay" if delay else "queue",
            1 if delay else servers,
            _DISCIPLINES.get(order, "fcfs"),
        )
        return 0

    def _demand(self, node: Value, work: Value, demand: Demand, line: int) -> None:
        at = _word(node, tuple(self.stations), line)
        self.demands.setdefault(_word(work, tuple(self.classes), line), {})[at] = demand


def _unit_s(written: str) -> tuple[float, tuple[str, ...]]:
    for factor, words in _TIME_UNITS_S.items():
        if written.strip(" .").lower() in words:
            return factor, ()
    return 1.0, (f"the time unit {shortened(written)!r} is not known; times are shown as if it were seconds",)


def _text(value: Value, line: int, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1000:
        raise ScriptError(line, f"found {found(value)}, allowed: {what} in quotes")
    return value


def _number(value: Value, line: int, what: str) -> float:
    if isinstance(value, (int, float)) and 0 <= value < float("inf"):
        return value
    raise ScriptError(line, f"found {found(value)}, allowed: {what}")


def _word(value: Value, allowed: Sequence[str], line: int) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    raise ScriptError(line, unknown(value if isinstance(value, str) else found(value), allowed))


def _ask(name: str, work: int, node: int | None, kind: int) -> Callable[[Model, Sequence[Value], int], Value]:
    def ask(model: Model, arguments: Sequence[Value], line: int) -> Value:
        at = None if node is None else arguments[node]
        return model.get(name, arguments[work], at, arguments[kind], line)

    return ask


CALLS: dict[str, tuple[Callable[[Model, Sequence[Value], int], Value], int]] = {
    "Init": (Model.init, 1),
    "CreateOpen": (Model.create_open, 2),
    "CreateClosed": (Model.create_closed, 4),
    "CreateNode": (Model.create_node, 3),
    "CreateMultiNode": (Model.create_multi_node, 4),
    "CreateMultiserverOpen": (Model.create_multi_node, 4),
    "CreateMultiserverClosed": (Model.create_multi_node, 4),
    "SetDemand": (Model.set_demand, 3),
    "SetVisits": (Model.set_visits, 4),
    "SetWUnit": (Model.set_work_unit, 1),
    "SetTUnit": (Model.set_time_unit, 1),
    "SetComment": (Model.set_comment, 1),
    "SetDebug": (Model.nothing, 1),
    "Solve": (Model.solve, 1),
    "Report": (Model.nothing, 0),
    "GetResponse": (_ask("GetResponse", 1, None, 0), 2),
    "GetThruput": (_ask("GetThruput", 1, None, 0), 2),
    "GetThruMax": (_ask("GetThruMax", 1, None, 0), 2),
    "GetLoadOpt": (_ask("GetLoadOpt", 1, None, 0), 2),
    "GetResidenceTime": (_ask("GetResidenceTime", 1, 0, 2), 3),
    "GetUtilization": (_ask("GetUtilization", 1, 0, 2), 3),
    "GetQueueLength": (_ask("GetQueueLength", 1, 0, 2), 3),
    "GetStreamsCount": (lambda model, _arguments, _line: len(model.classes), 0),
    "GetNodesCount": (lambda model, _arguments, _line: len(model.stations), 0),
}
"""Every call that is known, and how many arguments it takes."""

USAGE = {
    "Init": "name",
    "CreateOpen": "class, rate",
    "CreateClosed": "class, TERM or BATCH, population, think time",
    "CreateNode": "node, CEN or DLY, FCFS or PSHR or LCFS or ISRV",
    "CreateMultiNode": "servers, node, MSO or MSC or MSQ or CEN, FCFS or PSHR or LCFS",
    "CreateMultiserverOpen": "servers, node, MSO, FCFS or PSHR or LCFS",
    "CreateMultiserverClosed": "servers, node, MSC, FCFS or PSHR or LCFS",
    "SetDemand": "node, class, time",
    "SetVisits": "node, class, visits, service time",
    "SetWUnit": "unit",
    "SetTUnit": "unit",
    "SetComment": "text",
    "SetDebug": "flag",
    "Solve": "CANON or STREAMING or EXACT or APPROX",
    "Report": "nothing",
    "GetResponse": "kind, class",
    "GetThruput": "kind, class",
    "GetThruMax": "kind, class",
    "GetLoadOpt": "kind, class",
    "GetResidenceTime": "node, class, kind",
    "GetUtilization": "node, class, kind",
    "GetQueueLength": "node, class, kind",
    "GetStreamsCount": "nothing",
    "GetNodesCount": "nothing",
}
