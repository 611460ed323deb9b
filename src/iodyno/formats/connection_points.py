"""Settings of a load over connections that the lab cannot carry out together at a point, and those without effect at any: told
with the key that is to blame, before a host is opened.

What one end alone cannot carry out is for agents to say (`campaign/refused_points.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from iodyno.core.experiment import HostSpec, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.quantity import show
from iodyno.core.submission import CLIENTS, SERVERS, Submission
from iodyno.core.tunable import OF_A_DEVICE, asked_of, hosts_of, named
from iodyno.core.workload import Level
from iodyno.formats.factor_points import points, varied_at
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading

Point = Mapping[str, Level]
Mistakes = list[tuple[tuple[str, ...], str]]
"""Mistakes, each as the parameters that are to blame, the first one first, and a sentence."""

_SHAPED = ("link_rate", "link_queue", "link_frames", "link_burst", "link_delay")
CONCERNED = (
    "transport", "engine", "syscalls", "client_engine", "server_engine", "rate", "arrivals", "burst_on", "burst_off", "sizes",
    "response_size", "nagle", "path", "direction", *_SHAPED,
)  # fmt: skip
"""The parameters that are looked at, beside tunables."""
_LAWS = ("constant", "poisson", "bursty")
_OF_TCP = ("tcp", "tls")
_OFF_THE_PATH = ("unix", "vsock")
_HEADERS_BYTES = 28
"""Of IPv4 and UDP, which a packet of the path's MTU holds beside the payload."""
_MTU_BYTES = 1500
"""Of a veth to which nobody said another one."""
_NEED_A_QUEUE = ("blanking", "threaded")


def law_of(point: Point) -> str:
    """Return the law by which operations begin."""
    return str(point.get("arrivals", "constant" if "rate" in point else "closed"))


_EFFECTS: Mapping[str, tuple[Callable[[Point], bool], str]] = {
    "rate": (lambda point: law_of(point) != "closed", "arrivals that are not closed"),
    "burst_on": (lambda point: law_of(point) == "bursty", "arrivals: bursty"),
    "burst_off": (lambda point: law_of(point) == "bursty", "arrivals: bursty"),
    "nagle": (lambda point: point.get("transport", "tcp") in _OF_TCP, "transport tcp or tls"),
}
"""Condition under which a parameter has an effect at all, and its words."""


def check(
    reading: Reading,
    workload: WorkloadSpec,
    factors: Mapping[str, Factor],
    hosts: Mapping[str, HostSpec],
    tunables: Mapping[str, Level],
    section: Path = ("workload",),
) -> None:
    """Notes what cannot be at a point of the file, and what is at none of them. `section`: where the load stands."""
    varied = varied_at(factors)
    given = {*workload.settings, *varied}

    def place(names: tuple[str, ...]) -> Path:
        return place_of(names, varied, workload.settings, tunables, section)

    if {"size", "sizes"} <= given:
        reading.note(place(("sizes",)), "sizes cannot be used with size, which it stands for")
    idle = {name for name in _EFFECTS if name in given}
    noted: set[tuple[Path, str]] = set()
    seen = False
    concerned = (*CONCERNED, *(name for name in varied if named(name)))
    for levels in points(reading, factors, concerned):
        seen = True
        point = {**workload.workload.defaults(), **workload.settings, **tunables, **levels}
        idle -= {name for name in idle if _EFFECTS[name][0](point)}
        for names, text in wrong_at(workload, point, hosts):
            where = place(names)
            if (where, text) not in noted:
                noted.add((where, text))
                reading.note(where, text)
    for name in sorted(idle) if seen else ():
        reading.note(place((name,)), f"can only be used with {_EFFECTS[name][1]}")


def check_beside(
    reading: Reading,
    bystander: WorkloadSpec,
    section: Path,
    workload: WorkloadSpec | None,
    factors: Mapping[str, Factor],
    hosts: Mapping[str, HostSpec],
    tunables: Mapping[str, Level],
) -> None:
    """The same of a bystander: its settings are the same at every point, but it goes by the path that the point has."""
    # First by itself: which tunables meet may be for the design to say.
    check(reading, bystander, {}, {}, {}, section)
    of_path = {}
    for factor in factors.values():
        varied = {factor.name: factor.levels, **factor.together}
        kept = {name: levels for name, levels in varied.items() if name == "path" or named(name)}
        if kept:
            name, *more = kept
            of_path[name] = Factor(name, kept[name], {other: kept[other] for other in more})
    path = {"path": workload.settings["path"]} if workload and "path" in workload.settings else {}
    check(reading, bystander, of_path, hosts, {**tunables, **path}, section)


def place_of(
    names: tuple[str, ...],
    varied: Mapping[str, Path],
    settings: Mapping[str, Level],
    tunables: Mapping[str, Level],
    section: Path = ("workload",),
) -> Path:
    """Return the place in the file of the first of these parameters that it says."""
    for name in names:
        if name in varied:
            return varied[name]
        if name in settings:
            return (*section, name)
        if name in tunables:
            return ("tunables", *(named(name) or ()))
    return (*section, names[0])


