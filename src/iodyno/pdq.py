"""Functions of PDQ by their own names: scripts that import `pdq` run as they are, and get right answers.

`from iodyno import pdq` is a model under construction, as in PDQ: Init begins it, Create... and Set... build it, Solve solves
it, Get... and Report ask it. Names are those of versions 4 to 7; times and rates are in the unit of SetTUnit. Every error is an
`iodyno.core.errors.ExperimentError` that names the function. `docs/background/networks.md` has what PDQ answers otherwise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from enum import IntEnum
from numbers import Real
from types import SimpleNamespace
from typing import Any

from iodyno.analysis.queueing.networks.bounds import bounds
from iodyno.analysis.queueing.networks.solution import ClassResult, Solution
from iodyno.analysis.queueing.networks.solve import solve
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import found, invalid
from iodyno.core.network import Class, ClosedClass, Demand, Discipline, Network, OpenClass, Station
from iodyno.report.network import report

Constant = IntEnum(
    "Constant",
    "CEN DLY MSQ MSO MSC ISRV FCFS PSHR LCFS TERM TRANS BATCH EXACT APPROX CANON STREAMING APPROXMSO VISITS DEMAND",
)
"""The constants of PDQ. Their numbers are no interface; that they are of this class tells them from numbers of servers."""

CEN, DLY, MSQ, MSO, MSC = Constant.CEN, Constant.DLY, Constant.MSQ, Constant.MSO, Constant.MSC
ISRV, FCFS, PSHR, LCFS = Constant.ISRV, Constant.FCFS, Constant.PSHR, Constant.LCFS
TERM, TRANS, BATCH = Constant.TERM, Constant.TRANS, Constant.BATCH
EXACT, APPROX, CANON = Constant.EXACT, Constant.APPROX, Constant.CANON
STREAMING, APPROXMSO = Constant.STREAMING, Constant.APPROXMSO
VISITS, DEMAND = Constant.VISITS, Constant.DEMAND
TRUE, FALSE = 1, 0

version = "iodyno"
cvar = SimpleNamespace(version=version)
"""Namespace where SWIG has the variables of a library."""

__all__ = [
    "APPROX", "APPROXMSO", "BATCH", "CANON", "CEN", "DEMAND", "DLY", "EXACT", "FALSE", "FCFS", "ISRV", "LCFS", "MSC", "MSO",
    "MSQ", "PSHR", "STREAMING", "TERM", "TRANS", "TRUE", "VISITS", "CreateClosed", "CreateMultiNode",
    "CreateMultiserverClosed", "CreateMultiserverOpen", "CreateNode", "CreateOpen", "CreateSingleNode", "GetComment",
    "GetLoadOpt", "GetNodesCount", "GetQueueLength", "GetResidenceTime", "GetResponse", "GetStreamsCount", "GetThruMax",
    "GetThruput", "GetUtilization", "Init", "Report", "SetComment", "SetDebug", "SetDemand", "SetTUnit", "SetVisits",
    "SetWUnit", "Solve", "cvar", "version",
]  # fmt: skip

_DISCIPLINES: dict[Constant, Discipline] = {FCFS: "fcfs", PSHR: "ps", LCFS: "lcfs-pr", ISRV: "fcfs"}
_TIME_UNITS_S = {
    1.0: ("", "s", "sec", "secs", "second", "seconds"),
    1e-3: ("ms", "msec", "msecs", "millisec", "millisecs", "millisecond", "milliseconds"),
    1e-6: ("us", "µs", "usec", "usecs", "microsec", "microsecs", "microsecond", "microseconds"),
    1e-9: ("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}


class _Model:
    """Model built since Init, in the script's unit of time, and its solution."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.classes: dict[str, Class] = {}
        self.stations: dict[str, Station] = {}
        self.demands: dict[str, dict[str, Demand]] = {}
        self.work_unit = self.time_unit = self.comment = ""
        self.solution: Solution | None = None
        self.solved_unit_s = 1.0

    @property
    def unit_s(self) -> float | None:
        """Seconds of the unit of time; None for one that is not known."""
        written = self.time_unit.strip(" .").lower()
        return next((factor for factor, words in _TIME_UNITS_S.items() if written in words), None)


_models: list[_Model] = []
"""The model under construction, as PDQ has just one; none before Init."""


def Init(name: str) -> None:
    """Begin a new model."""
    _models[:] = [_Model(_text(name, "Init"))]


def CreateOpen(name: str, rate: float) -> int:
    """Add a class that arrives at `rate`; answers how many classes there are."""
    model = _model("CreateOpen")
    _new(name, model.classes, "class", "CreateOpen")
    model.classes[name] = OpenClass(name, _number(rate, "a rate of 0 or more", "CreateOpen"))
    return len(model.classes)


