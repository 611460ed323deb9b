"""Loads on disks and block devices made for tests: a loop device, and one whose operations take a known time, or fail."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from iodyno.core.experiment import Experiment
from iodyno.formats.experiment_file import experiment_text, parse_experiment

SIZE = 64 << 20


def asked(
    hosts: Mapping[str, Any],
    factors: Mapping[str, Any],
    measured: str = "500ms",
    retries: int = 0,
    **settings: Any,
) -> Experiment:
    """A load on a disk of 8 MiB with short windows, one replicate."""
    keys = {
        "name": "disks",
        "hosts": hosts,
        "workload": {"kind": "disk", "hosts": "client", "working_set": "8MiB", **settings},
        "factors": factors,
        "design": {"replicates": 1},
        "windows": {"warm_up": "100ms", "measured": measured, "drain": "0s", "interval": "100ms"},
        "limits": {"retries": retries, "background_window": "100ms", "background": 1.0},
    }
    return parse_experiment(experiment_text(keys), environment={})


def refuse_call(number: int) -> None:
    """From now on this system call fails with EPERM in this process and in those that it starts (seccomp(2)): what a filter of
    a container or a sysctl does.
    """
    allow, refuse = (
        0x7FFF0000,
        0x00050000 | errno.EPERM,
    )  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO (linux/seccomp.h)
    program = (
        struct.pack("HBBI", 0x20, 0, 0, 0)  # load the number of the call
        + struct.pack("HBBI", 0x15, 0, 1, number)
        + struct.pack("HBBI", 0x06, 0, 0, refuse)
        + struct.pack("HBBI", 0x06, 0, 0, allow)
    )
    instructions = ctypes.create_string_buffer(program)
    told = struct.pack("HP", len(program) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, told, 0, 0):
        raise OSError(ctypes.get_errno(), "the filter is refused")


@contextlib.contextmanager
def loop_device(file: Path, size: int = SIZE) -> Iterator[Path]:
    """A loop device over a file, past the file's page cache where that can be."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("no loop devices here, or not root")
    if not file.exists():
        file.write_bytes(bytes(size))
    made = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"losetup: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    try:
        yield device
    finally:
        # Where it was detached before, it may be another test's by now.
        backing = Path("/sys/block", device.name, "loop/backing_file")
        with contextlib.suppress(OSError):
            if backing.read_text(encoding="utf-8").startswith(os.path.realpath(file)):
                subprocess.run(["losetup", "--detach", str(device)], capture_output=True)


@contextlib.contextmanager
def filtered_device(folder: Path, *words: str) -> Iterator[Path]:
    """A loop device over what nbdkit serves with these filters and their parameters, from memory."""
    with filtered_file(folder, *words) as file, loop_device(file) as device:
        yield device


@contextlib.contextmanager
def filtered_file(folder: Path, *words: str) -> Iterator[Path]:
    """A file whose bytes nbdkit serves with these filters and their parameters: `--filter=delay`, `rdelay=5ms`."""
    for program in ("nbdkit", "qemu-storage-daemon", "fusermount3"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not there")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    socket, file, log = folder / "nbd.sock", folder / "served", folder / "served.log"
    file.touch()
    filters = [word for word in words if word.startswith("--")]
    settings = [word for word in words if not word.startswith("--")]
    with log.open("wb") as said:
        serve = ["nbdkit", "-f", "-U", str(socket), *filters, "memory", str(SIZE), *settings]
        show = [
            *("qemu-storage-daemon", "--blockdev"),
            f"node-name=disk,driver=nbd,server.type=unix,server.path={socket}",
            *("--export", f"type=fuse,id=export,node-name=disk,mountpoint={file},writable=on"),
        ]
        started = []
        try:
            started.append(subprocess.Popen(serve, stdout=said, stderr=said))
            until(socket.exists, log)
            started.append(subprocess.Popen(show, stdout=said, stderr=said))
            until(lambda: file.stat().st_size == SIZE, log)
            yield file
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            subprocess.run(["umount", "-l", str(file)], capture_output=True)


def until(ready: object, log: Path, seconds: float = 30) -> None:
    """Waits until `ready()` holds; fails the test with the log when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if ready():  # type: ignore[operator]
                return
        time.sleep(0.02)
    pytest.fail(f"not ready after {seconds} s: {log.read_text(errors='replace')[-500:]}")
