"""A host reached by the OpenSSH client, with everything that its configuration can do.

The agent is copied once, under its hash, to `~/.cache/iodyno/` of the account, checked there, and run by
`exec`, so that no shell stands between it and the lab. Nothing else is changed on the host.
"""

from __future__ import annotations

import asyncio
import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.core.errors import AccessError
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, kill, spawn

_MARK = "IODYNO"
_CONNECT_TIMEOUT_S = 10
_TIMEOUT_NS = 60_000_000_000


@dataclass(frozen=True)
class _Trouble:
    """How the client says that something is wrong, what that means, and what to try."""

    said: str
    what: str
    advice: str


# Matched in this order against what the client or the remote shell wrote; words of OpenSSH 7 to 10.
_TROUBLES = (
    _Trouble(
        "REMOTE HOST IDENTIFICATION HAS CHANGED|host key .* has changed",
        "the host shows another host key than the one known for it",
        "if the host was installed anew, remove the old key with `{forget}`; if not, do not go on",
    ),
    _Trouble(
        "Host key verification failed|No .* host key is known",
        "the host key is not known",
        "log in once by hand with `{ssh} {to}` and compare the key, or name a known_hosts_file",
    ),
    _Trouble(
        "Could not resolve hostname", "the name is not known", "check the name of `to`, or write an address"
    ),
    _Trouble(
        "Connection refused",
        "the connection was refused",
        "check that an ssh server runs there, and the `port`",
    ),
    _Trouble(
        "Permission denied \\(|Too many authentication failures|Authentication failed",
        "the login was refused",
        "make `{ssh} -o BatchMode=yes {to} true` work: a key without passphrase or in an ssh-agent,"
        " or name an identity_file",
    ),
    _Trouble(
        "No route to host|Network is unreachable|timed out|Host is down",
        "the host cannot be reached",
        "check that `{ssh} {to}` gets there: address, network, firewall",
    ),
    _Trouble(
        "No space left on device|[Qq]uota exceeded",
        "there is no room for the agent in the home directory",
        "free some megabytes in ~/.cache there",
    ),
    _Trouble(
        "Exec format error|cannot execute binary",
        "the agent is made for another kind of machine",
        "install iodyno on a lab of the host's architecture, or point IODYNO_AGENT to an agent built for it",
    ),
    _Trouble(
        "Read-only file system|[Pp]ermission denied|cannot execute|Operation not permitted",
        "the agent cannot be stored or executed in the home directory",
        "let ~/.cache/iodyno there be writable, and not on a file system mounted noexec",
    ),
    _Trouble(
        "Connection closed by|Connection reset|kex_exchange_identification|Broken pipe|not responding",
        "the connection was closed",
        "look at the log of the ssh server there (MaxStartups, access rules)",
    ),
)


