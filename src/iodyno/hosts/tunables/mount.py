"""Options of a mounted file system (proc_pid_mountinfo(5), mount(8), nfs(5)).

A mount and its file system take theirs while they are in use. NFS agrees on what it does over the network when it is mounted, and
refuses another word later: it is unmounted and mounted anew, from the same source with all else as it was. The size of records
of ZFS is a property of what is mounted (zfsprops(7)).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from iodyno.core.mount import CHOICES, RECORD_SIZE, UNSHOWN, choice_of, split
from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_LOOKED_UP = ("addr", "clientaddr", "mountaddr")
"""Shown of NFS, and looked up anew by mount.nfs(8)."""
_SUPER_FLAGS = ("sync", "dirsync", "mand", "lazytime")
"""Options that a file system loses if they are not given again (fs/namespace.c, MS_RMT_MASK)."""
_BACK = """
there() {{ grep -F {mounted} /proc/self/mountinfo | grep -qF -e {source}; }}
tries=0
while there && ! umount {folder}; do
  tries=$((tries + 1)); [ $tries -lt 75 ] || exit 1; sleep 0.2
done
{mount}
"""
"""A load that is ended has the files open for a moment yet: waited for 15 s (chosen: a guard gives a command 20 s)."""
_RECORDS = f'zfs get -Hp -o value,source {RECORD_SIZE} "$(findmnt -no SOURCE -M "$1" | tail -n 1)"'
"""Bytes of its records, and where a data set has that from: a folder is no name of one to every `zfs`."""


@dataclass(frozen=True)
class _Mount:
    """A line of mountinfo. `written`: the folder as it stands there; `options`: of the mount; `own`: of the file system;
    `records`: bytes of the records of ZFS, and where it has them from.
    """

    device: str
    root: str
    written: str
    options: tuple[str, ...]
    kind: str
    source: str
    own: tuple[str, ...]
    records: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The folder."""
        return _plain(self.written)

    @property
    def is_nfs(self) -> bool:
        """Tell whether it is of NFS."""
        return self.kind in ("nfs", "nfs4")

    def shown(self, option: str) -> str | None:
        """What holds in place of an option; None: the kernel does not show it."""
        if _is_of_records(option):
            return f"{RECORD_SIZE}={self.records[0]}" if self.records else None
        there = (*self.options, *self.own)
        if choice := choice_of(option):
            if choice.of == "nfs" and not self.is_nfs:
                return None
            return next((word for word in choice.words if word in there), choice.words[0])
        name = option.partition("=")[0]
        unshown = f"{name}={UNSHOWN[name]}" if self.is_nfs and name in UNSHOWN else None
        return next((each for each in there if each.startswith(f"{name}=")), unshown)

    def chosen(self, of: str, asked: Iterable[str] = ()) -> list[str]:
        """A word of each choice of the mount, or the file system: as asked, else as it is."""
        words = {choice.words[0]: self.shown(choice.words[0]) for choice in CHOICES if choice.of == of}
        words |= {choice.words[0]: each for each in asked if (choice := choice_of(each)) and choice.of == of}
        return [word for word in words.values() if word]

    def remounted(self, asked: Sequence[str]) -> Step:
        """Sets these, and says all again that would be lost otherwise."""
        words = [word for word in self.options if not choice_of(word)] + self.chosen("mount", asked)
        only_mount = {choice.of for each in asked if (choice := choice_of(each))} == {"mount"}
        if only_mount and all(map(choice_of, asked)):
            words = ["bind", *words]
        else:
            words += [word for word in self.own if word in _SUPER_FLAGS and not choice_of(word)]
            words += self.chosen("file system", asked) + [each for each in asked if not choice_of(each)]
        return run(*_mount(self, ["remount", *words]))

    def mounted(self, asked: Sequence[str] = ()) -> list[str]:
        """The command that mounts it with these, and all else as it was."""
        replaced = {each.partition("=")[0] for each in asked} | {
            word for each in asked if (choice := choice_of(each)) for word in choice.words
        }
        kept = [
            word
            for word in dict.fromkeys((*self.options, *self.chosen("mount"), *self.own))
            if word.partition("=")[0] not in (*replaced, *_LOOKED_UP)
        ]
        return _mount(self, [*kept, *asked])


