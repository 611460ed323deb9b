"""Volume of any kind: a target for the load, processes by role, a note of what was made, an end.

Before anything is made, a note of it is written to the notes' folder, so that a lab that was killed leaves nothing that the next
one does not find: mounts, block devices, processes, files.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iodyno import run_folder
from iodyno.child import send_signal
from iodyno.core.errors import AccessError
from iodyno.core.volume import MOUNT_OPTIONS, SERVER
from iodyno.paths.command import DEADLINE_S, answer_of, checked, quietly
from iodyno.run_folder import start_ticks

NOTES = "volumes"
READY_S = 15.0
"""Time that a server may take until it serves (chosen: ten times what they take on a slow machine)."""
_LOOK_S = 0.02
_END_S = 5.0


@dataclass(frozen=True)
class Place:
    """Place of a volume to be made: a folder for its files, its size for each client, and the network namespace of each (None:
    the lab's own). `keeps_nothing`: the server is to keep nothing in its page cache; `with_files`: each client is to have a
    file system on its part, of the kind `file_system`, mounted with `mount_options`.
    """

    folder: Path
    size_bytes: int
    clients: Mapping[str, str | None] = field(default_factory=lambda: {"client": None})
    tag: str = ""
    keeps_nothing: bool = False
    with_files: bool = False
    file_system: str = "ext4"
    mount_options: str = MOUNT_OPTIONS


@dataclass
class Volume:
    """A volume that is there. `target` is what the load reads and writes; `device`: whether that is a block device.

    `targets`: that of each client, where there are several. `image`: the file that the server reads and writes.
    `slow_down`: starts the server again, so that each read and write takes so many nanoseconds longer; None: it cannot.
    `delay_ns`: how much longer they take now; None: a server that was to take another time did not start.
    """

    level: str
    target: Path
    device: bool
    note: Note
    processes: dict[str, list[asyncio.subprocess.Process]] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, Path] = field(default_factory=dict)
    image: Path | None = None
    slow_down: Callable[[int], Awaitable[None]] | None = None
    delay_ns: int | None = 0

    def target_of(self, client: str) -> Path:
        """Return what the load of one client reads and writes."""
        return self.targets.get(client, self.target)

    @property
    def roles(self) -> Mapping[str, tuple[int, ...]]:
        """Process ids by role, with those that they have started."""
        return {
            role: tuple(pid for process in processes for pid in _family(process.pid))
            for role, processes in self.processes.items()
        }

    def facts(self) -> dict[str, Any]:
        """Return the facts of it to be recorded."""
        return {"level": self.level, "target": str(self.target), "device": self.device, **self.made}

    async def delay(self, delay_ns: int) -> None:
        """Has the server take so much longer for each read and write, from now on. Raises AccessError."""
        if delay_ns == self.delay_ns:
            return
        if self.slow_down is None:
            raise AccessError("the server cannot be told to take longer", where=f"volume {self.level}")
        self.delay_ns = None
        await self.slow_down(delay_ns)
        self.delay_ns = delay_ns

    def gone(self) -> str | None:
        """Return what of it is not there any more; None: all is there."""
        for role, processes in self.processes.items():
            if not processes:
                return f"the {role.replace('_', ' ')} of {self.level} has not started again"
            for process in processes:
                if process.returncode is not None:
                    return f"a process of the {role.replace('_', ' ')} of {self.level} has ended ({process.returncode})"
        lost = [target for target in (self.target, *self.targets.values()) if not target.exists()]
        return f"{lost[0]} is gone" if lost else None

    async def close(self) -> None:
        """Takes all of it away, also when it is stopped in the middle. May be called twice."""
        try:
            # What file systems still have to write goes first, while all below them answers.
            await asyncio.to_thread(self.note.leave_file_systems)
            # The client goes first, while its server still answers.
            for role in sorted(self.processes):
                for process in reversed(self.processes[role]):
                    # A server holds nothing that outlives it, and some do not end while there is a target.
                    await end(process, ask=role != SERVER)
        finally:
            self.note.undo()


class Note:
    """Note of what one volume has made, on disk, from before it is made to after it is gone."""

    def __init__(self, level: str, tag: str) -> None:
        self._file = run_folder.RUN / NOTES / f"{run_folder.maker()}-{tag or level}.json"
        self._made: dict[str, list[str]] = {}

    @property
    def name(self) -> str:
        """A name that no other volume has, for folders and namespaces."""
        return f"iodyno-{self._file.stem}"

    def add(self, kind: str, name: object) -> None:
        """Notes that something is made. Kinds: folder, file_system, mount, loop, link, namespace, process."""
        self._made.setdefault(kind, []).append(str(name))
        _write_note(self._file, self._made)

    def make_folder(self, below: Path) -> Path:
        """Makes and notes the folder of the volume, for this account alone. It must not be there: another made it then."""
        below.mkdir(parents=True, exist_ok=True)
        # The mounts in it are noted by the kernel under this name.
        folder = below.resolve() / self.name
        folder.mkdir(0o700)
        try:
            self.add("folder", run_folder.identity(folder))
        except BaseException:
            folder.rmdir()
            raise
        return folder

    def add_loop(self, device: str) -> None:
        """Notes a loop device, which is told from a later one of that number by what it is over."""
        self.add("loop", f"{device} {_backing(device)}")

    def leave_file_systems(self) -> None:
        """Unmounts the file systems on the volume, and lets go of the devices under them."""
        if self._made.get("file_system"):
            for folder in self._made["file_system"]:
                quietly("umount", folder)
            _detach(self._made.get("loop", []))

    def undo(self) -> None:
        """Takes away what is noted, and the note; what does not go stays noted, for the next lab."""
        self._made = undo(self._made)
        _settle(self._file, self._made)


def _write_note(file: Path, made: Mapping[str, Sequence[str]]) -> None:
    run_folder.folder(NOTES)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(made), encoding="utf-8")
    partial.replace(file)


def _settle(file: Path, left: Mapping[str, Sequence[str]]) -> None:
    """Keeps a note of what is left, or none."""
    if left:
        with contextlib.suppress(OSError):
            _write_note(file, left)
    else:
        file.unlink(missing_ok=True)


def undo(made: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Takes away what was made, whatever of it is still there; gives what did not go, as a device that is in use.

    Names and numbers may be another's by now: only what is what it was when it was noted is touched. Synchronous: it also runs
    while the lab is being stopped.
    """
    for process in made.get("process", []):
        pid, _, started = process.partition(":")
        with contextlib.suppress(OSError):
            held = os.pidfd_open(int(pid))
            try:
                if start_ticks(int(pid)) == int(started):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
            finally:
                os.close(held)
    # Mounts are in a folder that this account alone can enter. Devices go before the mount that their file is on, which else
    # loses its name.
    for folder in _mounts(made, "file_system"):
        quietly("umount", "-l", folder)
    _detach(made.get("loop", []))
    for device in _over_files_of(made.get("folder", [])):
        quietly("losetup", "-d", device)
    for target in _mounts(made, "mount"):
        quietly("umount", "-l", target)
    for link in made.get("link", []):
        namespace, _, device = link.partition(":")
        quietly("ip", "-n", namespace, "link", "delete", device)
    for namespace in made.get("namespace", []):
        quietly("ip", "netns", "delete", namespace)
    for made_folder in made.get("folder", []):
        if own := run_folder.same(made_folder):
            shutil.rmtree(own, ignore_errors=True)
    left = {
        "file_system": _mounts(made, "file_system"),
        "mount": _mounts(made, "mount"),
        "loop": [noted for noted in made.get("loop", []) if _is_attached(noted)],
        "namespace": [name for name in made.get("namespace", []) if Path(f"/run/netns/{name}").exists()],
        "folder": [noted for noted in made.get("folder", []) if run_folder.same(noted)],
    }
    return {kind: names for kind, names in left.items() if names}


def _mounts(made: Mapping[str, Sequence[str]], kind: str) -> list[str]:
    """List the mounts of what was noted: in a folder of the volume that is still the one that was noted."""
    folders = [folder for folder in map(run_folder.same, made.get("folder", [])) if folder]
    # As the kernel lists them (proc_pid_mountinfo(5)): one whose server is gone cannot be looked at.
    listed = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    points = {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point) for point in listed}
    return [
        path
        for path in made.get(kind, [])
        if path in points and any(folder in Path(path).parents for folder in folders)
    ]


