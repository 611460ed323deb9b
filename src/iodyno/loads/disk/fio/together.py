"""Options of a job that cannot go together, known before a host is opened: each at the option that says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.parameter import Level
from iodyno.loads.disk.core import parameters as disk_parameters
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.fio.reading import SectionReading

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "align": ("blockalign",),
    "arrivals": ("rate_process",),
    "batch": ("iodepth_batch_complete_min",),
    "cached": ("invalidate", "pre_read"),
    "block": ("bssplit", "bsrange", "bs"),
    "content": ("buffer_compress_percentage", "zero_buffers"),
    "queue_depth": ("iodepth",),
    "direct": ("direct", "buffered"),
    "in_order": ("rw",),
    "operations": ("number_ios", "io_size"),
    "hot_operations": ("random_distribution",),
    "hot_space": ("random_distribution",),
    "syscalls": ("ioengine",),
    "iopoll": ("hipri",),
    "pattern": ("random_distribution", "rw"),
    "random": ("percentage_random",),
    "rate": ("rate", "rate_iops"),
    "read": ("rwmixread", "rwmixwrite", "rw"),
    "registered": ("fixedbufs", "registerfiles"),
    "sqpoll": ("sqthread_poll",),
    "stride": ("rw",),
    "sync_every": ("fsync", "fdatasync"),
    "target": ("filename", "directory"),
    "theta": ("random_distribution",),
    "think": ("thinktime",),
    "think_every": ("thinktime_blocks",),
    "workers": ("numjobs",),
    "working_set": ("size", "filesize"),
}
"""The options of fio that say a parameter of the workload `disk`, where they have another name."""


_PLAIN = ("block", "queue_depth", "target", "workers", "working_set")
"""Parameters that a sentence is understood of without their name, whatever the option is called."""


def check(reading: SectionReading, settings: Mapping[str, Any]) -> None:
    """Notes what is out of range, and what does not go together. Nothing, where other mistakes were found: they may be why."""
    if reading.wrong:
        return
    point: dict[str, Level] = {}
    for name, value in settings.items():
        parameter = WORKLOAD.parameter(name)
        assert parameter is not None
        try:
            point[name] = parameter.parse(value)
        except ValueError as problem:
            _note(reading, (name,), str(problem))
    if reading.wrong:
        return
    for name, text in disk_parameters.mistakes_of(point):
        _note(reading, (name,), text)
    for names, text in disk_parameters.mistakes_of_point(point):
        _note(reading, names, text)


def _note(reading: SectionReading, names: tuple[str, ...], text: str) -> None:
    """Notes it at the first of these parameters that the file has an option for; else at the section."""
    for name in names:
        key = reading.last(*_OPTIONS.get(name, (name,)))
        if key is not None:
            known = name in _PLAIN or key.name == name
            return reading.note(key, text if known else f"{text} (it is `{name}` here)")
    return reading.note(None, f"{names[0]} {text}")
