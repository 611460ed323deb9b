"""Hosts that ssh is to reach, in an experiment file and as a word of a command: `--to root@server:2222`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from iodyno.core import ssh_target
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import HostSpec
from iodyno.core.invalid import invalid
from iodyno.formats.mistakes import Path
from iodyno.formats.ssh_config import what_runs

Note = Callable[[Path, str], None]

WORD = ssh_target.FORM


def named_by(word: str, option: str = "--to", allowed: str = WORD) -> dict[str, str]:
    """The keys of the host that `[ssh:][USER@]HOST[:PORT]` names. Raises ExperimentError, which names the option."""
    to = word.removeprefix("ssh:")
    problem = invalid(word, allowed)
    if to:
        try:
            ssh_target.parse(to)
        except ValueError as wrong:
            problem = str(wrong)
        else:
            return {"access": "ssh", "to": to}
    raise ExperimentError(problem, where=option, advice=f"{option} root@server")


def with_ports(hosts: Sequence[HostSpec], path: Path, note: Note) -> list[HostSpec]:
    """The hosts of one entry, numbered already, each with its port apart from `to`. The first that cannot be is noted, and an
    ssh_config that would have something run here.
    """
    config = hosts[0].options.get("config_file")
    if config is not None and (running := what_runs(str(config))):
        allowed = "a file that has ssh run no program here (yours may, in ~/.ssh/config)"
        note((*path, "config_file"), f"invalid value: {running}; expected {allowed}")
    apart = []
    for host in hosts:
        try:
            target = ssh_target.parse(str(host.options["to"]))
        except ValueError as problem:
            note((*path, "to"), str(problem))
            return list(hosts)
        if target.port is not None and "port" in host.options:
            note((*path, "port"), "duplicate setting: `to` has a port too")
            return list(hosts)
        port = {} if target.port is None else {"port": target.port}
        apart.append(replace(host, options={**host.options, "to": target.to, **port}))
    return apart