class SshAccess:
    """Starts agents on the host that `ssh <to>` reaches.

    Options: `to` ([user@]host[:port], by default the host's name), `port`, `identity_file`, `known_hosts_file`,
    `config_file`, `command_timeout` in ns.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], address: str | None = None, cpus: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.to, port = _parted(str(options.get("to", name)))
        if port:
            options = {"port": port, **options}
        self._timeout_s = float(options.get("command_timeout", _TIMEOUT_NS)) / 1e9
        self.reached = Reached(address=address, cpus=tuple(cpus))
        self._options = options
        self._command = ["ssh", "-T", *_client_options(options), "--", self.to]
        self._remote_program: str | None = None

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent there; the first time, makes sure that its program is there. Raises AccessError."""
        if self._remote_program is None:
            self._remote_program = await self._install(program)
        return await spawn([*self._command, f"exec {self._remote_program} {command}"])

    async def close(self) -> None:
        """The program stays in the cache of the account, on purpose: the next campaign uses it."""

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for an ssh client that ended with `status`, having said `said`."""
        where = f"host {self.name} (ssh {self.to})"
        for trouble in _TROUBLES:
            if re.search(trouble.said, said):
                by_hand = {"to": self.to, "ssh": self._by_hand(), "forget": self._forget(said)}
                return AccessError(trouble.what, where=where, advice=trouble.advice.format(**by_hand))
        last = said.strip().splitlines()[-1] if said.strip() else f"exit status {status}"
        advice = f"make `{self._by_hand()} {self.to} true` work first"
        return AccessError(f"ssh failed: {last}", where=where, advice=advice)

    def _by_hand(self) -> str:
        """How a person calls the client to reach the same server in the same way."""
        told = _way_options(self._options)
        return " ".join(["ssh", *map(shlex.quote, told)])

    def _forget(self, said: str) -> str:
        """The command that removes a host key: the client's own words for it, where it has any."""
        if found := re.search(r"^\s*(ssh-keygen .*-R .*?)\s*$", said, re.MULTILINE):
            return found[1]
        file = self._options.get("known_hosts_file")
        host, port = self.to.rpartition("@")[2], self._options.get("port", 22)
        place = host if int(port) == 22 else f"[{host}]:{port}"
        return shlex.join(["ssh-keygen", *(["-f", str(file)] if file else []), "-R", place])

    async def _install(self, program: AgentProgram) -> str:
        """Path of the program there; copies it when it is not there, or not whole."""
        name = f"agent-{program.sha256[:16]}"
        survey = await self._survey(name)
        machine = survey.get("machine", "?")
        if machine != platform.machine():
            raise AccessError(
                f"the host is a {machine}, the agent at hand is made for {platform.machine()}",
                where=f"host {self.name} (ssh {self.to})",
                advice=f"install iodyno on a lab that is a {machine}, or take a {platform.machine()} host",
            )
        connection = survey.get("connection", "").split()
        if len(connection) == 4:
            self.reached.lab_address = connection[0]
            self.reached.address = self.reached.address or connection[2]
        path = f"{survey['home']}/.cache/iodyno/{name}"
        if not re.fullmatch(r"[A-Za-z0-9_./@%+=:-]+", path):
            raise AccessError(
                f"the home directory has a name that no shell takes unquoted: {survey['home']!r}",
                where=f"host {self.name} (ssh {self.to})",
                advice="use an account whose home directory has a plain name",
            )
        if survey.get("hash") == program.sha256:
            self.reached.notes.append(f"agent found at {path}")
            return path
        await self._copy(program, path)
        self.reached.notes.append(f"agent copied to {path}")
        return path

    async def _survey(self, name: str) -> dict[str, str]:
        """What the host says of itself, and the hash of the program there."""
        script = (
            f"echo; echo {_MARK} machine $(uname -m); echo {_MARK} connection $SSH_CONNECTION;"
            f" echo {_MARK} home $HOME; echo {_MARK} hash $(sha256sum $HOME/.cache/iodyno/{name} 2>/dev/null)"
        )
        said = await self._run(f"exec /bin/sh -c '{script}'", b"")
        # Whatever else a shell of the account prints stands on lines without the mark.
        found = dict(re.findall(rf"^{_MARK} (\w+) ?(.*)$", said, re.MULTILINE))
        if "home" not in found:
            raise AccessError(
                "the account gives no shell that runs commands",
                where=f"host {self.name} (ssh {self.to})",
                advice="use an account with an ordinary shell",
            )
        found["hash"] = found.get("hash", "").partition(" ")[0]
        return found

    async def _copy(self, program: AgentProgram, path: str) -> None:
        """Copies the program; it gets its name only when it is whole and runs."""
        folder = path.rpartition("/")[0]
        script = (
            # A copy that is cut off leaves nothing; one whose shell was killed is removed by a later one. By its age: a home
            # may be that of several hosts, whose processes are not seen here.
            f'trap "rm -f {path}.$$" EXIT; trap "exit 1" HUP INT TERM PIPE;'
            f' find {folder} -name "agent-*.[0-9]*" -mmin +60 -exec rm -f "{{}}" ";" 2>/dev/null;'
            f" umask 077; mkdir -p {folder} && cat > {path}.$$ && chmod 700 {path}.$$ &&"
            f" sum=$(sha256sum < {path}.$$) && echo {_MARK} hash $sum && {path}.$$ --version >/dev/null &&"
            f" mv {path}.$$ {path}"
        )
        content = await asyncio.to_thread(program.path.read_bytes)
        doing = f"copying the agent ({len(content) / 1e6:.0f} MB)"
        said = await self._run(f"exec /bin/sh -c '{script}'", content, doing)
        if f"{_MARK} hash {program.sha256}" not in said:
            raise AccessError(
                "the copy of the agent differs from the original",
                where=f"host {self.name} (ssh {self.to})",
                advice="try again; if it stays so, something on the way changes what ssh carries",
            )

    async def _run(self, command: str, stdin: bytes, doing: str = "the first command there") -> str:
        """What a command there writes to stdout; `doing` says what it is for. Raises AccessError."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                said, complaint = await process.communicate(stdin)
        except TimeoutError:
            raise AccessError(
                f"{doing} took longer than {self._timeout_s:g} s",
                where=f"host {self.name} (ssh {self.to})",
                advice=f"see with `{self._by_hand()} {self.to}` how fast it answers, or give the host a longer `command_timeout`",
            ) from None
        finally:
            if process.returncode is None:
                kill(process)
                await process.wait()
        if process.returncode != 0:
            # A login that is turned away may say so on either.
            raise self.trouble(process.returncode or 0, (complaint.strip() or said).decode(errors="replace"))
        return said.decode(errors="replace")


def _client_options(options: Mapping[str, Any]) -> list[str]:
    given = [
        # Never ask: there may be nobody to answer.
        *("-o", "BatchMode=yes"),
        *("-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}"),
        # A cut connection is noticed after three unanswered questions, two seconds apart.
        *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"),
        *("-o", "ForwardX11=no", "-o", "ForwardAgent=no", "-o", "ClearAllForwardings=yes"),
    ]
    return given + _way_options(options)


def _way_options(options: Mapping[str, Any]) -> list[str]:
    """What of the client's options says which server is reached, and as whom."""
    given = []
    if "config_file" in options:
        given += ["-F", str(options["config_file"])]
    if "port" in options:
        given += ["-p", str(options["port"])]
    if "identity_file" in options:
        given += ["-i", str(options["identity_file"]), "-o", "IdentitiesOnly=yes"]
    if "known_hosts_file" in options:
        known = f"UserKnownHostsFile={options['known_hosts_file']}"
        given += ["-o", known, "-o", "GlobalKnownHostsFile=/dev/null"]
    return given


def _parted(to: str) -> tuple[str, str]:
    """Whom to reach, and the port, if there is one. A name with one colon has a port; one with more is an IPv6 address, which
    may stand in brackets.
    """
    if bracketed := re.fullmatch(r"([^@]*@)?\[([0-9A-Fa-f:.%\w]+)\](?::(\d+))?", to):
        return (bracketed[1] or "") + bracketed[2], bracketed[3] or ""
    name, _, port = to.partition(":")
    return (name, port) if port.isdecimal() or not port else (to, "")
