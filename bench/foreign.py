"""Limiters that somebody else has set: queues with a rate, control groups. They are there before a trial's load is, and the lab
is told nothing of them.

A strength of a plant names them beside its levels. `{n}` of a command is what the strength gives.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iodyno.core.workload import Level

_DEVICE = "veth0"
_BLKIO = Path("/sys/fs/cgroup/blkio/bench-foreign")


@dataclass(frozen=True)
class Setting:
    """What is done in the namespace of a host."""

    host: str
    commands: str


_IFB = f"""
ip link add ifb0 type ifb && ip link set ifb0 up && tc qdisc add dev {_DEVICE} clsact &&
tc filter add dev {_DEVICE} ingress protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0 &&
"""
_HTB = "tc qdisc add dev {device} root handle 1: htb default 10 r2q 1000 && "
_CLASS = "tc class add dev {device} parent 1: classid 1:10 htb rate {{n}}bit"
_NESTED = (
    "tc class add dev {device} parent 1: classid 1:1 htb rate 2gbit &&"
    " tc class add dev {device} parent 1:1 classid 1:2 htb rate {{n}}bit ceil {{n}}bit &&"
    " tc class add dev {device} parent 1:2 classid 1:10 htb rate 1mbit ceil {{n}}bit"
)
_TBF = "tc qdisc add dev {device} root tbf rate {{n}}bit burst 64kb limit 200kb"

SETTINGS: Mapping[str, Setting] = {
    "htb": Setting("client", (_HTB + _CLASS).format(device=_DEVICE)),
    "htb_nested": Setting("client", (_HTB + _NESTED).format(device=_DEVICE)),
    "tbf": Setting("client", _TBF.format(device=_DEVICE)),
    "ingress_tbf": Setting("server", _IFB + _TBF.format(device="ifb0")),
    "ingress_htb": Setting("server", _IFB + (_HTB + _CLASS).format(device="ifb0")),
    "answers_tbf": Setting("server", _TBF.format(device=_DEVICE)),
    "answers_htb": Setting("server", (_HTB + _CLASS).format(device=_DEVICE)),
}
"""Queues with a rate of `n` bit/s, by name."""
_THROTTLES: Mapping[str, Sequence[str]] = {
    "throttle_iops": ("read_iops", "write_iops"),
    "throttle_bytes": ("read_bps", "write_bps"),
}
"""Limits of a control group on the disk under `/var/tmp`, by name; each for reads and for writes."""
_ONE_AT_A_TIME = "one_at_a_time"
"""The scheduler bfq, which gives the loop device that is the target no operation before it has done the last one."""
NAMES = frozenset({*SETTINGS, *_THROTTLES, _ONE_AT_A_TIME})


def put(strength: Mapping[str, Level], agents: Sequence[int], target: Level | None = None) -> None:
    """Sets what the strength names, on the target where it is of a disk, and takes away what an earlier one has set. Raises
    CalledProcessError.
    """
    for host in ("client", "server"):
        _inside(
            host,
            f"tc qdisc del dev {_DEVICE} root; tc qdisc del dev {_DEVICE} clsact; ip link del ifb0",
            check=False,
        )
    for name, value in strength.items():
        if found := SETTINGS.get(name):
            _inside(found.host, found.commands.format(n=value))
    _schedule(Path(str(target)) if strength.get(_ONE_AT_A_TIME) else None)
    limits = [(file, value) for name, value in strength.items() for file in _THROTTLES.get(name, ())]
    group = _BLKIO if limits else _BLKIO.parent
    _BLKIO.mkdir(exist_ok=True)
    number = Path("/var/tmp").stat().st_dev
    for file, value in limits:
        (_BLKIO / f"blkio.throttle.{file}_device").write_text(
            f"{os.major(number)}:{os.minor(number)} {value}"
        )
    for pid in agents:
        with contextlib.suppress(OSError):
            (group / "cgroup.procs").write_text(str(pid))


def _schedule(target: Path | None) -> None:
    """Has operations of that device wait for each other; those of other loop devices no more."""
    for queue in Path("/sys/block").glob("loop*/queue"):
        mine = target is not None and queue.parent.name == target.name
        if mine or "[bfq]" in (queue / "scheduler").read_text():
            (queue / "scheduler").write_text("bfq" if mine else "none")
        if mine:
            (queue / "iosched" / "strict_guarantees").write_text("1")


def _inside(host: str, commands: str, *, check: bool = True) -> None:
    made = Path("/run/netns").glob(f"iodyno-{os.getpid()}-*-{host}")
    for namespace in made:
        subprocess.run(
            ["ip", "netns", "exec", namespace.name, "sh", "-c", commands],
            check=check,
            capture_output=not check,
        )


def gone() -> None:
    """Takes away what is not gone with the namespaces."""
    _schedule(None)
    with contextlib.suppress(OSError):
        for pid in (_BLKIO / "cgroup.procs").read_text().split():
            (_BLKIO.parent / "cgroup.procs").write_text(pid)
        _BLKIO.rmdir()
