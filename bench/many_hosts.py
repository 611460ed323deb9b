"""Memory and CPU time that the lab, and the clients by which it reaches hosts, take for each; how long many take to be opened.

Simulated hosts are those of a lab whose hosts cost it nothing else; ssh is to one server on loopback, where each host is also a
client on the lab's machine, and the agents share its CPUs with the lab. Memory of clients is what each has for itself, and its
part of what they share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.trial import carry_out
from iodyno.core.experiment import Experiment, HostSpec, Windows, WorkloadSpec
from iodyno.hosts.logins import AT_A_SERVER
from iodyno.session.locate import find_agent

SIMULATED = (100, 1000)
SSH = (10, 100)
_SSHD = Path("/usr/sbin/sshd")
_WINDOWS = Windows(0, 2_000_000_000, 0, 1_000_000_000)
_IDLE_S = 3.0


async def run(pairs: int) -> list[dict[str, object]]:
    """A row for each way to reach hosts and each number of them, each in a process of its own."""
    rows = []
    with contextlib.ExitStack() as stack:
        ways: list[tuple[str, int, dict[str, object]]] = [("simulated", count, {}) for count in SIMULATED]
        if _SSHD.exists() and os.geteuid() == 0:
            options = stack.enter_context(_server())
            ways += [("ssh", count, options) for count in SSH]
        for access, count, options in ways:
            row = await _in_child(access, count, options)
            plain = await _plain(count, options) if access == "ssh" else None
            rows.append({**row, "plain_ssh_s": plain})
    return rows


async def _plain(count: int, options: dict[str, object]) -> float:
    """Wall time of so many `ssh HOST true`, as many at a time as the lab has under way."""
    known, key = f"UserKnownHostsFile={options['known_hosts_file']}", str(options["identity_file"])
    words = [
        "ssh",
        "-F",
        "none",
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        known,
        "-i",
        key,
        "-p",
        str(options["port"]),
    ]
    turns, began = asyncio.Semaphore(AT_A_SERVER), time.monotonic()

    async def log_in() -> None:
        async with turns:
            child = await asyncio.create_subprocess_exec(
                *words, str(options["to"]), "true", stdin=subprocess.DEVNULL
            )
            if await child.wait():
                raise SystemExit("ssh to this machine itself fails")

    await asyncio.gather(*(log_in() for _ in range(count)))
    return round(time.monotonic() - began, 2)


async def _in_child(access: str, count: int, options: dict[str, object]) -> dict[str, object]:
    words = [sys.executable, "-m", "bench.many_hosts", access, str(count), json.dumps(options)]
    child = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()
    return dict(json.loads(said))


async def _row(access: str, count: int, options: dict[str, object]) -> dict[str, object]:
    clients = tuple(f"client-{number}" for number in range(1, count + 1))
    hosts = {name: HostSpec(name, access, options) for name in (*clients, "server")}
    workload = WorkloadSpec("stream", clients, ("server",), groups={"client": clients})
    experiment = Experiment("bench", "", hosts, workload, (), profile_hz=0)
    log = Path(str(options["identity_file"])).with_name("log") if access == "ssh" else None
    rss, began, cpu, logins = _rss(), time.monotonic(), _cpu_s(), _logins(log)
    async with _opened(experiment) as testbed:
        opened_s, opened_cpu = time.monotonic() - began, _cpu_s() - cpu
        held = _rss() - rss
        logins = _logins(log) - logins
        processes = [found for each in testbed.sessions.values() if (found := each.process_id)]
        to_open = _of_clients(processes)
        cpu = _cpu_s()
        await asyncio.sleep(_IDLE_S)
        idle = (_cpu_s() - cpu) / _IDLE_S
        cpu, account, records = _cpu_s(), Account(), [0]

        def count_record(host: str, record: object) -> None:
            records[0] += 1

        await carry_out(testbed, "t", experiment.settings({}), _WINDOWS, account, count_record)
        trial = _cpu_s() - cpu
        through_trial = _of_clients(processes)
        skew = (account.start or {}).get("skew_ns")
    return {
        "access": access,
        "hosts": count,
        "open_s": round(opened_s, 2),
        "lab_cpu_to_open_ms_per_host": round(1e3 * opened_cpu / count, 2),
        "lab_kib_per_host": round(held / 1024 / count),
        "lab_cpu_idle_us_per_host_s": round(1e6 * idle / count),
        "lab_cpu_trial_ms_per_host": round(1e3 * trial / count, 2),
        "logins_per_host": round(logins / (count + 1), 2),
        "client_kib_per_host": round(to_open[1] / (count + 1)),
        "client_cpu_to_open_ms_per_host": round(1e3 * to_open[0] / (count + 1), 1),
        "client_cpu_idle_and_trial_ms_per_host": round(
            1e3 * (through_trial[0] - to_open[0]) / (count + 1), 1
        ),
        "records": records[0],
        "start_skew_us": None if skew is None else round(skew / 1e3),
    }


@contextlib.asynccontextmanager
async def _opened(experiment: Experiment) -> AsyncIterator[Testbed]:
    async with Testbed(experiment, find_agent()) as testbed:
        yield testbed


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _of_clients(ids: list[int]) -> tuple[float, int]:
    """CPU seconds and KiB of the processes on this machine by which hosts are reached."""
    seconds, kib = 0.0, 0
    for process in ids:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        kib += int(next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:")))
    return seconds, kib


def _logins(log: Path | None) -> int:
    return log.read_text().count("Accepted publickey") if log else 0


@contextlib.contextmanager
def _server() -> Iterator[dict[str, object]]:
    """An ssh server on loopback with keys of its own."""
    with tempfile.TemporaryDirectory() as made, socket.create_server(("127.0.0.1", 0)) as free:
        folder, port = Path(made), int(free.getsockname()[1])
        free.close()
        for name in ("host", "user"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(key, check=True)
        (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
        config = folder / "config"
        config.write_text(
            f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            # As of a shell in a shell: bash reads no start-up file, whose cost would be that of this machine's account.
            "SetEnv SHLVL=1\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        server = subprocess.Popen([_SSHD, "-D", "-E", folder / "log", "-f", config])
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield {
                "to": "root@127.0.0.1",
                "port": port,
                "identity_file": str(folder / "user"),
                "known_hosts_file": str(folder / "known"),
                "config_file": "/dev/null",
            }
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    _access, _count, _options = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(_row(_access, int(_count), json.loads(_options)))))
