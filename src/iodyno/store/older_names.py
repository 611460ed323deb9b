"""Names of older versions of the store, and what they are now.

>>> old = {"schema_version": 5, "settings": {"driver": "epoll", "server": "xdp"}, "hosts": {"server": {}}}
>>> in_present_words(old)["settings"], in_present_words(old)["hosts"]
({'engine': 'epoll', 'server_engine': 'xdp'}, {'server': {}})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from iodyno.core.outcome import TIMES_OF_REQUESTS, bystanders_of
from iodyno.core.workload import EXCHANGES

_RENAMED: Mapping[int, Mapping[str, str]] = {
    5: {
        "cycles_per_kbyte": "cycles_per_kib",
        "doubts": "warnings",
        "knobs": "tunables",
        "knob_changed": "tunable_changed",
        "knob_left": "tunable_left",
        "knob_not_obtained": "tunable_not_obtained",
        "knob_not_restored": "tunable_not_restored",
    },
    6: {
        "driver": "engine",
        "interface": "syscalls",
        "answer_bytes": "response_bytes",
        "answer_timeout": "response_timeout",
        "answer_timeout_ns": "response_timeout_ns",
        "outstanding": "queue_depth",
        "spins": "busy_wait",
        "strands": "threads",
        "strands_done": "threads_done",
    },
}
"""By version: what earlier ones name otherwise, as a key or as a whole text."""
_RENAMED_SETTINGS: Mapping[str, str] = {
    "answer": "response_size",
    "client": "client_engine",
    "depth": "queue_depth",
    "off": "burst_off",
    "off_time": "burst_off",
    "on": "burst_on",
    "on_time": "burst_on",
    "server": "server_engine",
}
"""Settings before version 6 whose names are words of something else, too."""
_SETTINGS = ("settings", "levels", "together", "coding", "explain", "variables", "disk")
"""Keys of objects whose own keys are settings."""
_OF_FACTORS = ("aliases", "confounded", "defining_words", "generators", "slow", "setting")
"""Keys of texts that are made of the names of factors: `read:depth`."""


def in_present_words(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file of a campaign in the words of the present version. One of this version is returned as it is."""
    version = document["schema_version"]
    names = {old: new for since, some in _RENAMED.items() if version < since for old, new in some.items()}
    if version < max(_RENAMED) and "workload" in document.get("experiment", {}):
        names |= _times(document["experiment"])
    settings = names | (dict(_RENAMED_SETTINGS) if version < max(_RENAMED) else {})
    return _renamed(document, names, settings, "") if names else dict(document)


def _times(experiment: Mapping[str, Any]) -> dict[str, str]:
    """Return the outcomes that are times of requests, by what they were called before version 6; a stream's kept their names."""
    found = dict(TIMES_OF_REQUESTS) if experiment["workload"].get("kind") in EXCHANGES else {}
    for beside, workload in bystanders_of(experiment).items():
        new = TIMES_OF_REQUESTS if workload.get("kind") in EXCHANGES else {}
        found |= {f"{beside}.{old}": f"{beside}.{new.get(old, old)}" for old in TIMES_OF_REQUESTS}
    return found


def _renamed(value: Any, names: Mapping[str, str], settings: Mapping[str, str], key: str) -> Any:
    """Return `value`, which stands at `key`, with new names: keys, and texts that are a name as a whole, or a host's."""
    if isinstance(value, dict):
        own = settings if key in _SETTINGS else names
        found = {_new_name(name, own): _renamed(of, names, settings, name) for name, of in value.items()}
        if "levels" in value and isinstance(value.get("name"), str):
            found["name"] = _new_name(value["name"], settings)
        return found
    if isinstance(value, list):
        return [_renamed(of, names, settings, key if key in _OF_FACTORS else "") for of in value]
    if isinstance(value, str) and key in _OF_FACTORS:
        return re.sub(r"\w+", lambda word: settings.get(word[0], word[0]), value)
    return _new_name(value, names) if isinstance(value, str) else value


def _new_name(text: str, names: Mapping[str, str]) -> str:
    host, dot, name = ("", "", text) if text in names else text.rpartition(".")
    return f"{host}{dot}{names.get(name, name)}"