def CreateClosed(name: str, kind: int, population: float, think: float) -> int:
    """Add a class of `population` jobs, TERM (each thinks for `think` between two rounds) or BATCH (none does)."""
    model = _model("CreateClosed")
    _new(name, model.classes, "class", "CreateClosed")
    batch = _one_of(kind, (TERM, BATCH), "CreateClosed") is BATCH
    jobs = _whole(population, "jobs", "CreateClosed")
    pause = _number(think, "a think time of 0 or more", "CreateClosed")
    model.classes[name] = ClosedClass(name, jobs, 0.0 if batch else pause)
    return len(model.classes)


def CreateNode(name: str, device: int, discipline: int) -> int:
    """Add a node, CEN or DLY; before version 6 `device` of an MSQ is its number of servers. Answers how many nodes there are."""
    if discipline is MSQ or device is MSQ:
        servers = device if discipline is MSQ else discipline
        return _node("CreateNode", name, _whole(servers, "servers", "CreateNode"), CEN, FCFS)
    _one_of(device, (CEN, DLY), "CreateNode")
    return _node("CreateNode", name, 1, device, discipline)


def CreateMultiNode(servers: float, name: str, device: int, discipline: int) -> int:
    """Add a node of several servers at one queue, whatever kind of multi-server node it is said to be."""
    _one_of(device, (CEN, MSQ, MSO, MSC), "CreateMultiNode")
    number = _whole(servers, "servers", "CreateMultiNode")
    return _node("CreateMultiNode", name, number, device, discipline)


CreateSingleNode = CreateNode
CreateMultiserverOpen = CreateMultiserverClosed = CreateMultiNode


def SetDemand(node: str, work: str, time: float) -> None:
    """Set the service time that a job of the class `work` needs at the node over all its visits."""
    _demand("SetDemand", node, work, Demand(_number(time, "a service time of 0 or more", "SetDemand")))


def SetVisits(node: str, work: str, visits: float, service: float) -> None:
    """Set the visits of a job of the class `work` to the node, and the service time of one."""
    time = _number(service, "a service time of 0 or more", "SetVisits")
    _demand("SetVisits", node, work, Demand(time, _number(visits, "0 visits or more", "SetVisits")))


def SetWUnit(unit: str) -> None:
    """Set what Report counts work in."""
    _model("SetWUnit").work_unit = _text(unit, "SetWUnit")


def SetTUnit(unit: str) -> None:
    """Set the unit of all times and rates of the model: s (as without it), ms, us, ns, minutes, hours, days."""
    _model("SetTUnit").time_unit = _text(unit, "SetTUnit")


def SetComment(text: str) -> None:
    """Set what Report shows first."""
    _model("SetComment").comment = _text(text, "SetComment")


def GetComment() -> str:
    """Return the comment that SetComment set."""
    return _model("GetComment").comment


def SetDebug(flag: int) -> None:
    """Do nothing: there is no trace to print."""


def Solve(method: int) -> Solution:
    """Solve the model as it is now: exactly, whatever the method; APPROX of what takes minutes exactly by Linearizer."""
    _one_of(method, (CANON, STREAMING, EXACT, APPROX, APPROXMSO), "Solve")
    model = _model("Solve")
    unit = model.unit_s or 1.0
    classes = tuple(
        OpenClass(c.name, c.rate_per_s / unit)
        if isinstance(c, OpenClass)
        else ClosedClass(c.name, c.population, c.think_time_s * unit)
        for c in model.classes.values()
    )
    demands = {
        work: {node: Demand(d.service_time_s * unit, d.visits) for node, d in at.items()}
        for work, at in model.demands.items()
    }
    network = Network(tuple(model.stations.values()), classes, demands, model.name.strip() or "network")
    try:
        model.solution = solve(network, "auto" if method is APPROX else "exact")
    except ExperimentError as problem:
        place = f"{problem.where}: " if problem.where not in ("", "--method") else ""
        advice = "Solve(APPROX)" if "--method" in problem.advice else problem.advice
        raise ExperimentError(f"{place}{problem.what}", where="Solve", advice=advice) from None
    model.solved_unit_s = unit
    return model.solution


def Report() -> None:
    """Print the inputs, the results of every class and node, and the bounds."""
    model, solution = _model("Report"), _solution("Report")
    if model.comment.strip():
        sys.stdout.write(f"{model.comment.strip()}\n")
    sys.stdout.write(report(solution, bounds(solution.network), model.work_unit))
    if model.unit_s is None:
        sys.stdout.write(f"\nnote: times are shown as if {model.time_unit!r} were seconds\n")


def GetResponse(kind: int, work: str) -> float:
    """Response time of the class: over all nodes, without thinking."""
    return _class("GetResponse", kind, work).response_time_s / _unit_s()


def GetThruput(kind: int, work: str) -> float:
    """Throughput of the class."""
    return _class("GetThruput", kind, work).throughput_per_s * _unit_s()