@dataclass(frozen=True)
class MountOptions:
    """Those of one folder that are asked for, in the order in which they are."""

    name: str = "mount"
    scope: Scope = "mount"

    def looks(self, place: Place) -> list[Look]:
        """All mounts, and the records of ZFS where they are asked for."""
        folder, asked = split(place.mount)
        records = [run("sh", "-c", _RECORDS, "sh", folder)] if any(map(_is_of_records, asked)) else []
        return [{"file": "/proc/self/mountinfo"}, *records]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """What holds in place of each option that is asked for."""
        if not place.mount:
            return State(unsupported="no folder is named")
        if not place.initial_namespace:
            return State(
                unsupported="agents in a network namespace have mounts of their own: set it where the machine is the host"
            )
        folder, asked = split(place.mount)
        found = _found(seen[0].text or "", folder)
        if found is None:
            return State(unsupported=seen[0].error or f"{folder} is no mount point on this host")
        records = seen[1] if len(seen) > 1 else None
        if records and records.text is None:
            return State(unsupported=f"{folder} ({found.kind}) has no {RECORD_SIZE}: {records.error}")
        found = replace(found, records=tuple((records.text or "").split()) if records else ())
        shown = {option: found.shown(option) for option in asked}
        if absent := [option for option, there in shown.items() if there is None]:
            text = f"the kernel does not show {absent[0].partition('=')[0]} of {folder} ({found.kind}): it could not be restored"
            return State(unsupported=text)
        return State(
            level=f"{folder} {','.join(map(str, shown.values()))}", before=(found, tuple(shown.values()))
        )

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command; of NFS two for what is agreed on when it is mounted."""
        mount, before = state.before
        changed = [new for new, old in zip(split(str(level))[1], before, strict=True) if new != old]
        of_records = [run("zfs", "set", each, mount.source) for each in changed if _is_of_records(each)]
        asked = [each for each in changed if not _is_of_records(each)]
        if not asked:
            return of_records
        if not _agreed_on(mount, asked):
            if "ro" in mount.options and "rw" in mount.own:
                raise ValueError("it is a view to be read of a file system that others write")
            return [*of_records, mount.remounted(asked)]
        if mount.root != "/":
            raise ValueError(
                "it is a part of a mount of NFS (a bind mount): name the folder of the mount itself"
            )
        return [run("umount", mount.folder), run(*mount.mounted(asked))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each as it was, where it is still mounted; of NFS also where it is not."""
        mount, before = state.before
        asked = split(place.mount)[1]
        if _agreed_on(mount, [new for new, old in zip(asked, before, strict=True) if new != old]):
            script = _BACK.format(
                mounted=shlex.quote(f" {mount.root} {mount.written} "),
                source=shlex.quote(f" - {mount.kind} {mount.source} "),
                folder=shlex.quote(mount.folder),
                mount=shlex.join(mount.mounted()),
            )
            return [run("sh", "-c", script)]
        there = shlex.quote(f" {mount.device} {mount.root} {mount.written} ")
        back = [_records_back(mount)] if mount.records else []
        if remounted := [each for each in before if not _is_of_records(each)]:
            back.append(shlex.join(mount.remounted(remounted)["run"]))
        return [run("sh", "-c", f"grep -qF {there} /proc/self/mountinfo || exit 0; {each}") for each in back]


def _is_of_records(option: str) -> bool:
    return option.startswith(f"{RECORD_SIZE}=")


def _records_back(mount: _Mount) -> str:
    """The command after which a data set has the size of its records from where it had it."""
    size, source = mount.records[:2]
    inherited = ["inherit", *(["-S"] if source == "received" else []), RECORD_SIZE]
    back = ["set", f"{RECORD_SIZE}={size}"] if source == "local" else inherited
    return shlex.join(["zfs", *back, mount.source])


def _agreed_on(mount: _Mount, asked: Iterable[str]) -> bool:
    """Tell whether any of these is agreed on when it is mounted."""
    return mount.is_nfs and any((choice := choice_of(each)) is None or choice.of == "nfs" for each in asked)


def _mount(mount: _Mount, options: Sequence[str]) -> list[str]:
    # With its source, so that nothing of /etc/fstab is mixed in (mount(8), remount).
    return ["mount", "-t", mount.kind, "-o", ",".join(options), _plain(mount.source), mount.folder]


def _found(text: str, folder: str) -> _Mount | None:
    """The mount on a folder: the last one, which hides those before it."""
    for line in reversed(text.splitlines()):
        fields, _, rest = (part.split() for part in line.partition(" - "))
        if len(fields) > 5 and len(rest) > 2 and _plain(fields[4]) == folder:
            options, own = (tuple(each.split(",")) for each in (fields[5], rest[2]))
            return _Mount(fields[2], fields[3], fields[4], options, rest[0], rest[1], own)
    return None


def _plain(text: str) -> str:
    """A name as it is, where the kernel writes blanks in octal."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)
