"""Jobs of fio as an experiment: one job is one load; jobs that wait for each other are levels of one factor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.workload import DISK
from iodyno.formats.fio.ini import Section
from iodyno.formats.fio.jobs import DEFAULT_SECONDS, Job, jobs_of
from iodyno.formats.mistakes import nearest
from iodyno.formats.wml.experiment import CLIENT, hosts_keys

Keys = dict[str, Any]

_VARIED = ("block", "depth", "read", "random", "workers", "rate", "working_set")
"""Settings that become factors of a converted job, so that other levels can be added."""


def chosen(sections: Sequence[Section], names: Sequence[str], file: str) -> list[Section]:
    """The sections of these names; all, where there is none. Raises ExperimentError."""
    known = [section.name for section in sections]
    for name in names:
        if name not in known:
            raise ExperimentError(
                f"found no job {name}, allowed: {', '.join(known)}{nearest(name, known)}",
                where=f"--section {name}",
                advice=f"--section {known[0]}",
            )
    return [section for section in sections if not names or section.name in names]


def experiment_keys(
    sections: Sequence[Section],
    *,
    file: str,
    target: str | None = None,
    to: str | None = None,
    repeat: int = 1,
    seconds: float | None = None,
    factors: bool = False,
) -> tuple[Keys, tuple[str, ...]]:
    """The keys of an experiment file that runs the jobs, and what is to be said about it. `factors`: numbers of a single
    job become factors with one level. Raises ExperimentError.
    """
    jobs = jobs_of(list(sections), target=target)
    _refuse_parallel(jobs, file)
    notes = [f"{job.file}: [{job.name}] {note}" for job in jobs for note in job.notes]
    programs = [job for job in jobs if job.program is not None]
    if programs:
        if len(jobs) > 1:
            raise ExperimentError(
                f"found {len(jobs)} jobs, of which [{programs[0].name}] works on whole files; allowed: one at a time",
                where=file,
                advice=f"--section {programs[0].name}",
            )
        workload: Keys = {
            "kind": "files",
            "on": CLIENT,
            "target": programs[0].target,
            "program": programs[0].program,
        }
        varied: Keys = {}
    else:
        settings, varied = _varied(jobs, file) if len(jobs) > 1 else (dict(jobs[0].settings), {})
        if factors and len(jobs) == 1:
            varied = {name: [settings.pop(name)] for name in _VARIED if name in settings}
        workload = {"kind": "disk", "on": CLIENT, **settings}
    cpus = list(dict.fromkeys(cpu for job in jobs for cpu in job.cpus))
    hosts = hosts_keys(to)
    if cpus:
        hosts[CLIENT]["cpus"] = cpus
    seed = next((job.seed for job in jobs if job.seed), None)
    keys = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", Path(file).stem).strip("-._")[:64] or "job",
        "question": f"What do the jobs of {Path(file).name} carry, and what do they cost?",
        "hosts": hosts,
        "workload": workload,
        **({"factors": varied} if varied else {}),
        "design": {"replicates": repeat, **({"seed": seed} if seed else {})},
        "windows": _windows(jobs, seconds, notes),
    }
    return keys, tuple(dict.fromkeys(notes))


def _refuse_parallel(jobs: Sequence[Job], file: str) -> None:
    """Refuses jobs that would run at the same time. Raises ExperimentError."""
    for number, job in enumerate(jobs[1:], start=1):
        before = jobs[number - 1]
        if not job.alone_after and job.waits_for != before.name:
            raise ExperimentError(
                f"the jobs [{before.name}] and [{job.name}] run at the same time, allowed: one load in a trial",
                where=f"{job.file}:{job.line}",
                advice=f"stonewall in [{job.name}] to run them one after the other, or --section {job.name}",
            )


def _varied(jobs: Sequence[Job], file: str) -> tuple[Keys, Keys]:
    """Settings that all jobs share, and the factor whose levels are the jobs."""
    names = list(dict.fromkeys(name for job in jobs for name in job.settings))
    defaults: Mapping[str, Any] = {
        p.name: p.show(p.default) for p in DISK.parameters if p.default is not None
    }
    together: Keys = {}
    shared: Keys = {}
    for name in names:
        levels = [job.settings.get(name, defaults.get(name)) for job in jobs]
        if None in levels:
            without = jobs[levels.index(None)].name
            have = next(job.name for job in jobs if name in job.settings)
            raise ExperimentError(
                f"[{have}] has {name} and [{without}] has none, which cannot be levels of one factor",
                where=file,
                advice=f"--section {have}, then --section {without}",
            )
        if len(set(map(str, levels))) == 1:
            shared[name] = levels[0]
        else:
            together[name] = levels
    labels = _labels(jobs)
    if not together:
        raise ExperimentError(
            f"the {len(jobs)} jobs are all alike",
            where=file,
            advice=f"--section {jobs[0].name} --repeat {len(jobs)}",
        )
    return shared, {"variant": {"levels": labels, "together": together}}


def _labels(jobs: Sequence[Job]) -> list[str]:
    """The names of the jobs, each once."""
    labels: list[str] = []
    for job in jobs:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.name).strip("-.") or "job"
        labels.append(name if name not in labels else f"{name}-{len(labels) + 1}")
    return labels


def _windows(jobs: Sequence[Job], seconds: float | None, notes: list[str]) -> Keys:
    times = {job.measured_ns for job in jobs}
    measured_ns = max((each for each in times if each), default=DEFAULT_SECONDS * 10**9)
    if len(times) > 1:
        notes.append(
            f"the jobs have different times: each is measured for {quantity.show('duration', measured_ns)}"
        )
    if seconds is not None:
        measured_ns = round(seconds * 1e9)
    warm_up_ns = max(job.warm_up_ns for job in jobs)
    interval_ms = min(1000, max(10, measured_ns // 10**7))
    return {
        "warm_up": quantity.show("duration", warm_up_ns) if warm_up_ns else "0s",
        "measured": f"{-(-measured_ns // 10**6)}ms",
        "drain": "0s",
        "interval": f"{interval_ms}ms" if interval_ms < 1000 else "1s",
    }
