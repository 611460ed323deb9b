"""The text of an experiment with fewer factors: those left out are held at their first level."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.formats import yaml_document
from iodyno.formats.experiment_file import experiment_text


def stage_text(
    text: str,
    factors: Sequence[str],
    design: Mapping[str, Any],
    *,
    name: str,
    quick: bool,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The text in which only `factors` vary, with that design and the stage's `name` after its own.

    With `quick`, the levels and windows of the quick form take the place of the others. The text is one that
    was read before.
    """
    top, _ = yaml_document.read(text, os.environ if environment is None else environment)
    plain: dict[str, Any] = dict(top.plain())
    short = plain.pop("quick", None) or {}
    written: dict[str, Any] = {**plain.get("factors", {}), **(short.get("factors") or {} if quick else {})}
    windows = {**(plain.get("windows") or {}), **((short.get("windows") or {}) if quick else {})}
    for factor in [factor for factor in written if factor not in factors]:
        entry = written.pop(factor)
        levels = entry if isinstance(entry, list) else entry["levels"]
        together = {} if isinstance(entry, list) else entry.get("together") or {}
        held = {other: given[0] for other, given in together.items()}
        # A variant is a name for what is set together, and nothing by itself.
        if factor != "variant":
            held[factor] = levels[0]
        for setting, level in held.items():
            _hold(plain, setting, level)
    plain |= {"name": f"{plain['name']}-{name}", "factors": written, "design": dict(design)}
    if windows:
        plain["windows"] = windows
    return experiment_text(plain)


def _hold(plain: dict[str, Any], setting: str, level: Any) -> None:
    """Sets a parameter of the workload, or a tunable of a host, for good."""
    host, dot, tunable = setting.partition(".")
    if not dot:
        plain["workload"] = {**plain["workload"], setting: level}
        return
    tunables = dict(plain.get("tunables") or {})
    tunables[host] = {**(tunables.get(host) or {}), tunable: level}
    plain["tunables"] = tunables
