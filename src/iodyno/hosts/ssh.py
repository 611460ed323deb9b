"""A host reached by the OpenSSH client, with everything that its configuration can do.

The agent is copied once, under its hash, to `~/.cache/iodyno/` of the account, checked there, and run by
`exec`, so that no shell stands between it and the lab. Nothing else is changed on the host.

The login shell of the account may be any that knows `exec` and single quotes: what it is told is `exec /bin/sh -c '...'`, where
the home directory is only `$HOME`, so that it may have any name.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.core import ssh_target
from iodyno.core.errors import AccessError
from iodyno.core.ssh_target import SshTarget
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, kill, spawn

_MARK = "IODYNO"
_FOLDER = ".cache/iodyno"
_CONNECT_TIMEOUT_S = 10
_TIMEOUT_NS = 60_000_000_000
_OF_CLIENT = 255
"""Exit status of a client that did not get there, or lost the connection (ssh(1)); no command of ours ends with it."""

_SURVEY = (
    # First a line of its own: a start-up file may have left one unfinished.
    f'export LC_ALL=C; echo; echo "{_MARK} system $(uname -s)"; echo "{_MARK} machine $(uname -m)";'
    f' echo "{_MARK} connection $SSH_CONNECTION"; printf "{_MARK} home %%s\\n" "$HOME";'
    f' test -d "$HOME" && echo "{_MARK} is_there yes";'
    f' echo "{_MARK} hash $(cat "$HOME/{_FOLDER}/%(name)s" 2>/dev/null | sha256sum)"'
)
"""Script that prints facts of the host, and the hash of the program there. Whatever else a shell prints stands on lines without
the mark.
"""
_COPY = (
    f"export LC_ALL=C; umask 077; echo; echo {_MARK} step store;"
    f' mkdir -p "$HOME/{_FOLDER}" && cd "$HOME/{_FOLDER}" || exit 1;'
    # A copy that is cut off leaves nothing; one whose shell was killed is removed by a later one. By its age: a home may be that
    # of several hosts, whose processes are not seen here.
    ' trap "rm -f %(name)s.$$" EXIT; trap "exit 1" HUP INT TERM PIPE;'
    ' find . -name "agent-*.[0-9]*" -mmin +60 -exec rm -f "{}" ";" 2>/dev/null;'
    " cat > %(name)s.$$ && chmod 700 %(name)s.$$ &&"
    f" echo {_MARK} step compare && sum=$(sha256sum < %(name)s.$$) && test ${{sum%%%% *}} = %(hash)s &&"
    f" echo {_MARK} step execute && ./%(name)s.$$ --version >/dev/null &&"
    " mv %(name)s.$$ %(name)s"
)
"""Copies stdin; it gets its name only when it is whole and runs. Says before each step which one it is."""

_ROOM = "free some megabytes in ~/.cache there"
_EXECUTABLE = "let programs in ~/.cache there be executed: no file system mounted noexec, no rule of the system that forbids it"


class SshAccess:
    """Starts agents on the host that `ssh <to>` reaches.

    Options: `to` ([user@]host[:port], by default the host's name), `port`, `identity_file`, `known_hosts_file`,
    `config_file`, `command_timeout` in ns.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], address: str | None = None, cpus: Sequence[int] = ()
    ) -> None:
        self.name = name
        written = str(options.get("to", name))
        target = ssh_target.parse(written)
        self.to = target.to
        if target.port is not None:
            options = {"port": target.port, **options}
        port = options.get("port")
        self._target = SshTarget(target.to, None if port is None else int(port))
        # On a command line the host has no other name than this.
        self.where = f"host {name}" if name == written else f"host {name} (ssh {self._target})"
        self._timeout_s = float(options.get("command_timeout", _TIMEOUT_NS)) / 1e9
        self.reached = Reached(address=address, cpus=tuple(cpus))
        self._options = options
        self._command = ["ssh", "-T", *_client_options(options), "--", self.to]
        self._installed: str | None = None

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent there; the first time, makes sure that its program is there. Raises AccessError."""
        if self._installed is None:
            self._installed = await self._install(program)
        return await spawn([*self._command, _by_sh(f'exec "$HOME/{_FOLDER}/{self._installed}" {command}')])

    async def close(self) -> None:
        """The program stays in the cache of the account, on purpose: the next campaign uses it."""

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for an ssh client, or the agent at its other end, that ended with `status`, having said `said`."""
        last = _last_lines(said)
        if status == _OF_CLIENT or status < 0:
            return self._not_reached(status, said)
        if status in (126, 127):  # of sh: found and not executed, not found
            # It is looked for anew: somebody may have removed it.
            self._installed = None
            return self._error(
                f"the agent cannot be executed: {last or f'exit status {status}'}", _EXECUTABLE
            )
        what = f"the agent ended with exit status {status}{last and f': {last}'}"
        return self._error(what, "look at the system log of the host")

    def _not_reached(self, status: int, said: str) -> AccessError:
        """The error for a client that did not get there, or lost the connection: in its own last words."""
        # A command there that a signal ends has this status, too.
        silent = f"killed by signal {-status}" if status < 0 else f"exit status {status}, without a word"
        return self._error(
            f"the host cannot be reached by ssh: {_last_lines(said, 2) or silent}",
            f"make `{self._by_hand()} -o BatchMode=yes {self.to} true` work",
        )

    def _error(self, what: str, advice: str) -> AccessError:
        return AccessError(what, where=self.where, advice=advice)

    def _by_hand(self) -> str:
        """Return the command with which a person reaches the same server in the same way."""
        options = _way_options(self._options)
        return " ".join(["ssh", *map(shlex.quote, options)])

    async def _install(self, program: AgentProgram) -> str:
        """Name of the program there; copies it when it is not there, or not whole."""
        name = _name_there(program)
        survey = await self._survey(name)
        system, machine = survey.get("system", "?"), survey.get("machine", "?")
        if system != "Linux":
            raise self._error(f"the host runs {system}, the agent is made for Linux", "take a Linux host")
        if machine != os.uname().machine:
            program = self.reached.program = self._for_machine(program, machine)
            name = _name_there(program)
            survey = await self._survey(name)
        if "is_there" not in survey:
            raise self._error(
                f"the home directory of the account, {survey['home']}, is not there",
                "make it, or use an account that has one: the agent is kept in ~/.cache",
            )
        connection = survey.get("connection", "").split()
        if len(connection) == 4:
            self.reached.lab_address = connection[0]
            self.reached.address = self.reached.address or connection[2]
        path = f"{survey['home']}/{_FOLDER}/{name}"
        if survey.get("hash", "").partition(" ")[0] == program.sha256:
            self.reached.notes.append(f"agent found at {path}")
        else:
            await self._copy(program, name)
            self.reached.notes.append(f"agent copied to {path}")
        return name

    def _for_machine(self, program: AgentProgram, machine: str) -> AgentProgram:
        """The agent for a host of another architecture. Raises AccessError."""
        what = f"the host is a {machine}, the agent at hand is made for {os.uname().machine}"
        if program.for_machine is None:
            raise self._error(what, f"take a {os.uname().machine} host")
        try:
            return program.for_machine(machine)
        except AccessError as error:
            raise self._error(f"{what}; {error.what}: {error.where}", error.advice) from error

    async def _survey(self, name: str) -> dict[str, str]:
        """Ask for facts of the host, and the hash of the program there."""
        status, said, complaint = await self._run(_SURVEY % {"name": name}, b"", "the first command there")
        found = _marked(said)
        if status == _OF_CLIENT or status < 0:
            # Some servers turn a login away on stdout.
            raise self._not_reached(status, complaint if complaint.strip() else said)
        if "home" not in found:
            last = _last_lines(said) or _last_lines(complaint)
            ended = f" (exit status {status}{last and f': {last}'})"
            raise self._error(
                f"the account gives no shell that runs commands{ended}",
                "use an account with an ordinary shell",
            )
        return found

    async def _copy(self, program: AgentProgram, name: str) -> None:
        """Copies the program under this name. Raises AccessError."""
        content = await asyncio.to_thread(program.path.read_bytes)
        doing = f"copying the agent ({len(content) / 1e6:.0f} MB)"
        script = _COPY % {"name": name, "hash": program.sha256}
        status, said, complaint = await self._run(script, content, doing)
        if status == 0:
            return
        step, last = _marked(said).get("step"), _last_lines(complaint)
        if status == _OF_CLIENT or status < 0:
            error = self._not_reached(status, complaint)
            error.what = f"{error.what} ({doing})" if step else error.what
            raise error
        reason = last or f"exit status {status}"
        if re.search("No space left on device|[Qq]uota exceeded", complaint):
            what, advice = f"there is no room for the agent in the home directory: {reason}", _ROOM
        elif step == "compare" and not last:
            what = "the copy of the agent differs from the original"
            advice = "try again; if it stays so, something on the way changes what ssh carries"
        elif step == "execute":
            what, advice = f"the agent cannot be executed in ~/.cache: {reason}", _EXECUTABLE
        else:
            what = f"the agent cannot be stored in ~/.cache: {reason}"
            advice = "let ~/.cache/iodyno there be a directory in which the account may write"
        raise self._error(what, advice)

    async def _run(self, script: str, stdin: bytes, doing: str) -> tuple[int, str, str]:
        """Runs a script there: exit status, and what it writes to stdout and stderr. `doing` says what it is for.

        Raises AccessError when it takes too long.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                # What stands on stderr before this is the banner of the server.
                _by_sh(f"echo {_MARK} begins >&2; {script}"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            advice = "install the OpenSSH client (Debian: apt-get install openssh-client)"
            raise self._error("there is no command `ssh` on this machine", advice) from None
        try:
            async with asyncio.timeout(self._timeout_s):
                said, complaint = await process.communicate(stdin)
        except TimeoutError:
            raise self._error(
                f"{doing} took longer than {self._timeout_s:g} s",
                f"see with `{self._by_hand()} {self.to}` how fast it answers, or give the host a longer `command_timeout`",
            ) from None
        finally:
            if process.returncode is None:
                kill(process)
                await process.wait()
        complained = complaint.decode(errors="replace").rpartition(f"{_MARK} begins\n")[2]
        return process.returncode or 0, said.decode(errors="replace"), complained


def _name_there(program: AgentProgram) -> str:
    """Return the name of the program's copy on a host."""
    return f"agent-{program.sha256[:16]}"


