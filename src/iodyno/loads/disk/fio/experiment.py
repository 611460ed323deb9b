"""Jobs of fio as an experiment: one job is one load; jobs that wait for each other are levels of one factor, in their order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.formats.mistakes import listed, nearest
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.fio.ini import Section
from iodyno.loads.disk.fio.jobs import DEFAULT_SECONDS, Job, jobs_of
from iodyno.loads.disk.fio.reading import of_jobs
from iodyno.loads.files.wml.experiment import CLIENT, hosts_keys

Keys = dict[str, Any]

_VARIED = ("block", "queue_depth", "read", "random", "workers", "rate", "working_set")
"""Settings that become factors of a converted job, so that other levels can be added."""


_WITHOUT_MEANING = {"theta": "0.9", "stride": "4KiB", "random": "0%"}
"""Levels of a job whose pattern has no such thing: any will do."""


def chosen(sections: Sequence[Section], names: Sequence[str]) -> list[Section]:
    """The sections of these names, as jobs or as levels are called; all, where there is none. Raises ExperimentError."""
    labels = [section.label for section in sections]
    called = dict(zip(_levels_called(labels), labels, strict=True)) | {label: label for label in labels}
    for name in names:
        if name not in called:
            raise ExperimentError(
                f"unknown job {name}: expected {listed(name, labels)}{nearest(name, labels)}",
                where=f"--section {name}",
                advice=f"--section {shlex.quote(labels[0])}",
            )
    asked = {called[name] for name in names}
    return [section for section in sections if not names or section.label in asked]


def experiment_keys(
    sections: Sequence[Section],
    *,
    file: str,
    target: str | None = None,
    to: str | None = None,
    repeat: int = 1,
    seconds: float | None = None,
    factors: bool = False,
    named: Sequence[str] = (),
    among: Sequence[Section] = (),
) -> tuple[Keys, tuple[str, ...]]:
    """The keys of an experiment file that runs the jobs, and what is to be said about it. `factors`: numbers of a single
    job become factors with one level. `named`: the jobs that were asked for by name, which the experiment is called after,
    too. `among`: all jobs of the file. Raises ExperimentError.
    """
    jobs = jobs_of(list(sections), target=target, among=among)
    together = _together(jobs, file)
    notes = _notes(jobs)
    hosts = hosts_keys(to)
    varied: Keys = {}
    if any(job.files is not None for job in jobs):
        workload = _of_files(jobs, file, notes)
    elif together:
        hosts, workload = _parallel(jobs, hosts[CLIENT])
        notes.append(
            f"the {len(jobs)} jobs run at the same time: each is a client of its own, all started at one instant; "
            "tables and report have each of them and all together"
        )
    else:
        settings, varied = _varied(jobs, file) if len(jobs) > 1 else (dict(jobs[0].settings), {})
        if factors and len(jobs) == 1:
            varied = {name: [settings.pop(name)] for name in _VARIED if name in settings}
        workload = {"kind": "disk", "hosts": CLIENT, **settings}
    if together and len(hosts) > 1:
        for host, job in zip(hosts.values(), jobs, strict=True):
            _pin(host, job)
        if any(job.cpus for job in jobs) and not all(job.cpus for job in jobs):
            notes.append("jobs without cpus_allowed divide the CPUs that no other job names")
    else:
        _alike_in_cpus(jobs)
        for host in hosts.values():
            _pin(host, jobs[0])
    seed = next((job.seed for job in jobs if job.seed), None)
    if len({job.seed for job in jobs}) > 1:
        notes.append(
            f"the jobs have different seeds: {seed} is that of the experiment, from which all are made"
        )
    keys = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join((Path(file).stem, *named))).strip("-._")[:64]
        or "job",
        "question": f"What do the jobs of {Path(file).name} carry, and what do they cost?",
        "hosts": hosts,
        "workload": workload,
        **({"factors": varied} if varied else {}),
        "design": {
            **({"kind": "ladder", "along": "variant"} if "variant" in varied else {}),
            "replicates": repeat,
            **({"seed": seed} if seed else {}),
        },
        "windows": _windows(jobs, seconds, notes),
    }
    return keys, tuple(dict.fromkeys(notes))


def _notes(jobs: Sequence[Job]) -> list[str]:
    """Return the notes on the jobs; a note on several of them stands once."""
    said: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        for note in job.notes:
            said.setdefault((job.file, note), []).append(job.name)
    return [f"{file}: {of_jobs(names)} {note}" for (file, note), names in said.items()]


def steps(
    sections: Sequence[Section], *, target: str | None = None, among: Sequence[Section] = ()
) -> tuple[tuple[str, ...], ...]:
    """Names of the jobs of each step, where some jobs of a file run at the same time and others after them (`stonewall`, or
    all of a step wait for the one job before them), or where jobs that run one after the other differ in more than levels: each
    step is an experiment of its own. Empty: all of the file is one experiment, or has no such steps. Raises ExperimentError.
    """
    found: list[list[str]] = []
    waited: str | None = None
    jobs = jobs_of(list(sections), target=target, among=among)
    for job in jobs:
        begins = not found or job.alone_after
        if job.waits_for and found and found[-1] == [job.waits_for]:
            begins, waited = True, job.waits_for
        elif job.waits_for != waited and not job.alone_after:
            # It begins before others of its step, or with those of an earlier one.
            return ()
        if job.alone_after:
            waited = None
        if begins:
            found.append([])
        found[-1].append(job.name)
    several = len(found) > 1 and (any(len(names) > 1 for names in found) or not _comparable(jobs))
    return tuple(tuple(names) for names in found) if several else ()


def _together(jobs: Sequence[Job], file: str) -> bool:
    """Tell whether all jobs run at the same time, not one after the other. Raises ExperimentError where only some do."""
    after = [job.alone_after or job.waits_for == jobs[number].name for number, job in enumerate(jobs[1:])]
    if all(after):
        return False
    if not any(after):
        names = [job.name for job in jobs]
        late = next((job for job in jobs if job.delay), None)
        if late is not None and len(jobs) > 1:
            raise ExperimentError(
                f"[{late.name}] begins {late.delay} later than others (startdelay), and all jobs of a "
                "trial begin at one instant; expected none",
                where=f"{late.file}:{late.lines.get('startdelay', late.line)}",
                advice="leave startdelay out, or let one job wait for the other (stonewall)",
            )
        for number, job in enumerate(jobs):
            if job.waits_for in names[:number]:
                others = ", ".join(f"[{name}]" for name in names[:number] if name != job.waits_for)
                raise ExperimentError(
                    f"[{job.name}] waits for [{job.waits_for}], and not for {others}, which is not "
                    "carried; expected all at the same time, or one after the other (stonewall)",
                    where=f"{job.file}:{job.lines.get('wait_for', job.line)}",
                    advice=f"--section {shlex.quote(names[0])}, then the others",
                )
        return True
    first = after.index(False)
    beside, alone = jobs[first + 1], jobs[after.index(True) + 1]
    raise ExperimentError(
        f"the jobs [{jobs[first].name}] and [{beside.name}] run at the same time, and "
        f"[{alone.name}] after others; expected all at the same time, or one after the other",
        where=f"{beside.file}:{beside.line}",
        advice=f"--section {jobs[first].name} --section {beside.name}, then the others"
        + ("" if any(job.waits_for for job in jobs) else "; `iodyno run` makes a campaign of each step"),
    )


def _pin(host: Keys, job: Job) -> None:
    """Gives the host the CPUs that the job may run on."""
    if job.cpus:
        host["cpus"] = list(job.cpus)


def _alike_in_cpus(jobs: Sequence[Job]) -> None:
    """Raises ExperimentError where jobs that are one load, or trials of one experiment, may run on different CPUs."""
    first = jobs[0]
    for job in jobs:
        if job.cpus != first.cpus:
            where = f"{job.file}:{job.lines.get('cpus_allowed', job.line)}"
            here, there = (
                f"on CPUs {','.join(map(str, each.cpus))}" if each.cpus else "on all CPUs"
                for each in (first, job)
            )
            raise ExperimentError(
                f"[{first.name}] runs {here} and [{job.name}] {there} (cpus_allowed), which cannot be one experiment of theirs",
                where=where,
                advice=f"--section {first.name}, then --section {job.name}; `iodyno run` makes a campaign of each, where they"
                " wait for each other",
            )


def _comparable(jobs: Sequence[Job]) -> bool:
    """Tell whether jobs that run one after the other can be trials of one experiment."""
    if len({job.cpus for job in jobs}) > 1:
        return False
    whole = [job.files for job in jobs if job.files is not None]
    if whole:
        return len(whole) == len(jobs) and all(files.alike(whole[0]) for files in whole)
    return _lacking(jobs) is None


def _of_files(jobs: Sequence[Job], file: str, notes: list[str]) -> Keys:
    """A load on whole files. Raises ExperimentError where the jobs are not alike."""
    first = jobs[0]
    for job in jobs:
        if first.files is None or job.files is None or not job.files.alike(first.files):
            raise ExperimentError(
                f"[{first.name}] and [{job.name}] do not do the same to whole files; expected jobs "
                "that do, or one at a time",
                where=f"{job.file}:{job.line}",
                advice=f"--section {first.name}; `iodyno run` makes a campaign of each, where they wait for each other",
            )
    assert first.files is not None
    count = sum(job.files.count for job in jobs if job.files)
    threads = sum(job.files.threads for job in jobs if job.files)
    if len(jobs) > 1:
        notes.append(f"{len(jobs)} jobs that are alike: one program of {count} files and {threads} threads")
    files = replace(first.files, count=count, threads=threads)
    return {
        "kind": "files",
        "hosts": CLIENT,
        "target": files.directory,
        "program": files.personality(first.name),
    }


def _parallel(jobs: Sequence[Job], host: Keys) -> tuple[Keys, Keys]:
    """Hosts and workload of jobs that run at the same time: each is a client, with what it has of its own."""
    _alike_in_checks(jobs)
    names = _host_names(jobs)
    shared = {
        name: value
        for name, value in jobs[0].settings.items()
        if all(job.settings.get(name) == value for job in jobs[1:])
    }
    each = {
        name: {key: value for key, value in job.settings.items() if key not in shared}
        for name, job in zip(names, jobs, strict=True)
    }
    workload = {"kind": "disk", "hosts": names, **shared, "each": {k: v for k, v in each.items() if v}}
    return {name: dict(host) for name in names}, workload


def _alike_in_checks(jobs: Sequence[Job]) -> None:
    """Raises ExperimentError where a job checks what it reads and another one, at the same time, is not the same."""
    checking = next((job for job in jobs if job.settings.get("verify")), None)
    other = next((job for job in jobs if checking and job.settings != checking.settings), None)
    if checking is not None and other is not None:
        raise ExperimentError(
            f"[{checking.name}] has checks (verify) and runs at the same time as [{other.name}], "
            "which has other settings; expected jobs that are alike, or one after the other",
            where=f"{checking.file}:{checking.lines.get('verify', checking.line)}",
            advice=f"--section {shlex.quote(checking.name)}, then --section {shlex.quote(other.name)}",
        )


def _host_names(jobs: Sequence[Job]) -> list[str]:
    """The names of the jobs, each once, as hosts are called."""
    names: list[str] = []
    for job in jobs:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", job.name).strip("-_")[:28] or "job"
        name = plain if plain[0].isalpha() else f"job-{plain}"[:28]
        number = 2
        while (numbered := name if number == 2 else f"{name}-{number - 1}") in names:
            number += 1
        names.append(numbered)
    return names


def _levels(jobs: Sequence[Job]) -> dict[str, list[Any]]:
    """Of each setting what it is in each job: its own, else what it is by default, else None."""
    names = dict.fromkeys(name for job in jobs for name in job.settings)
    defaults: Mapping[str, Any] = {
        **{p.name: p.show(p.default) for p in WORKLOAD.parameters if p.default is not None},
        **_WITHOUT_MEANING,
    }
    levels = {name: [job.settings.get(name, defaults.get(name)) for job in jobs] for name in names}
    if "align" in levels:
        levels["align"] = [job.settings.get("align", _own_align(job)) for job in jobs]
    return levels


def _own_align(job: Job) -> str:
    """Return the alignment of the offsets of a job that states none."""
    block = str(job.settings.get("block", "4KiB"))
    return "512B" if "(" in block else block


def _lacking(jobs: Sequence[Job]) -> tuple[str, str, str] | None:
    """The first setting that one job has and another cannot have a level for, and these two."""
    for name, levels in _levels(jobs).items():
        if None in levels:
            have = next(job.name for job in jobs if name in job.settings)
            return name, have, jobs[levels.index(None)].name
    return None


def _varied(jobs: Sequence[Job], file: str) -> tuple[Keys, Keys]:
    """Settings that all jobs share, and the factor whose levels are the jobs."""
    if lacking := _lacking(jobs):
        name, have, without = lacking
        raise ExperimentError(
            f"[{have}] has {name} and [{without}] has none, which cannot be levels of one factor",
            where=file,
            advice=f"--section {have}, then --section {without}; `iodyno run` makes a campaign of each",
        )
    every = _levels(jobs)
    shared: Keys = {name: each[0] for name, each in every.items() if len(set(map(str, each))) == 1}
    together: Keys = {name: each for name, each in every.items() if name not in shared}
    labels = _levels_called([job.name for job in jobs])
    if not together:
        raise ExperimentError(
            f"the {len(jobs)} jobs are all alike",
            where=file,
            advice=f"--section {jobs[0].name} --repeat {len(jobs)}",
        )
    return shared, {"variant": {"levels": labels, "together": together}}


def _levels_called(names: Sequence[str]) -> list[str]:
    """The names of the jobs as levels are called, each once."""
    levels: list[str] = []
    for name in names:
        level = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "job"
        levels.append(level if level not in levels else f"{level}-{len(levels) + 1}")
    return levels


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
    if any(job.warm_up_ns != warm_up_ns for job in jobs):
        notes.append(f"the jobs have different ramp_time: each has {quantity.show('duration', warm_up_ns)}")
    interval_ms = min(1000, max(10, measured_ns // 10**7))
    return {
        "warm_up": quantity.show("duration", warm_up_ns) if warm_up_ns else "0s",
        "measured": f"{-(-measured_ns // 10**6)}ms",
        "drain": "0s",
        "interval": f"{interval_ms}ms" if interval_ms < 1000 else "1s",
    }