def _detach(loops: Sequence[str]) -> None:
    for noted in loops:
        if _is_attached(noted):
            quietly("losetup", "-d", noted.partition(" ")[0])


def _over_files_of(folders: Sequence[str]) -> list[str]:
    """List the loop devices over files of these folders: a lab may have been killed between making and noting one."""
    own = [f"{folder}/" for folder in map(run_folder.same, folders) if folder]
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if backing.read_text(encoding="utf-8").startswith(tuple(own)):
                found.append(f"/dev/{backing.parent.parent.name}")
    return found


def _is_attached(noted: str) -> bool:
    """Tell whether a loop device is still over the file that it was noted with."""
    device, _, backing = noted.partition(" ")
    now = _backing(device)
    # A file whose server is gone has no numbers, but still its path, which is that of no other lab.
    return bool(now) and now in (backing, f"? {backing.partition(' ')[2]}")


def _backing(device: str) -> str:
    """Return the file under a loop device: its numbers and those of what it lies on, and its path; empty: nothing."""
    with contextlib.suppress(OSError):
        path = (
            Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text(encoding="utf-8").strip("\n")
        )
        columns = ("--noheadings", "--raw", "--output", "BACK-MAJ:MIN,BACK-INO")
        # By a program, which may be given up: the kernel asks the file for its numbers, and its server may not answer.
        numbers = (checked("losetup", "--list", *columns, device) or "").replace("\\x20", "").strip()
        return f"{numbers.replace(' ', ':') or '?'} {path.removesuffix(' (deleted)')}"
    return ""


