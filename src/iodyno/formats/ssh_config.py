"""Commands that an ssh_config would run on the lab's machine: an experiment that somebody sent must not bring one with it."""

from __future__ import annotations

import glob
import re
from pathlib import Path

from iodyno.formats.given_file import read_given

_RUNNING = {
    word.lower(): word
    for word in (
        "ProxyCommand",
        "LocalCommand",
        "PermitLocalCommand",
        "KnownHostsCommand",
        "PKCS11Provider",
        "SmartcardDevice",
        "SecurityKeyProvider",
        "XAuthLocation",
    )
}
"""Keywords that name a program, or a library that is loaded, each as ssh_config(5) has it."""
_MACHINE = Path("/etc/ssh")
_NOTHING = ("none", "/dev/null")
_MOST_BYTES = 1 << 20
_MOST_FILES = 64
_KEYWORD = re.compile(rb"[\s=]*(\w+)[\s=]*(.*)", re.DOTALL)
_ALIAS = re.compile(r"[A-Za-z0-9_][\w.:-]{0,252}")
_QUOTES = b"\"'\\"


def what_runs(config: str) -> str | None:
    """The first line of the file, or of one that it includes, that has something run: `FILE:LINE: KEYWORD`. None: no line.

    Files in `~/.ssh` and `/etc/ssh` are not looked into: they are the user's, and the machine's. What cannot be read is said,
    too, except for a file that is not there, which ssh says.
    """
    waiting, seen = [config], 0
    while waiting:
        seen += 1
        name = waiting.pop(0)
        if seen > _MOST_FILES:
            return f"{config} includes more than {_MOST_FILES} files"
        try:
            content = b"" if name in _NOTHING else read_given(name, _MOST_BYTES)
        except FileNotFoundError:
            continue
        except OSError as problem:
            return f"{name}: {problem.strerror or problem}"
        if len(content) > _MOST_BYTES:
            return f"{name} is larger than {_MOST_BYTES >> 20} MiB"
        for number, line in enumerate(content.split(b"\n"), 1):
            # Quotes may stand around a keyword, and in what follows around a part of a word.
            keyword, rest = _taken_apart(line.translate(None, _QUOTES))
            if keyword in _RUNNING or (keyword == "match" and b"exec" in rest.lower()):
                return f"{name}:{number}: {_RUNNING.get(keyword, 'Match exec')}"
            if keyword == "include":
                found = _included(rest.decode(errors="surrogateescape"))
                if found is None:
                    return f"{name}:{number}: Include of a name with a variable in it"
                waiting += found
    return None


def aliases(config: str) -> list[str]:
    """The names on `Host` lines of the file and those that it includes; no patterns. Raises OSError for the file itself."""
    names: dict[str, None] = {}
    waiting, seen = [(config, True)], set[str]()
    while waiting and len(seen) < _MOST_FILES:
        name, is_first = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        try:
            content = read_given(name, _MOST_BYTES)
        except OSError:
            if is_first:
                raise
            continue
        for line in content.split(b"\n"):
            keyword, rest = _taken_apart(line.translate(None, _QUOTES))
            said = rest.decode(errors="replace")
            if keyword == "host":
                names |= dict.fromkeys(each for each in said.split() if _ALIAS.fullmatch(each))
            elif keyword == "include" and not ("$" in said or "%" in said):
                waiting += [(place, False) for place in _places(said)]
    return list(names)


def _taken_apart(line: bytes) -> tuple[str, bytes]:
    # ssh ends a line at a zero byte.
    parts = _KEYWORD.match(line.partition(b"\0")[0])
    return (parts[1].decode().lower(), parts[2]) if parts else ("", b"")


def _included(names: str) -> list[str] | None:
    """Files that are included and are not the user's own; None: which they are cannot be told."""
    if "$" in names or "%" in names:
        return None
    own = (Path.home() / ".ssh", _MACHINE)
    return [
        place
        for place in _places(names)
        if not any(Path(place).resolve().is_relative_to(each.resolve()) for each in own)
    ]


def home_of(name: str) -> Path:
    """The path with the home directory that `~` or `~NAME` begins it with; as it is where nobody has that name."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _places(names: str) -> list[str]:
    """The files that an Include names."""
    found = []
    for name in names.split():
        pattern = home_of(name) if name.startswith("~") else Path.home() / ".ssh" / name
        found += glob.glob(str(pattern))  # noqa: PTH207 - as ssh, which does not take `**` for any depth
    return found