def GetThruMax(kind: int, work: str) -> float:
    """Upper bound of the throughput of the class."""
    return _bound("GetThruMax", kind, work, "throughput_most_per_s") * _unit_s()


def GetLoadOpt(kind: int, work: str) -> float:
    """N*: the population of the class at which its bounds meet."""
    return _bound("GetLoadOpt", kind, work, "saturation_population")


def GetResidenceTime(node: str, work: str, kind: int) -> float:
    """Time of a job of the class at the node over all its visits, with waiting."""
    return _share("GetResidenceTime", node, work, kind)[0] / _unit_s()


def GetUtilization(node: str, work: str, kind: int) -> float:
    """Busy share of one server of the node by the class; at a delay, the jobs there."""
    return _share("GetUtilization", node, work, kind)[1]


def GetQueueLength(node: str, work: str, kind: int) -> float:
    """Jobs of the class at the node, served ones too."""
    return _share("GetQueueLength", node, work, kind)[2]


def GetStreamsCount() -> int:
    """Return the number of classes."""
    return len(_model("GetStreamsCount").classes)


def GetNodesCount() -> int:
    """Return the number of nodes."""
    return len(_model("GetNodesCount").stations)


def _wrong(function: str, what: str) -> ExperimentError:
    return ExperimentError(what, where=function)


def _model(function: str) -> _Model:
    if not _models:
        raise _wrong(function, "called before Init: expected Init first")
    return _models[0]


def _solution(function: str) -> Solution:
    solution = _model(function).solution
    if solution is None:
        raise _wrong(function, "called before Solve: expected Solve first")
    return solution


def _unit_s() -> float:
    return _models[0].solved_unit_s


def _text(value: Any, function: str) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise _wrong(function, invalid(_shown(value), "a text"))
    return value


def _number(value: Any, what: str, function: str) -> float:
    if isinstance(value, Real) and not isinstance(value, bool | Constant):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if 0 <= found < math.inf:
            return found
    raise _wrong(function, invalid(_shown(value), what))


def _whole(value: Any, of: str, function: str) -> int:
    found = _number(value, f"a number of {of}", function)
    if found != int(found):
        raise _wrong(function, f"invalid value: {found:g} {of}; expected a whole number")
    return int(found)


def _one_of(value: Any, allowed: Sequence[Constant], function: str) -> Constant:
    if isinstance(value, Constant) and value in allowed:
        return value
    raise _wrong(function, invalid(_shown(value), ", ".join(one.name for one in allowed)))


def _shown(value: Any) -> Any:
    return value.name if isinstance(value, Constant) else value


def _new(name: Any, there: Sequence[str] | dict[str, Any], what: str, function: str) -> None:
    if not _text(name, function) or name in there:
        raise _wrong(
            function,
            f"duplicate {what} {name!r}" if name else f"missing name of a {what}",
        )


def _known(name: Any, there: dict[str, Any], what: str, function: str) -> str:
    if isinstance(name, str) and name in there:
        return name
    raise _wrong(
        function,
        f"unknown {what} {found(_shown(name))}: expected "
        f"{', '.join(there) or f'none yet, create the {what} first'}",
    )


def _node(function: str, name: str, servers: int, device: int, discipline: int) -> int:
    model = _model(function)
    _new(name, model.stations, "node", function)
    order = _one_of(discipline, tuple(_DISCIPLINES), function)
    delay = device is DLY or order is ISRV
    model.stations[name] = Station(
        name, "delay" if delay else "queue", 1 if delay else servers, _DISCIPLINES[order]
    )
    return len(model.stations)


def _demand(function: str, node: str, work: str, demand: Demand) -> None:
    model = _model(function)
    at = _known(node, model.stations, "node", function)
    model.demands.setdefault(_known(work, model.classes, "class", function), {})[at] = demand


def _class(function: str, kind: int, work: str) -> ClassResult:
    solution = _solution(function)
    model = _models[0]
    name = _known(work, {c.name: c for c in solution.network.classes}, "class", function)
    _one_of(kind, (TRANS,) if isinstance(model.classes[name], OpenClass) else (TERM, BATCH), function)
    return solution.of(name)


def _share(function: str, node: str, work: str, kind: int) -> tuple[float, float, float]:
    """Residence time, utilisation and jobs of a class at a node; zeros where it does not come."""
    found = _class(function, kind, work)
    there = found.at.get(_known(node, _models[0].stations, "node", function))
    if there is None:
        return 0.0, 0.0, 0.0
    busy = there.queue_length if there.utilisation_ratio is None else there.utilisation_ratio
    return there.residence_time_s, busy, there.queue_length


def _bound(function: str, kind: int, work: str, what: str) -> float:
    name = _class(function, kind, work).name
    found = getattr(next(b for b in bounds(_solution(function).network) if b.name == name), what)
    if found is None:
        raise _wrong(function, f"the class {name!r} has no such bound")
    return float(found)
