"""`iodyno hosts`: which hosts an experiment file names, and is each of them ready?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.experiment_argument import experiment_argument
from iodyno.cli.form import format_option, show
from iodyno.cli.number import Seconds
from iodyno.core.errors import AccessError
from iodyno.report.form import Form, Row, Shown
from iodyno.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from iodyno.session.host_checks import HostCheck


@click.command(name="hosts")
@experiment_argument
@click.option(
    "--timeout",
    type=Seconds(0.1, 600),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a host may take to answer once its turn to log in has come.",
)
@format_option()
def command(file: str, timeout: float, form: Form) -> None:
    """List the hosts of the experiment in FILE, and check each: is it reached, does an agent start there, what is it, how well
    is its clock known.

    All are looked at together; one that does not answer is named, and costs the others nothing. Exit code 3 when one is not
    ready.

    \b
    Examples:
      iodyno hosts many.yaml
      iodyno hosts many.yaml --timeout 3 --format csv
    """
    import asyncio

    from iodyno.formats.experiment_file import read_experiment
    from iodyno.session.host_checks import check_hosts
    from iodyno.session.locate import find_agent

    experiment = read_experiment(file)
    placed = {
        machine: replace(pair.hosts[role], name=machine)
        for pair in experiment.placement
        for role, machine in pair.machines.items()
    }
    checks = asyncio.run(check_hosts(placed or experiment.hosts, find_agent(), timeout))
    failed = [check for check in checks if check.problem is not None]
    hosts = [_as_json(check) for check in checks]
    values = {"ok": not failed, "file": file, "hosts": hosts}
    show(Shown(lambda: _tables(checks), lambda: values, lambda: map(_row, hosts)), form)
    if failed:
        problems = [check.problem for check in failed if check.problem is not None]
        more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        first = problems[0]
        raise AccessError(
            f"{len(failed)} of {len(checks)} hosts are not ready: {first.where}: {first.what}{more}",
            advice=first.advice,
        )


def _as_json(check: HostCheck) -> dict[str, Any]:
    problem = check.problem
    return {
        "name": check.name,
        "access": check.access,
        "target": check.target,
        "ready": problem is None,
        "problem": None if problem is None else {"what": problem.what, "try": problem.advice},
        "took_s": round(check.took_s, 3),
        "address": check.address,
        "agent": check.agent,
        "facts": dict(check.facts),
        "clock": None if check.clock is None else check.clock.as_json(),
    }


def _row(host: dict[str, Any]) -> Row:
    """Return one line of CSV of a host."""
    flat = {name: host[name] for name in ("name", "access", "target", "ready", "took_s", "address", "agent")}
    clock, facts = host["clock"] or {}, host["facts"]
    kept = ("kernel", "memory_bytes", "container", "pod", "node", "job")
    problem = host["problem"] and host["problem"]["what"]
    return {
        **flat,
        "problem": problem,
        **{name: facts.get(name) for name in kept},
        "clock_error_ns": clock.get("error_ns"),
    }


def _tables(checks: list[HostCheck]) -> Iterator[Table]:
    from iodyno.report.numbers import quantity

    titles = ("Host", "Reached by", "Answer", "Kernel", "CPUs", "Memory", "Runs in", "Address", "Clock")
    rows = []
    for check in checks:
        facts = check.facts
        told = [check.name, f"{check.access} {check.target}".strip()]
        if check.problem is None:
            told += [
                quantity(check.took_s * 1e9, "ns"),
                str(facts.get("kernel") or ""),
                str(len(facts.get("cpus_allowed") or ())),
                quantity(facts.get("memory_bytes"), "B"),
                " ".join(
                    f"{name} {facts[name]}".removeprefix("container ")
                    for name in ("container", "pod", "node", "job")
                    if facts.get(name)
                ),
                check.address or "",
                "" if check.clock is None else f"±{quantity(check.clock.error_ns, 'ns')}",
            ]
        else:
            told += [check.problem.what.splitlines()[0]]
        rows.append(tuple(Cell(text) for text in told))
    ready = [row for row, check in zip(rows, checks, strict=True) if check.problem is None]
    if ready:
        title = f"{len(ready)} of {len(checks)} hosts are ready"
        yield Table(title, tuple(Column(title) for title in titles), tuple(ready))
    if lacking := [row for row in rows if len(row) == 3]:
        columns = (*map(Column, titles[:2]), Column("Problem"))
        yield Table("Not ready", columns, tuple(lacking))
