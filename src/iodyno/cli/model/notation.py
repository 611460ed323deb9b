"""Kendall's notation of queues, `M/M/8/20`: arrivals / service / servers / places / clients; and three systems by name."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid

_LOAD = ("--utilisation", "--rate")


@dataclass(frozen=True)
class Kind:
    """A queue that has a formula: how it is written, what it is, the options that it takes, and what may be typed."""

    written: str
    about: str
    options: tuple[str, ...]
    example: str


FORMS = {
    kind.written: kind
    for kind in (
        Kind("M/M/c", "Poisson arrivals, exponential service, one queue", _LOAD,
             "M/M/8 --service 127us --utilisation 0,.2,.4,.6,.8"),
        Kind("M/D/c", "constant service, such as frames of one size", _LOAD, "M/D/1 --service 2.5us --utilisation .9,.95"),
        Kind("M/G/1", "service of a measured variation", (*_LOAD, "--service-scv"),
             "M/G/1 --service 40us --service-scv 4 --utilisation .5:.9:.1"),
        Kind("G/G/c", "arrivals and service of measured variation: approximate, with bounds",
             (*_LOAD, "--service-scv", "--arrival-scv"),
             "G/G/8 --service 81us --service-scv .5 --arrival-scv 2 --utilisation .8"),
        Kind("M/M/inf", "a server for everyone: a delay", ("--rate",), "M/M/inf --service 10ms --rate 1000,5000"),
        Kind("M/M/c/K", "K places, those in service too: what finds them full is lost", _LOAD,
             "M/M/1/8 --service 2.5us --utilisation .9"),
        Kind("M/D/1/K", "the same with constant service: a port, a token bucket", _LOAD,
             "M/D/1/8 --service 2.5us --utilisation .5:1.2:.1"),
        Kind("M/M/c/K/N", "N clients that think and ask; without K all may wait (M/M/8//N), K = c is Engset's loss",
             ("--think", "--population"), "M/M/8 --population 10:100:10 --service 1ms --think 4ms"),
        Kind("fork-join/c", "a request asks c servers and waits for all answers, or a quorum", (*_LOAD, "--quorum"),
             "fork-join/8 --service 1ms --utilisation .5:.9:.1"),
        Kind("credits/C", "a line whose frames wait for C credits", (*_LOAD, "--round-trip", "--distance"),
             "credits/8 --service 2.5us --distance 2 --utilisation .5:.8:.1"),
    )
}  # fmt: skip
"""Every queue that has a formula, from the simplest one."""

SIMULATED = {
    kind.written: kind
    for kind in (
        Kind("A/S/c/K", "any of M, D and G; K may be left out", (*_LOAD, "--service-law", "--arrival-law"),
             "M/G/8 --simulate --service 127us --service-law 'lognormal(2)' --rate 50k/s"),
        Kind("credits/C", "credits that do not cover the round trip, too",
             (*_LOAD, "--round-trip", "--distance", "--service-law", "--arrival-law"),
             "credits/8 --simulate --service 2.5us --round-trip 10us --service-law constant --utilisation .6"),
        Kind("tandem/K/K", "stations of one server behind each other, each with its places (inf: any number) and its --service",
             (*_LOAD, "--service-law", "--arrival-law"), "tandem/inf/4 --simulate --service 1ms --service 1ms --rate 700/s"),
    )
}  # fmt: skip
"""Queues that --simulate takes."""


@dataclass(frozen=True)
class Queue:
    """A notation, read. None is any number: of servers, of places, of clients. `numbers` are those of a system with a name."""

    written: str
    arrivals: str = "M"
    service: str = "M"
    servers: int | None = 1
    places: int | None = None
    clients: int | None = None
    name: str = ""
    numbers: tuple[int | None, ...] = ()

    def kind(self, *, closed: bool, simulated: bool) -> Kind:
        """The kind that it is of; `closed`: --population says how many clients there are. Raises ExperimentError."""
        if simulated:
            if self.clients is not None or closed or self.servers is None or self.name == "fork-join":
                raise self._none("--simulate takes", SIMULATED)
            return SIMULATED[{"credits": "credits/C", "tandem": "tandem/K/K"}.get(self.name, "A/S/c/K")]
        key = {"fork-join": "fork-join/c", "credits": "credits/C"}.get(self.name) or self._key(closed)
        if key is None:
            raise self._none(
                "formulas are known of", FORMS, "iodyno model queue --simulate, which takes more"
            )
        return FORMS[key]

    def _key(self, closed: bool) -> str | None:
        kind = "" if self.name else f"{self.arrivals}/{self.service}"
        if self.clients is not None or closed:
            return "M/M/c/K/N" if kind == "M/M" and self.servers is not None else None
        if self.places is not None:
            return {"M/M": "M/M/c/K", "M/D": "M/D/1/K" if self.servers == 1 else None}.get(kind)
        if self.servers is None:
            return "M/M/inf" if kind == "M/M" else None
        general = "M/G/1" if self.servers == 1 else "G/G/c"
        return {"M/M": "M/M/c", "M/D": "M/D/c", "M/G": general, "G/G": "G/G/c"}.get(kind)

    def _none(
        self, what: str, forms: dict[str, Kind], advice: str = "iodyno model queue --help"
    ) -> ExperimentError:
        return ExperimentError(
            f"invalid value {self.written!r}: {what} {', '.join(forms)}", where="NOTATION", advice=advice
        )


def queue_of(written: str) -> Queue:
    """The queue of a notation, whatever of it is upper case. Raises ExperimentError with all forms."""
    name, *rest = written.strip().split("/")
    if name.lower() in ("fork-join", "credits", "tandem"):
        numbers = [_number(part) for part in rest]
        tandem = name.lower() == "tandem"
        if -1 not in numbers and (
            len(numbers) > 1 if tandem else len(numbers) == 1 and numbers[0] is not None
        ):
            return Queue(
                written,
                servers=1,
                name=name.lower(),
                numbers=tuple(numbers),
            )
    elif 2 <= len(rest) <= 4 and name.upper() in ("M", "D", "G") and rest[0].upper() in ("M", "D", "G"):
        servers, places, clients = [*(_number(part) for part in rest[1:]), None, None][:3]
        if -1 not in (servers, places, clients) and rest[1] and (len(rest) < 4 or clients is not None):
            return Queue(written, name.upper(), rest[0].upper(), servers, places, clients)
    raise ExperimentError(
        invalid(written[:60], f"{', '.join(FORMS)}, with numbers for c, K, N and C"),
        where="NOTATION",
        advice="M/M/8 for eight servers at one queue; iodyno model queue --help has an example of each",
    )


def _number(part: str) -> int | None:
    """The number; None for any number, -1 for what is none."""
    if part.lower() in ("", "inf", "∞"):
        return None
    return int(part) if re.fullmatch(r"[0-9]{1,15}", part) else -1


def complete_notation(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The notations of the examples that begin so."""
    del ctx, param
    known = {kind.example.split()[0]: kind.about for kind in (*FORMS.values(), *SIMULATED.values())}
    return [
        CompletionItem(each, help=about)
        for each, about in known.items()
        if each.lower().startswith(incomplete.lower())
    ]


def forms_text() -> str:
    """Every kind with its options and an example, for --help."""
    lines = ["Forms with a formula, and what they take beside --service and --percentiles:"]
    for forms in (FORMS, SIMULATED):
        for kind in forms.values():
            lines += textwrap.wrap(f"{kind.written}: {kind.about}; {', '.join(kind.options)}", 76,
                                   initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)  # fmt: skip
        lines += ["", "\b", "With --simulate:"] if forms is FORMS else []
    lines += ["", "\b", "Examples:"]
    for kind in (*FORMS.values(), *SIMULATED.values()):
        # An option stays with its value: a line is broken before it only.
        whole = re.sub(r"(--[a-z-]+) (?!--)", "\\1\xa0", f"iodyno model queue {kind.example}")
        lines.append(
            "  " + " \\\n    ".join(textwrap.wrap(whole, 74, break_on_hyphens=False)).replace("\xa0", " ")
        )
    return "\b\n" + "\n".join(lines)
