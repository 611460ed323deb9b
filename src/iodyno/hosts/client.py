"""Hosts that are reached by a client: a command on the lab's machine that starts one there and holds its stdin and stdout.

The agent is copied once, under its hash, to `~/.cache/iodyno/` there, checked there, and run by `exec`, so that no shell stands
between it and the lab. Nothing else is changed on the host.
"""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Sequence

from iodyno.core.errors import AccessError
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, kill, spawn

_MARK = "IODYNO"
_FOLDER = ".cache/iodyno"
TIMEOUT_NS = 60_000_000_000

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


def _name_there(program: AgentProgram) -> str:
    """Return the name of the program's copy on a host."""
    return f"agent-{program.sha256[:16]}"


class ClientAccess:
    """What such accesses share. One of them says how a script is worded for its client, and when the client did not get there.

    `command`: the client's words; `where`: the host, in errors; `agent`: where its program is there already.
    """

    by = ""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        where: str,
        *,
        timeout_ns: int = TIMEOUT_NS,
        agent: str | None = None,
        address: str | None = None,
        cpus: Sequence[int] = (),
        server: str = "",
    ) -> None:
        self.name = name
        self.where = where
        self.reached = Reached(address=address, cpus=tuple(cpus), server=server)
        self._command = list(command)
        self._timeout_s = timeout_ns / 1e9
        self._agent = agent
        self._installed: str | None = None

    def words(self, script: str) -> list[str]:
        """Return the words after the client's that have /bin/sh there run a script."""
        raise NotImplementedError

    def by_hand(self) -> str:
        """Return a command with which a person sees whether the host is reached."""
        raise NotImplementedError

    def look(self) -> str:
        """Return a command with which a person sees how fast the host answers."""
        return self.by_hand()

    def lost(self, status: int) -> bool:
        """Tell whether a client with this exit status did not get there, or lost the connection."""
        return status < 0

    def no_shell(self, status: int, said: str, complaint: str) -> AccessError:
        """The error for a client that got there, where no shell runs scripts."""
        raise NotImplementedError

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent there; the first time, makes sure that its program is there. Raises AccessError."""
        if self._agent is not None:
            words = [self._agent, command]
        else:
            if self._installed is None:
                self._installed = await self._install(program)
            words = self.words(f'exec "$HOME/{_FOLDER}/{self._installed}" {command}')
        try:
            return await spawn([*self._command, *words])
        except OSError as error:
            raise self._no_client(error) from None

    async def close(self) -> None:
        """The program stays in the cache of the account, on purpose: the next campaign uses it."""

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for a client, or the agent at its other end, that ended with `status`, having said `said`."""
        last = last_lines(said)
        if self.lost(status):
            return self._not_reached(status, said)
        if status in (126, 127):  # of sh: found and not executed, not found
            # It is looked for anew: somebody may have removed it.
            self._installed = None
            return self.error(f"the agent cannot be executed: {last or f'exit status {status}'}", _EXECUTABLE)
        what = f"the agent ended with exit status {status}{last and f': {last}'}"
        return self.error(what, "look at the system log of the host")

    def _not_reached(self, status: int, said: str) -> AccessError:
        """The error for a client that did not get there, or lost the connection: in its own last words."""
        # A command there that a signal ends has this status, too.
        silent = f"killed by signal {-status}" if status < 0 else f"exit status {status}, without a word"
        return self.error(
            f"the host cannot be reached by {self.by}: {last_lines(said, 2) or silent}",
            f"make `{self.by_hand()}` work",
        )

    def _no_client(self, error: OSError) -> AccessError:
        if isinstance(error, FileNotFoundError):
            return self.error(
                f"there is no command `{self._command[0]}` on this machine", self.install_advice()
            )
        return self.error(f"`{self._command[0]}` does not start: {error.strerror}", "look at its permissions")

    def install_advice(self) -> str:
        """Return how a client that is missing is had."""
        return "install it, or run iodyno where it is"

    def error(self, what: str, advice: str) -> AccessError:
        """An error about this host."""
        return AccessError(what, where=self.where, advice=advice)

    async def _install(self, program: AgentProgram) -> str:
        """Name of the program there; copies it when it is not there, or not whole."""
        name = _name_there(program)
        survey = await self._survey(name)
        system, machine = survey.get("system", "?"), survey.get("machine", "?")
        if system != "Linux":
            raise self.error(f"the host runs {system}, the agent is made for Linux", "take a Linux host")
        if machine != platform.machine():
            program = self.reached.program = self._for_machine(program, machine)
            name = _name_there(program)
            survey = await self._survey(name)
        if "is_there" not in survey:
            raise self.error(
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
        what = f"the host is a {machine}, the agent at hand is made for {platform.machine()}"
        if program.for_machine is None:
            raise self.error(what, f"take a {platform.machine()} host")
        try:
            return program.for_machine(machine)
        except AccessError as error:
            raise self.error(f"{what}; {error.what}: {error.where}", error.advice) from error

    async def _survey(self, name: str) -> dict[str, str]:
        """Ask for facts of the host, and the hash of the program there."""
        status, said, complaint = await self._run(_SURVEY % {"name": name}, b"", "the first command there")
        found = _marked(said)
        if self.lost(status):
            # Some servers turn a login away on stdout.
            raise self._not_reached(status, complaint if complaint.strip() else said)
        if "home" not in found:
            raise self.no_shell(status, said, complaint)
        return found

    async def _copy(self, program: AgentProgram, name: str) -> None:
        """Copies the program under this name. Raises AccessError."""
        content = await asyncio.to_thread(program.path.read_bytes)
        doing = f"copying the agent ({len(content) / 1e6:.0f} MB)"
        script = _COPY % {"name": name, "hash": program.sha256}
        status, said, complaint = await self._run(script, content, doing)
        if status == 0:
            return
        step, last = _marked(said).get("step"), last_lines(complaint)
        if self.lost(status):
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
        raise self.error(what, advice)

    async def _run(self, script: str, stdin: bytes, doing: str) -> tuple[int, str, str]:
        """Runs a script there: exit status, and what it writes to stdout and stderr. `doing` says what it is for.

        Raises AccessError when it takes too long.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                # What stands on stderr before this is the banner of the server.
                *self.words(f"echo {_MARK} begins >&2; {script}"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise self._no_client(error) from None
        try:
            async with asyncio.timeout(self._timeout_s):
                said, complaint = await process.communicate(stdin)
        except TimeoutError:
            raise self.error(
                f"{doing} took longer than {self._timeout_s:g} s",
                f"see with `{self.look()}` how fast it answers, or give the host a longer `command_timeout`",
            ) from None
        finally:
            if process.returncode is None:
                kill(process)
                await process.wait()
        complained = complaint.decode(errors="replace").rpartition(f"{_MARK} begins\n")[2]
        return process.returncode or 0, said.decode(errors="replace"), complained


def last_lines(said: str, count: int = 1) -> str:
    """The last lines that say anything; empty: there is none."""
    return "; ".join([line.strip() for line in said.splitlines() if line.strip()][-count:])


def _marked(said: str) -> dict[str, str]:
    """The words of our scripts, the last of each kind."""
    return dict(re.findall(rf"^{_MARK} (\w+) ?(.*)$", said, re.MULTILINE))