def leftovers() -> list[Path]:
    """The notes of labs that are gone, of this account. Raises AccessError when others may write where they are."""
    return [note for note in run_folder.left(NOTES) if note.suffix == ".json"]


def remove_leftovers() -> list[str]:
    """Removes what labs that are gone have left; returns the names of the volumes of which nothing is there any more."""
    removed = []
    for note in leftovers():
        left: Mapping[str, Sequence[str]] = {}
        with contextlib.suppress(OSError, ValueError):
            left = undo(json.loads(note.read_text(encoding="utf-8")))
        _settle(note, left)
        if not left:
            removed.append(note.stem)
    return removed


async def start(
    note: Note, command: Sequence[str], *, namespace: str | None = None, cpus: Sequence[int] = (), log: Path
) -> asyncio.subprocess.Process:
    """Starts a process of a volume, which ends with the lab. Raises AccessError when its program is not there."""
    # Killed with its parent, and not asked: some of them refuse to end while a client is there.
    words = ["setpriv", "--pdeathsig", "KILL"]
    if cpus:
        words += ["taskset", "-c", ",".join(map(str, cpus))]
    if namespace:
        # Not `ip netns exec`: that has mounts of its own, and what a client mounts is to be seen by the load.
        words += ["nsenter", f"--net=/run/netns/{namespace}"]
    try:
        with log.open("ab") as said:
            process = await asyncio.create_subprocess_exec(
                *words,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
    except OSError as error:
        raise AccessError(f"{command[0]} cannot be started: {error}", where=f"volume {note.name}") from error
    note.add("process", f"{process.pid}:{start_ticks(process.pid) or 0}")
    return process


async def wait_until(ready: Any, process: asyncio.subprocess.Process, what: str, log: Path) -> None:
    """Waits until `ready()` holds. Raises AccessError with the end of the log when the process ends or takes too long."""
    until = time.monotonic() + READY_S
    while not ready():
        if process.returncode is not None or time.monotonic() > until:
            state = f"ended ({process.returncode})" if process.returncode is not None else "does not answer"
            raise AccessError(f"{what} {state}: {last_line(log)}", where=str(log))
        await asyncio.sleep(_LOOK_S)


async def end(process: asyncio.subprocess.Process, *, ask: bool = True) -> None:
    """Ends a process: asks it to, if told so, and does not wait for its consent for long."""
    if process.returncode is not None:
        return
    send_signal(process, signal.SIGTERM if ask else signal.SIGKILL)
    try:
        await asyncio.wait_for(process.wait(), _END_S)
    except TimeoutError:
        send_signal(process)
        await process.wait()


async def said_by(*command: str, namespace: str | None = None, deadline_s: float = DEADLINE_S) -> str:
    """Return the output of a command. Raises AccessError when it fails, or takes longer."""
    words = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
    process = await asyncio.create_subprocess_exec(
        *words,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    answer, complaint = await answer_of(process, command, deadline_s=deadline_s)
    if process.returncode != 0:
        reason = complaint.decode(errors="replace").strip() or f"it ended with {process.returncode}"
        raise AccessError(f"`{' '.join(command)}`: {reason}")
    return answer.decode(errors="replace").strip()


def program(name: str, package: str) -> str | None:
    """Why a program cannot be used; None: it is there."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return (
        None if shutil.which(name, path=path) else f"{name} is not there (Debian: apt-get install {package})"
    )


def as_root() -> str | None:
    """Why this process cannot make volumes; None: it can."""
    return None if os.geteuid() == 0 else "iodyno does not run as root"


def last_line(log: Path) -> str:
    """The last line of a log."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else "it said nothing"
    return "it said nothing"


def make_file(path: Path, size_bytes: int) -> None:
    """A file of that size, all of it on disk. Raises AccessError when there is no room."""
    free = shutil.disk_usage(path.parent).free
    if size_bytes > free:
        raise AccessError(
            f"a volume of {size_bytes} bytes does not fit: {free} are free",
            where=str(path.parent),
            advice="a smaller size, or another folder",
        )
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)


def _family(pid: int) -> list[int]:
    """A process and all that descend from it (proc_pid_task_tid_children(5))."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text(encoding="ascii").split()]
    return found
