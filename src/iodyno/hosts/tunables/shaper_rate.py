"""The rate of queues that are there already (tc-tbf(8), tc-htb(8)), on the device or on such as take in what comes by it (ifb).

None is made: what shapes is scaled, all of it by the same, and its buckets are brought back to the tick.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_TICK_NS = 64
"""Of the kernel's packet scheduler (PSCHED_SHIFT 6)."""
_CLASS = re.compile(
    r"class htb (?P<id>\S+) (?:root|parent (?P<parent>\S+)).*? rate (?P<rate>\S+) ceil (?P<ceil>\S+)"
    r".*? buffer \[(?P<buffer>[0-9a-f]+)\].* cbuffer \[(?P<cbuffer>[0-9a-f]+)\]"
)
_OPTIONS = re.compile(r" (prio|quantum) (\d+)")
_SENT = re.compile(r"\s*Sent (\d+) bytes")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True)
class _Shaper:
    """`words`: the command up to the rates; `rates`: name of rate and bucket, bit/s, bytes of the bucket."""

    words: tuple[str, ...]
    rates: tuple[tuple[str, str, int, int], ...]
    rest: tuple[str, ...] = ()
    sent: int = 0
    inner: bool = False

    @property
    def most(self) -> int:
        """Greatest rate that it lets through, in bit/s."""
        return max(rate for _, _, rate, _ in self.rates)

    def step(self, ratio: float = 1.0) -> Step:
        """Sets its rates to `ratio` times what they are."""
        words = [*self.words]
        for name, bucket, rate, size in self.rates:
            words += [name, f"{round(rate * ratio)}bit", bucket, str(size)]
        return run(*words, *self.rest)


@dataclass(frozen=True)
class ShaperRate:
    """Its level is what the one lets through that has passed on most."""

    name: str = "shaper_rate"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """Queues and classes of the devices, with what they have sent."""
        devices = f"{place.device} $(ls /sys/class/net | grep '^ifb')"
        each = "echo dev $d; tc -s -r -j qdisc show dev $d; echo; tc -d -s -r class show dev $d"
        return [{"run": ["sh", "-c", f"for d in {devices}; do {each}; done"]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """All that have a rate."""
        found = _shapers(seen[0].text or "")
        leaves = [shaper for shaper in found if not shaper.inner]
        if not leaves:
            return State(unsupported=seen[0].error or "nobody has set a queue with a rate there (tbf, htb)")
        busiest = max(leaves, key=lambda shaper: shaper.sent)
        return State(level=busiest.most, low=1000, before=found)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """A command for each."""
        assert isinstance(state.level, int)
        return [shaper.step(int(level) / state.level) for shaper in state.before]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each as it was."""
        return [shaper.step() for shaper in state.before]


def _shapers(text: str) -> list[_Shaper]:
    found: list[_Shaper] = []
    device = ""
    for line in text.splitlines():
        if line.startswith("dev "):
            device = line[4:].strip()
        elif line.startswith("["):
            found += [
                _tbf(device, entry)
                for entry in json.loads(line)
                if entry["kind"] == "tbf" and "rate" in entry["options"]
            ]
        elif match := _CLASS.match(line):
            found.append(_htb(device, line, match))
        elif (sent := _SENT.match(line)) and found and found[-1].words[1] == "class":
            found[-1] = _Shaper(**vars(found[-1]) | {"sent": int(sent[1])})
    parents = {(s.words[4], s.words[6]) for s in found if s.words[1] == "class"}
    return [
        _Shaper(**vars(s) | {"inner": s.words[1] == "class" and (s.words[4], s.words[8]) in parents})
        for s in found
    ]


def _tbf(device: str, entry: dict[str, object]) -> _Shaper:
    options = entry["options"]
    assert isinstance(options, dict)
    rate = 8 * int(options["rate"])
    where = ("root",) if entry.get("root") else ("parent", str(entry["parent"]))
    words = ("tc", "qdisc", "change", "dev", device, *where, "handle", str(entry["handle"]), "tbf")
    size = math.ceil(int(str(options["burst_raw"]), 16) * _TICK_NS * rate / 8e9)
    if "peakrate" in options:
        raise ValueError(f"{device}: a tbf with a peak rate")
    return _Shaper(
        words,
        (("rate", "burst", rate, size),),
        ("limit", str(options["limit"])),
        int(str(entry.get("bytes", 0))),
    )


def _htb(device: str, line: str, match: re.Match[str]) -> _Shaper:
    parent = match["parent"] or match["id"].partition(":")[0] + ":"
    words = ("tc", "class", "change", "dev", device, "parent", parent, "classid", match["id"], "htb")
    rates = []
    for name, bucket, ticks in (("rate", "burst", match["buffer"]), ("ceil", "cburst", match["cbuffer"])):
        rate = _bits(match[name])
        # tc gives a class the whole microseconds that a bucket takes (tc_calc_xmittime).
        time_us = math.ceil(int(ticks, 16) * _TICK_NS / 1000)
        rates.append((name, bucket, rate, math.ceil(time_us * rate / 8e6)))
    rest = [word for name, value in _OPTIONS.findall(line) for word in (name, value)]
    return _Shaper(words, tuple(rates), tuple(rest))


def _bits(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)bit", text)
    if not match:
        raise ValueError(f"{text} is no rate")
    return round(float(match[1]) * _UNITS[match[2]])
