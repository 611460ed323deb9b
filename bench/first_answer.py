"""Time to the first answer: whole commands, from their start to their end, beside those that ask their peers the same."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report_page import TESTS

_IODYNO = str(Path(sys.executable).with_name("iodyno"))
_FIO = (
    "--name=j",
    "--rw=randread",
    "--bs=4k",
    "--size=64M",
    "--time_based",
    "--runtime=1",
    "--output-format=terse",
)
_OURS: Mapping[str, tuple[Sequence[str], float]] = {
    "iodyno --help": (("--help",), 0.3),
    "iodyno run --help": (("run", "--help"), 0.4),
    "iodyno tcp --seconds 1": (("tcp", "--seconds", "1"), 3.0),
    "iodyno rr --seconds 1": (("rr", "--seconds", "1"), 3.0),
    "iodyno disk --seconds 1": (("disk", "--target", "FILE", "--size", "64MiB", "--pattern", "random", "--seconds", "1"), 3.0),
}  # fmt: skip
"""Command lines, with the most seconds that they may take."""
_PEERS: Mapping[str, tuple[str, Sequence[str]]] = {
    "iperf3 -c ... -t 1": ("iodyno tcp --seconds 1", ("iperf3", "-c", "127.0.0.1", "-p", "5299", "-t", "1")),
    "netperf -t TCP_RR -l 1": (
        "iodyno rr --seconds 1",
        ("netperf", "-H", "127.0.0.1", "-p", "5298", "-t", "TCP_RR", "-l", "1"),
    ),
    "fio --runtime=1": ("iodyno disk --seconds 1", ("fio", "--filename=FILE", *_FIO)),
}
"""What is compared with which of ours. Servers of the peers run already, ours are started each time."""
_BY_SSH: Mapping[str, float] = {"iodyno tcp HOST, agent there": 4.0, "iodyno tcp HOST, the first time": 8.0}
"""One second over ssh, with the most seconds that it may take: with the agent in the account's cache, and not."""

_PHASES = {
    "start": "imports and options",
    "measuring the background": "background, warm-up (0.3 s), load (1 s), drain (0.1 s)",
    "measuring the background again": "background, storing, analysis, end",
}
"""What lies behind a stage where its own name does not say it."""


async def run(pairs: int) -> list[dict[str, object]]:
    """Wall time of whole commands, alternated: bounds 0.3 s (--help), 0.4 s (COMMAND --help), 3 s (one second of load), over ssh
    4 s with the agent there and 8 s without.
    """
    return await asyncio.to_thread(_measure, pairs)


def _measure(pairs: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as place, _servers(), _ssh_host(Path(place)) as host:
        file = str(Path(place) / "file")
        commands = {name: [_IODYNO, *_placed(words, file)] for name, (words, _) in _OURS.items()}
        commands |= {name: [_IODYNO, "tcp", host.to, "--seconds", "1"] for name in _BY_SSH if host}
        for name in commands:
            if "--seconds" in commands[name]:
                commands[name] += ["-v", "--into", place]  # -v: with the phases by name
        commands |= {
            name: _placed(words, file) for name, (_, words) in _PEERS.items() if shutil.which(words[0])
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        phases: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for number in range(pairs + 1):
            for name, command in commands.items():
                if host and name.endswith("first time"):
                    shutil.rmtree(host.home / ".cache", ignore_errors=True)
                seconds, of_it = _timed(command, host.environment if host and name in _BY_SSH else None)
                if number:  # the first fills caches: modules, the calibration, the file
                    took[name].append(seconds)
                    phases[name].append(of_it)
    rows: list[dict[str, object]] = []
    for name, bound in ({name: bound for name, (_, bound) in _OURS.items()} | _BY_SSH).items():
        if name not in took:
            continue
        peer = next((p for p, (ours, _) in _PEERS.items() if ours == name and p in took), "")
        rows.append(_row(name, took[name], f"{bound:g} s", peer, took.get(peer, [])))
        for phase in phases[name][0]:
            rows.append(_row(f"  {phase}", [each.get(phase, 0.0) for each in phases[name]]))
    return rows + [_row(name, seconds) for name, seconds in took.items() if name in _PEERS]


def _row(
    what: str, seconds: Sequence[float], bound: str = "", peer: str = "", theirs: Sequence[float] = ()
) -> dict[str, object]:
    ratio = statistics.median(a - b for a, b in zip(seconds, theirs, strict=True)) if theirs else None
    return {
        "what": what,
        "median": f"{statistics.median(seconds):.2f} s",
        "least": f"{min(seconds):.2f}",
        "greatest": f"{max(seconds):.2f}",
        "allowed": bound,
        "longer than": f"{peer} by {ratio:.2f} s" if ratio is not None else "",
    }


def _placed(words: Sequence[str], file: str) -> list[str]:
    return [word.replace("FILE", file) for word in words]


def _timed(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[float, dict[str, float]]:
    """Run a command; return its wall time in seconds, and that of each phase that it named on stderr."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    marks: list[tuple[float, str]] = [(began, "start")]
    said = b""
    while data := os.read(process.stderr.fileno(), 1 << 16):
        said += data
        lines = data.decode(errors="replace").splitlines()
        marks += [(time.monotonic(), line.removesuffix(" ...")) for line in lines if line.endswith(" ...")]
    if process.wait():
        raise RuntimeError(f"{' '.join(command)} failed: {said.decode(errors='replace')[-500:]}")
    ended = time.monotonic()
    ends = [at for at, _ in marks[1:]] + [ended]
    phases: dict[str, float] = {}
    for (at, name), end in zip(marks, ends, strict=True):
        phases[_PHASES.get(name, name)] = end - at
    return ended - began, phases if len(marks) > 1 else {}


@dataclass(frozen=True)
class _SshHost:
    """A host behind an ssh server of its own: its name, its account's home, the environment whose `ssh` knows it."""

    to: str
    home: Path
    environment: Mapping[str, str]


@contextlib.contextmanager
def _ssh_host(folder: Path) -> Iterator[_SshHost | None]:
    """A server in a network namespace, as the tests have it; None without root or without sshd."""
    if os.geteuid() or not Path("/usr/sbin/sshd").exists():
        yield None
        return
    sys.path.insert(0, str(TESTS))
    from places import ssh_place

    with ssh_place(folder / "ssh", 0) as place:
        config, client = folder / "ssh_config", folder / "bin" / "ssh"
        keys, known = place.options["identity_file"], place.options["known_hosts_file"]
        config.write_text(f"IdentityFile {keys}\nUserKnownHostsFile {known}\nIdentitiesOnly yes\n")
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        client.chmod(0o755)
        path = f"{client.parent}:{os.environ['PATH']}"
        yield _SshHost(place.options["to"], place.home, {**os.environ, "PATH": path})


@contextlib.contextmanager
def _servers() -> Iterator[None]:
    commands = [["iperf3", "-s", "-p", "5299"], ["netserver", "-D", "-p", "5298"]]
    quiet = subprocess.DEVNULL
    servers = [subprocess.Popen(c, stdout=quiet, stderr=quiet) for c in commands if shutil.which(c[0])]
    time.sleep(0.3)
    try:
        yield
    finally:
        for server in servers:
            server.terminate()
            server.wait()
