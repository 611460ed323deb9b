"""A personality as an experiment: one host, its directory, windows around its run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.formats import ssh_hosts
from iodyno.loads.files.core.binding import bound
from iodyno.loads.files.core.bound import Bound
from iodyno.loads.files.core.parameters import kinds_of, workload_of
from iodyno.loads.files.core.values import Personality, Scalar
from iodyno.loads.files.core.wire import directory_of
from iodyno.loads.files.wml.text import inline

CLIENT = "client"
DEFAULT_SECONDS = 60
"""Of a run that names none, as Filebench has it."""
LIMIT_NS = 10 * 60 * 10**9
"""Longest time of a program that ends by itself. Chosen: longer than anybody waits for, and a bound all the same."""

Keys = dict[str, Any]


def hosts_keys(to: str | None) -> Keys:
    """The host: this machine, or the one that `to` names. Raises ExperimentError."""
    if to is None:
        return {CLIENT: {"access": "local"}}
    return {CLIENT: ssh_hosts.named_by(to)}


def experiment_keys(
    personality: Personality,
    given: Mapping[str, Scalar],
    environment: Mapping[str, str],
    *,
    target: str | None = None,
    to: str | None = None,
    repeat: int = 1,
    seconds: float | None = None,
    limit_ns: int = LIMIT_NS,
    remove: bool = False,
    factors: bool = False,
) -> tuple[Keys, tuple[str, ...]]:
    """The keys of an experiment file that runs the personality, and what is to be said about it. `factors`: its numbers
    become factors with one level. Raises ExperimentError.
    """
    held = bound(personality, given, environment)
    # Where files are is said, so that whoever runs it knows.
    directory = directory_of(held, None if target is None else str(Path(target).absolute()))
    workload = workload_of(personality)
    kinds = kinds_of(personality)
    variables = {
        name: value
        for name, value in {**held.settings, **given}.items()
        if name in given or name in environment
    }
    taken = {name: held.settings[name] for name in variables if name in kinds and name in held.settings}
    settings = {name: _shown(workload.parameter(name), value) for name, value in taken.items()}
    varied: Keys = {}
    if factors:
        for name, kind in kinds.items():
            value = held.settings.get(name)
            if value is not None and kind in ("size", "count") and not isinstance(value, (str, bool)):
                settings.pop(name, None)
                varied[name] = [_shown(workload.parameter(name), value)]
    text = personality.text + "".join(_statement(n, v) for n, v in given.items() if n not in kinds)
    windows, notes = _windows(held, seconds, limit_ns)
    keys = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", personality.name).strip("-._")[:64] or "personality",
        "question": f"What does the personality {personality.name} carry, and what does it cost?",
        "hosts": hosts_keys(to),
        "workload": {
            "kind": "files",
            "hosts": CLIENT,
            **({"target": directory} if directory != "/" else {}),
            **({"remove": True} if remove else {}),
            **settings,
            "program": inline(text),
        },
        **({"factors": varied} if varied else {}),
        "design": {"replicates": repeat},
        "windows": windows,
    }
    where = f"files are in {directory}" + (
        "" if target is not None else ", as the personality says; --target DIR names another place"
    )
    return keys, (where, *held.notes, *notes)


def _windows(held: Bound, seconds: float | None, limit_ns: int) -> tuple[Keys, tuple[str, ...]]:
    """No warm-up, as Filebench has it; the measured window is the run."""
    notes: tuple[str, ...] = ()
    ends = held.mode != "timeout" or any(f.kind in ("finishoncount", "finishonbytes") for f in held.flowops())
    if seconds is not None:
        measured_ns = round(seconds * 1e9)
    elif held.seconds is not None:
        measured_ns = held.seconds * 10**9
    elif ends:
        measured_ns = limit_ns
        notes = (
            f"there is no run time: it ends by itself, at the latest after {quantity.show('duration', limit_ns)} (--limit)",
        )
    else:
        measured_ns = DEFAULT_SECONDS * 10**9
        notes = (f"there is no run time: it runs for {DEFAULT_SECONDS} s (--seconds N)",)
    interval_ms = min(1000, max(10, measured_ns // 10**7))
    windows = {
        "warm_up": "0s",
        "measured": f"{-(-measured_ns // 10**6)}ms",
        "drain": "0s",
        "interval": f"{interval_ms}ms" if interval_ms < 1000 else "1s",
    }
    return windows, notes


def _shown(parameter: Any, value: Scalar) -> Any:
    if parameter is None or isinstance(value, bool) or parameter.kind == "count":
        return value
    return parameter.show(value) if isinstance(value, int) else str(value)


def _statement(name: str, value: Scalar) -> str:
    """`set $name = value` after all others, so that it counts."""
    quoted = str(value).lower()
    if isinstance(value, str):
        quoted = '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'
    return f"\nset ${name} = {quoted}\n"
