"""What the OpenSSH client says when it does not get there, and what that means.

Of all that came from its stderr only lines are taken that have the client's own form: before them may stand the banner of a
server, which says what it likes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """What is wrong, and what to try."""

    what: str
    advice: str


@dataclass(frozen=True)
class _Known:
    """Lines of the client, what they mean, and what to try. Both may hold `{to}`, `{ssh}`, `{forget}`, the groups of `said`, and
    of these `{place}` and `{other_name}`, which name a host only where it is another one than that of `to`.
    """

    said: str
    what: str
    advice: str


_NEEDS_KEY = (
    "make `{ssh} -o BatchMode=yes {to} true` work: a key without passphrase or in an ssh-agent,"
    " or name an identity_file"
)
# The first that is found counts, in this order; words of OpenSSH 7 to 10.
_KNOWN = (
    _Known(
        r"@\s*WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!.*|Host key for \S+ has changed and you have requested .*",
        "the host shows another host key than the one known for it",
        "if the host was installed anew, remove the old key with `{forget}`; if not, do not go on",
    ),
    _Known(
        r"Host key verification failed\.|No \S+ host key is known for .*",
        "the host key is not known",
        "log in once by hand with `{ssh} {to}` and compare the key, or name a known_hosts_file",
    ),
    _Known(
        r"ssh: Could not resolve hostname (?P<name>\S+): .*",
        "the name is not known{other_name}",
        "check the name of `to`, or write an address",
    ),
    _Known(
        r"ssh: connect to host (?P<host>\S+) port (?P<port>\d+): Connection refused",
        "{place} refused the connection",
        "check that an ssh server runs there, and the `port`",
    ),
    _Known(
        r"ssh: connect to host (?P<host>\S+) port (?P<port>\d+): (?P<why>.*)",
        "{place} cannot be reached: {why}",
        "check that `{ssh} {to}` gets there: address, network, firewall",
    ),
    _Known(
        r"Connection timed out during banner exchange",
        "the host cannot be reached, or has no time for ssh: it does not say what it is",
        "check that `{ssh} {to}` gets there: address, network, firewall, load of the host",
    ),
    _Known(
        r"Timeout, server .* not responding\.",
        "the host does not answer any more",
        "check that `{ssh} {to}` gets there: network, firewall, load of the host",
    ),
    _Known(
        r"channel \d+: open failed: (?P<why>.*)",
        "the host on the way to it (ProxyJump) cannot reach it: {why}",
        "check the address, as the host on the way sees it",
    ),
    _Known(
        r"(\S+: )?(Permission denied \(|Too many authentication failures|Authentication failed).*"
        r"|Received disconnect from .*: Too many authentication failures",
        "the login was refused",
        _NEEDS_KEY,
    ),
    _Known(
        r"Received disconnect from \S+ port \d+:\d+: (?P<why>.*)",
        "the server ended the connection: {why}",
        "look at the log of the ssh server there",
    ),
    _Known(
        r"(ssh|kex)_exchange_identification: .*|(client_loop|ssh_dispatch_run_fatal|packet_write_wait): .*"
        r"|Connection (closed|reset) by .*|Connection to \S+ closed by remote host\."
        r"|Read from (remote host|socket) .*|Write failed: .*",
        "the connection was closed",
        "look at the log of the ssh server there (MaxStartups, access rules)",
    ),
    _Known(
        r"(?P<entry>(/|command-line).*line \d+: .*)",
        "the configuration of ssh is wrong: {entry}",
        "correct it, or name another config_file",
    ),
)
# Why a key was not even offered, said before the login is refused.
_KEYS = (
    _Known(
        r"Permissions (?P<mode>\d+) for ['\"](?P<file>.+)['\"] are too open\.",
        "the private key {file} has mode {mode}, and ssh takes none that others may read",
        "chmod 600 {file}",
    ),
    _Known(
        r"(Warning: )?Identity file (?P<file>.+) not accessible: (?P<why>.*?)\.?",
        "the identity_file {file} cannot be read: {why}",
        "name the file of the private key",
    ),
    _Known(
        r'(Load key|load_identity:?) "?(?P<file>.+?)"?: (?P<why>.*)',
        "the private key {file} cannot be used: {why}",
        "name the file of a private key that `ssh-keygen -y -f {file}` reads",
    ),
)


def trouble_of(said: str, words: Mapping[str, str]) -> Trouble | None:
    """What the client's words mean; None: nothing that is known. `words`: what stands for `to`, `ssh`, `forget`,
    and `host` and `port` of the server.
    """
    lines = [line.strip() for line in said.splitlines()]
    for known in _KNOWN:
        if (groups := _found(known, lines)) is None:
            continue
        what, advice = known.what, known.advice
        for key in _KEYS if advice == _NEEDS_KEY else ():
            if (cause := _found(key, lines)) is not None:
                what, advice, groups = f"{what}, as {key.what}", key.advice, cause
                break
        named = dict(words) | _named(groups, words)
        quoted = {"file": shlex.quote(groups["file"])} if "file" in groups else {}
        return Trouble(what.format(**(named | groups)), advice.format(**(named | groups | quoted)))
    return None


def last_line(said: str) -> str:
    """The last line that says anything; empty: there is none."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _named(groups: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """A host, where the words are about another one than is asked for: one on the way, or the one that an alias stands for."""
    host, port = groups.get("host"), groups.get("port")
    same = host == words["host"] and port == words["port"]
    name = groups.get("name")
    return {
        "place": "the host" if same or host is None else f"{host} port {port}",
        "other_name": "" if name in (None, words["host"]) else f": {name}",
    }


def _found(known: _Known, lines: list[str]) -> dict[str, str] | None:
    """The groups of the last line that is one of these."""
    for line in reversed(lines):
        if match := re.fullmatch(known.said, line):
            return match.groupdict()
    return None
