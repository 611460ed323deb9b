"""The model file: a network of queues as YAML.

```
name: three-tier
classes:
  browse: {population: 120, think: 2s}       # closed: these users, thinking between two requests
  api: {rate: 40/s}                          # open: they come, whatever happens
stations:
  web: {servers: 4, discipline: ps}
  disk: {}
  wan: {kind: delay}
demands:
  browse: {web: 5ms, disk: {visits: 3, service: 2ms}, wan: 20ms}
  api: {web: 2ms}
```
Every mistake is told with its line and key, all of them in one error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import found, invalid
from iodyno.core.network import (
    DISCIPLINES,
    KINDS,
    Class,
    ClosedClass,
    Demand,
    Network,
    OpenClass,
    Station,
    checked,
)
from iodyno.formats import yaml_document
from iodyno.formats.mistakes import Mistake, Path, dotted, error, unknown, unknown_key
from iodyno.formats.yaml_document import Node

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_TOP = ("name", "classes", "stations", "demands")
_CLASS = ("population", "think", "rate")
_STATION = ("kind", "servers", "discipline")
_DEMAND = ("visits", "service")
_EXAMPLES: Mapping[str, str] = {
    "duration": "a time with its unit, such as 127us, 2.5ms or 1s",
    "rate": "a rate such as 40/s, 0.5/s or 20k/s",
}
_ADVICE = "`iodyno model network --help` shows a model file; example:three-tier is one"


def parse_network(
    text: str | bytes, *, file: str = "model.yaml", environment: Mapping[str, str] | None = None
) -> Network:
    """The network in the text, which errors call `file`. Raises ExperimentError with every mistake."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
    try:
        top, mistakes = yaml_document.read(yaml_document.decode(raw), environment or {})
    except yaml_document.NotYamlError as problem:
        sentence = problem.mistake.text.replace("an experiment", "a model").replace(
            "one experiment", "one model"
        )
        raise error(file, [Mistake(problem.mistake.line, problem.mistake.path, sentence)], _ADVICE) from None
    reading = _Reading(top, mistakes)
    network = reading.network()
    if reading.mistakes:
        raise error(file, reading.mistakes, _ADVICE)
    try:
        return checked(network)
    except ExperimentError as problem:
        line = top.line_of(tuple(problem.where.split(".")))
        raise error(file, [Mistake(line, problem.where, problem.what)], problem.advice or _ADVICE) from None


def _seconds(written: object) -> float:
    """A time with its unit in seconds; parts of a nanosecond are kept. Raises ValueError."""
    return float(_measured(written, "duration") / 10**9)


def _per_second(written: object) -> float:
    """A rate in 1/s, alone or with a unit. Raises ValueError."""
    return float(_measured(written, "rate"))


def _measured(written: object, kind: quantity.Kind) -> Fraction:
    if isinstance(written, bool) or not isinstance(written, (str, int, float)) or len(str(written)) > 100:
        raise ValueError(invalid(written, _EXAMPLES[kind]))
    return quantity.parse_exact(kind, written)


