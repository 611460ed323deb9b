"""Traces that an experiment names: sizes, times between arrivals, operations to replay. They are found, and read once, before
a host is opened.

As other files that an experiment names they lie beside it; one that does not may also lie where iodyno runs, so that the copy
of an experiment in its campaign's folder finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path as FilePath

from iodyno.core.distribution import trace_file
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.invalid import for_key
from iodyno.core.workload import Level
from iodyno.formats import value_traces
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import load_named
from iodyno.loads.disk.formats import block_traces

_READERS: Mapping[str, Callable[[str], object]] = {
    "sizes": value_traces.sizes_bytes,
    "block": value_traces.sizes_bytes,
    "arrivals": value_traces.gaps_ns,
    "replay": block_traces.read_trace,
}
"""Readers of the traces that parameters may name."""
Traces = Mapping[tuple[str, Level], str]
"""For a parameter and its level as it was written, the level that names the whole path of the file."""


def found(
    reading: Reading, places: Mapping[Path, WorkloadSpec | None], factors: Mapping[str, Factor]
) -> Traces:
    """All traces of the workloads, by the section that each is in, and of the factors; what cannot be read is noted."""
    traces: dict[tuple[str, Level], str] = {}
    if any(workload and load_named(workload.kind).own_names for workload in places.values()):
        return traces  # whose variables may have any name
    named = [*_named(places, factors)]
    chosen = [str(level) for _, name, level in named if name == "replay_device"]
    devices: Sequence[str | None] = chosen or [None]
    for where, name, level in named:
        file = _file(name, level)
        if file is None or name not in _READERS:
            continue
        path = reading.folder / file
        whole = (path if path.exists() or not FilePath(file).exists() else FilePath(file)).absolute()
        try:
            if name == "replay":
                _of_one(str(whole), devices)
            else:
                _READERS[name](str(whole))
        except ExperimentError as problem:
            reading.note(
                where, f"{for_key(problem.where, problem.what)}; {problem.advice}".removesuffix("; ")
            )
        traces[name, level] = f"trace({whole})" if name != "replay" else str(whole)
    return traces


def _of_one(path: str, devices: Sequence[str | None]) -> None:
    """Raises ExperimentError where the trace has nothing to replay of any of these devices: traces may be levels, and devices."""
    for device in devices[:-1]:
        with suppress(ExperimentError):
            block_traces.read_trace(path, device)
            return
    block_traces.read_trace(path, devices[-1])


def settled(workload: WorkloadSpec, traces: Traces) -> WorkloadSpec:
    """The workload with the whole paths of its traces."""
    own = {host: with_paths(settings, traces) for host, settings in workload.own.items()}
    return replace(workload, settings=with_paths(workload.settings, traces), own=own)


def with_paths(settings: Mapping[str, Level], traces: Traces) -> dict[str, Level]:
    """The settings with the whole paths of traces."""
    return {name: traces.get((name, level), level) for name, level in settings.items()}


def _file(name: str, level: Level) -> str | None:
    if not isinstance(level, str):
        return None
    return level if name == "replay" else trace_file(level)


def _named(
    places: Mapping[Path, WorkloadSpec | None], factors: Mapping[str, Factor]
) -> Iterator[tuple[Path, str, Level]]:
    """Every level of every parameter, with its place in the file."""
    for section, workload in places.items():
        if workload is None:
            continue
        for name, level in workload.settings.items():
            yield (*section, name), name, level
        for host, settings in workload.own.items():
            for name, level in settings.items():
                yield (*section, "each", host, name), name, level
    for factor in factors.values():
        for at, level in enumerate(factor.levels):
            yield ("factors", factor.name, at), factor.name, level
        for name, levels in factor.together.items():
            for at, level in enumerate(levels):
                yield ("factors", factor.name, "together", name, at), name, level
