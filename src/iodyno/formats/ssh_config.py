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


def _taken_apart(line: bytes) -> tuple[str, bytes]:
    parts = _KEYWORD.match(line)
    return (parts[1].decode().lower(), parts[2]) if parts else ("", b"")


def _included(names: str) -> list[str] | None:
    """Files that are included and are not the user's own; None: which they are cannot be told."""
    if "$" in names or "%" in names:
        return None
    own = Path.home() / ".ssh"
    found = []
    for name in names.split():
        pattern = Path(name).expanduser() if name.startswith("~") else own / name
        found += [
            place
            for place in glob.glob(str(pattern))  # noqa: PTH207 - as ssh, which does not take `**` for any depth
            if not any(Path(place).resolve().is_relative_to(each.resolve()) for each in (own, _MACHINE))
        ]
    return found