class _Reading:
    """Reads the nodes and notes every mistake; what is wrong is left out of the network."""

    def __init__(self, top: Node, mistakes: Iterable[Mistake]) -> None:
        self.top = top
        self.mistakes = list(mistakes)

    def wrong(self, path: Path, text: str) -> None:
        self.mistakes.append(Mistake(self.top.line_of(path), dotted(path), text))

    def network(self) -> Network:
        top = self.mapping(self.top, (), _TOP)
        name = top["name"].plain() if "name" in top else "network"
        if not isinstance(name, str) or not name:
            self.wrong(("name",), invalid(name, "a text"))
            name = "network"
        for key in _TOP[1:]:
            if key not in top and isinstance(self.top.value, dict):
                self.wrong((), f"missing key {key}: expected {', '.join(_TOP[1:])}")
        classes = [
            entry
            for key, node in self.named(top.get("classes"), "classes").items()
            if (entry := self.one_class(key, node)) is not None
        ]
        stations = [
            self.station(key, node) for key, node in self.named(top.get("stations"), "stations").items()
        ]
        demands = self.demands(
            top.get("demands"),
            list(self.named(top.get("classes"), None)),
            list(self.named(top.get("stations"), None)),
        )
        return Network(tuple(stations), tuple(classes), demands, name)

    def mapping(self, node: Node, path: Path, allowed: Iterable[str]) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            if node.value is not None or not path:
                self.wrong(path, invalid(node.plain(), f"keys of {', '.join(allowed)}"))
            return {}
        for key in node.value:
            if key not in allowed:
                self.wrong((*path, key), unknown_key(key, allowed))
        return {key: value for key, value in node.value.items() if key in allowed}

    def named(self, node: Node | None, key: str | None) -> dict[str, Node]:
        """Entries by name. Without `key` nothing is noted: it has been."""
        if node is None:
            return {}
        if not isinstance(node.value, dict) or not node.value:
            if key is not None:
                self.wrong((key,), invalid(node.plain(), "names with keys"))
            return {}
        for name in node.value:
            if key is not None and not _NAME.fullmatch(name):
                self.wrong(
                    (key, name),
                    invalid(name, "a letter, then letters, digits, _ and -, up to 64"),
                )
        return node.value

    def one_class(self, name: str, node: Node) -> Class | None:
        path: Path = ("classes", name)
        keys = self.mapping(node, path, _CLASS)
        if ("rate" in keys) == ("population" in keys):
            self.wrong(path, "missing key population (closed) or rate (open)")
            return None
        if "rate" in keys:
            if "think" in keys:
                self.wrong((*path, "think"), "cannot be used with rate: an open class has no think time")
            rate = self.number(keys["rate"], (*path, "rate"), _per_second)
            return None if rate is None else OpenClass(name, rate)
        population = keys["population"].plain()
        if isinstance(population, bool) or not isinstance(population, int):
            self.wrong((*path, "population"), invalid(population, "a whole number of jobs"))
            return None
        think = self.number(keys["think"], (*path, "think"), _seconds) if "think" in keys else 0.0
        return None if think is None else ClosedClass(name, population, think)

    def station(self, name: str, node: Node) -> Station:
        path: Path = ("stations", name)
        keys = self.mapping(node, path, _STATION)
        kind, discipline, servers = "queue", "fcfs", 1
        if "kind" in keys:
            kind = self.word(keys["kind"], (*path, "kind"), KINDS)
        if "discipline" in keys:
            discipline = self.word(keys["discipline"], (*path, "discipline"), DISCIPLINES)
        if "servers" in keys:
            value = keys["servers"].plain()
            if isinstance(value, bool) or not isinstance(value, int):
                self.wrong((*path, "servers"), invalid(value, "a whole number of servers"))
            else:
                servers = value
        if kind == "delay":
            for key in ("servers", "discipline"):
                if key in keys:
                    self.wrong((*path, key), "cannot be used with a delay, where no job waits for a server")
        return Station(name, kind, servers, discipline)  # type: ignore[arg-type]

    def demands(
        self, node: Node | None, classes: list[str], stations: list[str]
    ) -> dict[str, dict[str, Demand]]:
        if node is None:
            return {}
        read: dict[str, dict[str, Demand]] = {}
        for of_class, by_station in self.mapping(node, ("demands",), classes).items():
            path: Path = ("demands", of_class)
            read[of_class] = {}
            for station, written in self.mapping(by_station, path, stations).items():
                demand = self.demand(written, (*path, station))
                if demand is not None:
                    read[of_class][station] = demand
        return read

    def demand(self, node: Node, path: Path) -> Demand | None:
        if not isinstance(node.value, dict):
            service = self.number(node, path, _seconds)
            return None if service is None else Demand(service)
        keys = self.mapping(node, path, _DEMAND)
        if "service" not in keys:
            self.wrong(path, "missing key service: expected service, and visits unless it is 1")
            return None
        service = self.number(keys["service"], (*path, "service"), _seconds)
        visits: object = keys["visits"].plain() if "visits" in keys else 1
        if isinstance(visits, bool) or not isinstance(visits, (int, float)) or not 0 <= visits < math.inf:
            self.wrong((*path, "visits"), invalid(visits, "a number of 0 visits or more"))
            return None
        return None if service is None else Demand(service, float(visits))

    def number(self, node: Node, path: Path, read: object) -> float | None:
        try:
            return float(read(node.plain()))  # type: ignore[operator]
        except (ValueError, OverflowError) as problem:
            self.wrong(path, str(problem))
            return None

    def word(self, node: Node, path: Path, allowed: tuple[str, ...]) -> str:
        value = node.plain()
        if value not in allowed:
            self.wrong(path, unknown(value if isinstance(value, str) else found(value), allowed))
            return allowed[0]
        return str(value)
