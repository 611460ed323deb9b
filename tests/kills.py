"""Kills at random times: `python tests/kills.py --kills 1000` (`make faults N=1000`), as root. No test; prints a table.

Each worker has network and mount namespaces of its own, with an empty /run, so that what is left there is its own. It takes
campaigns one after the other, kills a process of each up to four times, goes on with them as the lab says, and looks at the
end what became of the trials that were finished before a kill, and of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from places import HUNG_S, SshPlace, own_agent, ssh_place

ROOT = Path(__file__).resolve().parent.parent
MOST_KILLS = 4
"""Of one campaign."""
MOST_RUNS = 12
"""Of one campaign: those that were killed, and those in which every attempt of a trial met with a kill."""
SETTLED_S = 20.0
"""chosen: within which all is gone that ends by itself: twice the silence after which an agent gives its lab up."""
MARK = "IODYNO_KILLS"
"""In the environment of a lab, and so of all that it starts."""

_HEAD = """
windows: {warm_up: 50ms, measured: 300ms, drain: 50ms, interval: 100ms}
limits: {retries: 2, background_window: 50ms, background: 1.0}
profile: off
"""
_BETWEEN = "hosts: {client: {access: netns}, server: {access: netns}}\n"
_STREAM = "kind: stream, sender: client, receiver: server"
_EXCHANGE = "kind: request_response, sender: client, receiver: server, engine: epoll"


@dataclass(frozen=True)
class Kind:
    """A kind of campaign. `on_volume`, `over_ssh`: it needs a folder on a disk; a host that is reached by ssh."""

    command: str
    text: str
    victims: tuple[str, ...] = ("lab", "agent", "guard")
    words: tuple[str, ...] = ()
    on_volume: bool = False
    over_ssh: bool = False


KINDS = {
    "run, namespaces": Kind(
        "run",
        f"{_BETWEEN}workload: {{{_STREAM}, sender_quota: 50}}\ntunables: {{all: {{tso: off}}}}\n"
        "factors: {connections: [1, 2], all.mtu: [1500, 9000]}\ndesign: {replicates: 1}\n",
    ),
    "run, this machine": Kind(
        "run",
        f"hosts: {{client: {{access: local}}, server: {{access: local}}}}\nworkload: {{{_STREAM}}}\n"
        "factors: {connections: [1, 2], all.tcp_sack: [on, off]}\ndesign: {replicates: 1}\n",
    ),
    "run, ssh": Kind(
        "run",
        "hosts: {client: {access: local}, server: SSH}\n"
        f"workload: {{{_STREAM}}}\nfactors: {{server.tcp_sack: [on, off], server.mtu: [1500, 1400]}}\n"
        "design: {replicates: 1}\n",
        victims=("lab", "agent", "guard", "ssh", "sshd"),
        over_ssh=True,
    ),
    "run, volumes": Kind(
        "run",
        "hosts: {client: {access: netns}}\n"
        "workload: {kind: disk, hosts: client, working_set: 1MiB, direct: on, volume_folder: FOLDER}\n"
        "factors: {volume: [loop, nbd], read: [0%, 100%]}\ndesign: {replicates: 1}\n",
        victims=("lab", "agent"),
        on_volume=True,
    ),
    "search": Kind(
        "run",
        f"{_BETWEEN}workload: {{{_EXCHANGE}, connections: 4, arrivals: poisson}}\n"
        "tunables: {all: {mtu: 9000}}\ndesign: {replicates: 1}\n"
        "search: {goals: [p99 <= 5ms], parameter: rate, min_load: 100, max_load: 50000, width: 10%, search_duration: 10s}\n",
    ),
    "explore": Kind(
        "explore",
        f"{_BETWEEN}workload: {{{_EXCHANGE}, arrivals: constant, rate: 1000}}\ntunables: {{all: {{tso: off}}}}\n"
        "factors: {connections: [1, 4], all.mtu: [1500, 9000]}\ndesign: {replicates: 1}\n",
        # Not what it costs: of so few requests beside others a busy machine does not tell that.
        words=("--outcome", "goodput_bits_per_s", "--least", "1000%", "--yes"),
    ),
}

LEFT = ("settings", "processes", "namespaces", "links", "mounts", "loop devices", "cgroups", "files")


# ---- what is there ----


def lines(*command: str) -> set[str]:
    """What a command says."""
    return set(subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines())


_SETTINGS = (
    "for f in /proc/sys/net/ipv4/tcp_* /proc/sys/net/core/*; do"
    ' case $f in *_mem|*_key) ;; *) echo "$f $(cat $f 2>&-)";; esac; done;'
    " for d in $(ls /proc/sys/net/ipv4/conf); do ip -d link show $d | grep -o 'mtu [0-9]*\\|qdisc [a-z]*' | sed s/^/$d:/;"
    " ethtool -k $d | sed s/^/$d:/; done 2>&-"
)


def machine(folder: Path, place: SshPlace | None) -> dict[str, set[str]]:
    """All that a campaign may leave, by kind."""
    inside: list[tuple[str, ...]] = [("sh", "-c", _SETTINGS)]
    if place is not None:
        inside.append(("ip", "netns", "exec", place.namespace, "sh", "-c", _SETTINGS))
    return {
        "settings": {f"{at}: {line}" for at, command in enumerate(inside) for line in lines(*command)},
        "processes": {f"{pid} {' '.join(words)[:80]}" for pid, words in marked(folder).items()},
        "namespaces": lines("ls", "/run/netns"),
        "links": {line.split(":")[1].strip() for line in lines("ip", "-o", "link")},
        "mounts": set(Path("/proc/self/mounts").read_text().splitlines()),
        "loop devices": {line for line in lines("losetup", "-a") if folder.name in line},
        "cgroups": lines("find", "/sys/fs/cgroup", "-type", "d", "-name", "iodyno*"),
        "files": lines("find", *(f"{folder}/{name}" for name in ("tmp", "volumes")), "-mindepth", "1")
        | lines("find", str(folder), "-name", ".partial-*")
        # A journal of a guard that was killed stays until the next lab; whether settings do is looked at above.
        | lines("find", "/run/iodyno", "!", "-type", "d", "!", "-path", "/run/iodyno/tunables/*"),
    }


def marked(folder: Path) -> dict[int, list[str]]:
    """Processes of the labs of this worker, with their words."""
    found = {}
    mark = f"{MARK}={folder}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    found[int(entry.name)] = words
    return found


def of_victim(victim: str, folder: Path, lab: int, place: SshPlace | None) -> list[int]:
    """Processes that are such a victim."""
    if victim == "lab":
        return [lab]
    if victim == "sshd":
        assert place is not None
        inside = lines("ip", "netns", "pids", place.namespace)
        return [int(pid) for pid in inside if b"sshd" in _words(pid) and b"[listener]" not in _words(pid)]
    begins = {"agent": ("serve", "target"), "guard": ("guard",), "ssh": ()}[victim]
    found = []
    for pid, words in marked(folder).items():
        with contextlib.suppress(OSError):
            program = Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)")
            if program == "ssh" if victim == "ssh" else "agent" in program and bool({*begins} & {*words}):
                found.append(pid)
    return found


def _words(pid: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


# ---- one campaign ----


@dataclass
class Told:
    """What became of a campaign. `labs`: its processes, with their exit statuses."""

    kind: str
    seed: str
    kills: Counter[str] = field(default_factory=Counter)
    finished_before: int = 0
    lost: int = 0
    labs: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0
    left: dict[str, list[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def finished(into: Path) -> dict[str, str]:
    """Finished trials with what they consist of."""
    found = {}
    for path in into.glob("**/trials/[!.]*/manifest.json"):
        manifest = json.loads(path.read_text())
        if manifest["status"] == "finished":
            parts = json.dumps(manifest["parts"], sort_keys=True) + manifest["started_wall"]
            found[str(path.parent.relative_to(into))] = parts
    return found


def begun(kind: Kind, into: Path) -> Path | None:
    """The folder that is gone on with."""
    known = "exploration.json" if kind.command == "explore" else "campaign.json"
    folders = [path for path in into.glob("*") if (path / known).exists()] if into.is_dir() else []
    return max(folders, default=None, key=lambda path: path.stat().st_ctime_ns)


def start(kind: Kind, file: Path, into: Path, folder: Path) -> subprocess.Popen[str]:
    """Starts the lab, or goes on."""
    resume = begun(kind, into)
    words = [str(file), *(("--resume", str(resume)) if resume else ("--into", str(into))), "--json"]
    return iodyno(folder, kind.command, *words, *kind.words)


def iodyno(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Starts the command."""
    environment = os.environ | {
        MARK: str(folder),
        "TMPDIR": str(folder / "tmp"),
        "IODYNO_AGENT": str(folder / "iodyno-agent"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    main = "from iodyno.__main__ import main; main()"
    return subprocess.Popen(
        ["env", "--default-signal=INT,TERM,HUP", sys.executable, "-c", main, *words],
        stdin=subprocess.DEVNULL,
        stdout=(folder / "said").open("w"),
        stderr=(folder / "complained").open("w"),
        text=True,
        start_new_session=True,
        env=environment,
    )


def campaign(name: str, seed: str, most: int, usual_s: float, folder: Path, place: SshPlace | None) -> Told:
    """Carries one campaign through, with `most` kills; `usual_s`: how long it takes without any."""
    kind, told, draw = KINDS[name], Told(name, seed), random.Random(seed)
    for made in (folder / "tmp", folder / "into", folder / "volumes"):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(exist_ok=True)
    text = kind.text.replace("FOLDER", str(folder / "volumes"))
    if place is not None:
        text = text.replace("SSH", json.dumps({"access": "ssh", **place.options}))
    (file := folder / "killed.yaml").write_text(f"name: killed\n{text}{_HEAD}")
    into, before = folder / "into", machine(folder, place)
    began = time.monotonic()
    kept: dict[str, str] = {}
    done: dict[str, Any] = {}
    for _ in range(MOST_RUNS):
        lab = start(kind, file, into, folder)
        by: signal.Signals | None = None
        try:
            while told.kills.total() < most and by is None and lab.poll() is None:
                victim = draw.choice(kind.victims)
                wait_for_end(lab, draw.uniform(0.1, 0.8 * usual_s))
                there = of_victim(victim, folder, lab.pid, place) if lab.poll() is None else []
                if not there:
                    continue
                number = signal.SIGTERM if victim == "lab" and draw.random() < 0.25 else signal.SIGKILL
                kept |= finished(into)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(draw.choice(there), number)
                told.kills[victim] += 1
                by = number if victim == "lab" else None
            if not wait_for_end(lab, HUNG_S):
                told.complaints.append(f"the lab hangs: {(folder / 'complained').read_text()[-600:]}")
        finally:
            lab.kill()
            status = lab.wait()
            told.labs.append((lab.pid, status))
        complained = (folder / "complained").read_text()
        if odd := complaint(complained, status, by):
            told.complaints.append(f"exit status {status}, {odd}: {complained[-1500:]}")
        if status == 0:
            said = (folder / "said").read_text()
            done = json.loads(said)
            break
    else:
        told.complaints.append(f"not done after {MOST_RUNS} runs: {complained[-1500:]}")
    told.seconds = round(time.monotonic() - began, 1)
    told.finished_before = len(kept)
    after = finished(into)
    told.lost = sum(after.get(trial) != parts for trial, parts in kept.items())
    if kind.command == "run" and done and not (done["finished"] and done["finished_trials"] >= len(kept)):
        told.complaints.append(f"not finished: {done}")
    told.left = left(before, folder, place)
    return told


def complaint(said: str, status: int, by: signal.Signals | None) -> str:
    """What is wrong with how a lab ended."""
    wrong = [
        word for word in ("Traceback", "Event loop", "never awaited", "panicked", "Exception") if word in said
    ]
    ended = {signal.SIGKILL: (-9, 0), signal.SIGTERM: (130, -15, 0)}
    if by is not None:
        return "" if status in ended[by] and not wrong else f"killed by {by.name} {wrong}"
    if status not in (0, 3, 4, 5):
        wrong.append("undocumented status")
    if status and "try:" not in said:
        wrong.append("no advice")
    return ", ".join(wrong)


def wait_for_end(lab: subprocess.Popen[str], seconds: float) -> bool:
    """Whether it has ended by then."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        lab.wait(seconds)
    return lab.poll() is not None


def left(before: Mapping[str, set[str]], folder: Path, place: SshPlace | None) -> dict[str, list[str]]:
    """What is there that was not, or is not as it was, and stays."""
    end = time.monotonic() + SETTLED_S
    found: dict[str, set[str]] | None = None
    while True:
        now = machine(folder, place)
        more = {kind: now[kind] - before[kind] for kind in LEFT}
        # What others make and remove meanwhile is something else each time.
        found = more if found is None else {kind: found[kind] & more[kind] for kind in LEFT}
        if not any(found.values()) or time.monotonic() > end:
            return {kind: sorted(lines) for kind, lines in found.items() if lines}
        time.sleep(0.2)


# ---- workers and the table ----


def work(number: int, kills: int, seed: int, only: str | None) -> None:
    """Makes so many kills; says each campaign's account in a line of JSON."""
    # The devices in /sys are those of the namespace that it was mounted in.
    aside = "/run/cgroup"
    for command in (
        "mount -t tmpfs tmpfs /run",
        f"mkdir {aside}",
        f"mount --rbind /sys/fs/cgroup {aside}",
        "mount -t sysfs sysfs /sys",
        f"mount --rbind {aside} /sys/fs/cgroup",
        "ip link set lo up",
        # The first of them makes a folder for all.
        "ip netns add first",
        "ip netns delete first",
    ):
        subprocess.run(command.split(), check=True)
    folder = Path(f"/var/tmp/iodyno-kills-{os.getpid()}")
    with contextlib.ExitStack() as places:
        folder.mkdir()
        places.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "tmp").mkdir()
        own_agent(folder)
        # What was found to be left is not left for good.
        places.callback(lambda: iodyno(folder, "restore").wait(HUNG_S))
        names = [only] if only else list(KINDS)
        place = None
        if any(KINDS[name].over_ssh for name in names):
            rc = f"export {MARK}={folder}"
            # The start-up files of the account would leave their locks when they are killed.
            home = f"SetEnv HOME={folder}"
            place = places.enter_context(ssh_place(folder / "place", 1, rc=rc, more=home))
        at = {name: place if KINDS[name].over_ssh else None for name in names}
        usual: dict[str, float] = {}
        made = count = 0
        while made < kills:
            name = names[(count + number) % len(names)]
            if name not in usual:
                clean = campaign(name, "clean", 0, 0.0, folder, at[name])
                usual[name] = clean.seconds
                say(clean)
            most = min(MOST_KILLS, kills - made)
            told = campaign(name, f"{seed}-{number}-{count}", most, usual[name], folder, at[name])
            made, count = made + told.kills.total(), count + 1
            usual[name] = min(usual[name], told.seconds) if len(told.labs) == 1 else usual[name]
            say(told)


def say(told: Told) -> None:
    """Writes an account."""
    print(json.dumps({**told.__dict__, "kills": dict(told.kills)}), flush=True)


def accounts(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the workers say, as it comes."""
    shares = [len(range(at, arguments.kills, arguments.workers)) for at in range(arguments.workers)]
    command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, __file__]
    more = ["--seed", str(arguments.seed), *(("--only", arguments.only) if arguments.only else ())]
    reading, writing = os.pipe()
    workers = [
        subprocess.Popen([*command, *more, "--worker", str(at), "--kills", str(share)], stdout=writing)
        for at, share in enumerate(shares)
        if share
    ]
    os.close(writing)
    try:
        with os.fdopen(reading) as told:
            yield from map(json.loads, told)
    except BaseException:
        for worker in workers:
            worker.terminate()
        raise
    finally:
        failed = [worker.wait() for worker in workers]
    if any(failed):
        raise SystemExit(f"a worker ended with {failed}")


def table(told: list[dict[str, Any]]) -> str:
    """The accounts by kind of campaign and victim."""
    columns = (
        "campaigns",
        "kills",
        "finished before",
        "lost",
        *(f"{what} left" for what in LEFT),
        "complaints",
    )
    rows = [f"| | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for name in (*KINDS, None):
        mine = [one for one in told if name in (None, one["kind"])]
        if mine:
            by = sum((Counter(one["kills"]) for one in mine), Counter())
            kills = f"{by.total()} ({', '.join(f'{count} {victim}' for victim, count in sorted(by.items()))})"
            cells: list[Any] = [len(mine), kills]
            cells += [sum(one[what] for one in mine) for what in ("finished_before", "lost")]
            cells += [sum(len(one["left"].get(what, ())) for one in mine) for what in LEFT]
            cells.append(sum(len(one["complaints"]) for one in mine))
            rows.append(f"| {name or 'all'} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=KINDS, help="campaigns of this kind alone")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        work(arguments.worker, arguments.kills, arguments.seed, arguments.only)
        return 0
    if os.geteuid() != 0:
        raise SystemExit("it makes namespaces: run as root")
    print(f"seed {arguments.seed}", flush=True)
    began, told = time.monotonic(), []
    for one in accounts(arguments):
        wrong = one["lost"] or one["left"] or one["complaints"]
        print(
            json.dumps(one)
            if wrong
            else f"{one['kind']} {one['seed']}: {one['kills']} in {one['seconds']} s, {len(one['labs'])} runs",
            file=sys.stderr,
            flush=True,
        )
        told.append(one)
    print(f"\n{table(told)}\n")
    print(f"{datetime.date.today()}, seed {arguments.seed}, {(time.monotonic() - began) / 60:.0f} minutes")
    return int(any(one["lost"] or one["left"] or one["complaints"] for one in told))


if __name__ == "__main__":
    sys.exit(main())