def wrong_at(workload: WorkloadSpec, point: Point, hosts: Mapping[str, HostSpec]) -> Mistakes:
    """List the settings of a point that cannot go together; nothing: it can be had, as far as that is known here."""
    found = [*_of_arrivals(point), *_of_rings(point), *_of_several(workload, point, hosts)]
    return [*found, *_of_path(workload, point, hosts)]


def _of_several(workload: WorkloadSpec, point: Point, hosts: Mapping[str, HostSpec]) -> Mistakes:
    """List the settings that several senders or receivers cannot have."""
    found: Mistakes = []
    if len(workload.receivers) > 1 and workload.between == "all" and point.get("tls_resumption"):
        text = (
            "invalid value: on with several receivers; expected one receiver: a ticket is good "
            "at who gave it alone"
        )
        found.append((("tls_resumption",), text))
    if workload.groups and _way(point, "client_engine").engine in ("rings", "reflector"):
        several = ", ".join(f"{name}: {len(names)} hosts" for name, names in workload.groups.items())
        text = (
            f"invalid value {point['client_engine']!r}: its frames are those of one client and one "
            f"server; expected one of each, not {several}"
        )
        found.append((("client_engine",), text))
    for host in workload.ends:
        links = sum(host in link for link in workload.links)
        # A host with a mistake of its own is not among them.
        if links < 2 or host not in hosts or hosts[host].access != "netns":
            continue
        for name in _setting(point, host, hosts, OF_A_DEVICE):
            text = (
                f"is that of one device, and {host} has {links}, one to each other host; expected a "
                "host with one"
            )
            found.append(((name,), text))
    return found


def _setting(point: Point, host: str, hosts: Iterable[str], tunables: Collection[str]) -> list[str]:
    """Return the names under which the point sets one of these on the host."""
    found = [(name, whose) for name in point if (whose := named(name)) and whose[1] in tunables]
    return [name for name, (whose, _) in found if host in hosts_of(whose, hosts)]


def _way(point: Point, end: str) -> Submission:
    """Return the way in which the end that is called `client_engine` or `server_engine` makes its calls."""
    ways = CLIENTS if end == "client_engine" else SERVERS
    both = Submission("", str(point.get("engine", "threads")), str(point.get("syscalls", "read_write")))
    return ways.get(str(point.get(end)), both)


def _of_arrivals(point: Point) -> Mistakes:
    law = law_of(point)
    if law not in _LAWS or "rate" in point:
        return []
    text = f"{law} needs rate, in operations per second"
    return [(("arrivals",), text)]


def _of_rings(point: Point) -> Mistakes:
    """List the ends on rings whose other end has no datagrams to exchange with them."""
    transport = str(point.get("transport", "tcp"))
    text = f"with transport {transport}; expected udp, whose datagrams it takes"
    ends = [end for end in ("client_engine", "server_engine") if _way(point, end).transport is not None]
    return [((end, "transport"), f"invalid value: {point[end]} {text}") for end in ends if transport != "udp"]


def _of_path(workload: WorkloadSpec, point: Point, hosts: Mapping[str, HostSpec]) -> Mistakes:
    """List the settings that the devices which the lab makes between namespaces cannot have, before there are any."""
    ends = [hosts[name] for name in workload.ends if name in hosts]
    found: Mistakes = []
    if workload.groups:
        for name in ("path", "link_rate", "link_queue", "link_frames", "link_burst", "link_delay"):
            if point.get(name):
                text = "can only be used with one sender and one receiver"
                found.append(((name,), text))
    for name in _SHAPED:
        if point.get(name) and (transport := point.get("transport")) in _OFF_THE_PATH:
            text = (
                f"data by {transport} does not go by the path that is shaped; expected a transport that does"
            )
            found.append(((name,), text))
    way = str(point.get("direction", "forward"))
    if point.get("link_rate") and way != "forward":
        text = (
            f"invalid value: {way} with link_rate; expected forward; what the sender sends is "
            "shaped, nothing else"
        )
        found.append((("direction", "link_rate"), text))
    if (
        len(ends) != 2
        or any(end.access != "netns" for end in ends)
        or point.get("path") not in (None, "zone")
    ):
        return found
    asked = asked_of(point, hosts)
    for end in ends:
        if asked[end.name].get("gro"):
            continue
        for name in _setting(point, end.name, hosts, _NEED_A_QUEUE):
            if point[name]:
                text = (
                    f"needs {end.name}.gro: on, which gives the device between namespaces its receive queue"
                )
                found.append(((name,), text))
    mtu = min(int(end.options.get("link_mtu", _MTU_BYTES)) for end in ends)
    most = int(asked[workload.receiver].get("mtu", mtu)) - _HEADERS_BYTES
    answer = int(point.get("response_size", 0))
    segments = _way(point, "server_engine").syscalls == "segments" and point.get("transport") == "udp"
    if segments and answer > most:
        text = (
            f"invalid value: {show('size', answer)} from a server by segments; expected {most} "
            "bytes, which a packet of the path holds"
        )
        found.append((("response_size", "server_engine"), f"{text}; the kernel cuts no segment in two"))
    return found