def _by_sh(script: str) -> str:
    """Return a command for a login shell. It has no single quote, line end or exclamation mark, which csh takes first."""
    return f"exec /bin/sh -c '{script}'"


def _last_lines(said: str, count: int = 1) -> str:
    """The last lines that say anything; empty: there is none."""
    return "; ".join([line.strip() for line in said.splitlines() if line.strip()][-count:])


def _marked(said: str) -> dict[str, str]:
    """The words of our scripts, the last of each kind."""
    return dict(re.findall(rf"^{_MARK} (\w+) ?(.*)$", said, re.MULTILINE))


def _client_options(options: Mapping[str, Any]) -> list[str]:
    given = [
        # Never ask: there may be nobody to answer.
        *("-o", "BatchMode=yes"),
        *("-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}"),
        # A configuration may keep it quiet, or have it tell of everything.
        *("-o", "LogLevel=INFO"),
        # A connection that is shared already is used; but one of ours would end when the agent that opened it does.
        *("-o", "ControlMaster=no", "-o", "RemoteCommand=none"),
        # A cut connection is noticed after three unanswered questions, two seconds apart.
        *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"),
        *("-o", "ForwardX11=no", "-o", "ForwardAgent=no", "-o", "ClearAllForwardings=yes"),
    ]
    return given + _way_options(options)


def _way_options(options: Mapping[str, Any]) -> list[str]:
    """Return those of the client's options that say which server is reached, and as whom."""
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
