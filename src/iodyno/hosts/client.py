"""Hosts that are reached by a client: a command on the lab's machine that starts one there and holds its stdin and stdout.

The agent lies there under its hash in `~/.cache/iodyno/`. One login finds out what the host is and whether a whole agent lies
there, receives it through stdin where none does, and becomes it by `exec`, so that no shell stands between it and the lab. The
agent's first word says its SHA-256. Nothing else is changed on the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import platform
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.hosts.access import MOST_FOREIGN_BYTES, AgentProgram, AgentStreams, Reached, end_at_once, spawn

_MARK = "IODYNO"
_FOLDER = ".cache/iodyno"
TIMEOUT_NS = 60_000_000_000
_PART_BYTES = 256 << 10

_COPY = (
    f"export LC_ALL=C; umask 077; echo {_MARK} step store;"
    f' test -d "$HOME" && mkdir -p "$HOME/{_FOLDER}" && cd "$HOME/{_FOLDER}" || exit 1;'
    # A copy that is cut off leaves nothing; one whose shell was killed is removed by a later one. By its age: a home may be that
    # of several hosts, whose processes are not seen here.
    ' trap "rm -f $name.$$" EXIT; trap "exit 1" HUP INT TERM PIPE;'
    ' find . -name "agent-*.[0-9]*" -mmin +60 -exec rm -f "{}" ";" 2>/dev/null;'
    " head -c ${sum##* } > $name.$$ && chmod 700 $name.$$ &&"
    f" echo {_MARK} step compare && same $name.$$ &&"
    f" echo {_MARK} step execute && ./$name.$$ --version >/dev/null &&"
    " mv $name.$$ $name"
)
"""Copies stdin; it gets its name only when it is whole and runs. Says before each step which one it is."""

_LOGIN = (
    # What stands on stderr before this is the banner of the server. On stdout, first a line of its own: a start-up file may have
    # left one unfinished.
    f'echo {_MARK} begins >&2; echo; kind=$(uname -sm); echo "{_MARK} kind $kind";'
    f' echo "{_MARK} connection $SSH_CONNECTION"; test -d "$HOME" && echo "{_MARK} is_there yes";'
    f' printf "{_MARK} home %%s\\n" "$HOME"; name=%(name)s; sha=%(sha)s; sum="%(sum)s";'
    # As fast as it can be read, where there is cksum(1).
    ' same() { case "$( ( (cksum || sha256sum) < "$1") 2>/dev/null)" in "$sum" | "$sha  -") ;; *) return 1;; esac; };'
    f' test "$kind" = "Linux %(machine)s" || {{ echo {_MARK} asks; read -r name sha sum || exit 1; }};'
    f' file="$HOME/{_FOLDER}/$name"; same "$file" ||'
    f" {{ echo {_MARK} wants; ({_COPY}) || exit 1; }};"
    f' echo {_MARK} runs; exec "$file" %(command)s'
)
"""Script that says what the host is, and becomes the agent there. It asks for the name and checksum (cksum(1)) of one for another
architecture, and wants the agent where none with that checksum lies. Whatever else a shell prints stands on lines without the
mark.
"""

_ROOM = "free some megabytes in ~/.cache there"
_EXECUTABLE = "let programs in ~/.cache there be executed: no file system mounted noexec, no rule of the system that forbids it"


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
        """Starts an agent there; makes sure before that its program is there, and whole. Raises AccessError."""
        if self._agent is not None:
            return await self._spawn([self._agent, command])
        values = {**_marks(program), "machine": platform.machine(), "command": command}
        streams = await self._spawn(self.words(_LOGIN % values))
        try:
            await self._log_in(streams, program)
        except BaseException:
            await end_at_once(streams.process)
            raise
        return streams

    async def _spawn(self, words: Sequence[str]) -> AgentStreams:
        try:
            return await spawn([*self._command, *words])
        except OSError as error:
            raise self._no_client(error) from None

    async def close(self) -> None:
        """The program stays in the cache of the account, on purpose: the next campaign uses it."""

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for a client, or the agent at its other end, that ended with `status`, having said `said`."""
        said = _after_banner(said)
        last = last_lines(said)
        if self.lost(status):
            return self._not_reached(status, said)
        if status in (126, 127):  # of sh: found and not executed, not found
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

    async def _log_in(self, streams: AgentStreams, program: AgentProgram) -> None:
        """Hears what the script says until it becomes the agent, and gives it what it asks for. Raises AccessError."""
        found: dict[str, str] = {}
        doing, note = "the first command there", "agent found at"
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                while (line := await self._line(streams)) is not None:
                    word, value = line
                    found[word] = value
                    if word not in ("asks", "wants", "runs"):
                        continue
                    self._check_host(found)
                    if word == "asks":
                        program = self.reached.program = self._for_machine(program, found["kind"].split()[-1])
                        answer = "{name} {sha} {sum}\n".format_map(_marks(program))
                        streams.writer.write(answer.encode())
                    elif word == "wants":
                        content = await asyncio.to_thread(program.path.read_bytes)
                        doing, note = f"copying the agent ({len(content) / 1e6:.0f} MB)", "agent copied to"
                        limit.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
                        # Where nobody reads it, the script says why.
                        with contextlib.suppress(ConnectionError):
                            for at in range(0, len(content), _PART_BYTES):
                                streams.writer.write(content[at : at + _PART_BYTES])
                                await streams.writer.drain()
                    else:
                        self._note_reached(
                            found, f"{note} {found['home']}/{_FOLDER}/{_marks(program)['name']}"
                        )
                        return
                status = await streams.process.wait()
        except TimeoutError:
            raise self.error(
                f"{doing} took longer than {self._timeout_s:g} s",
                f"see with `{self.look()}` how fast it answers, or give the host a longer `command_timeout`",
            ) from None
        said, complaint = streams.foreign.decode(errors="replace"), streams.process.last_words()
        raise self._not_logged_in(status, found, doing, said, _after_banner(complaint))

    async def _line(self, streams: AgentStreams) -> tuple[str, str] | None:
        """The next word of the script, with its value; None: its stream has ended. Keeps apart what others write."""
        try:
            while line := await streams.reader.readline():
                if said := _MARKED.fullmatch(line):
                    return said[1].decode(), said[2].decode(errors="replace")
                streams.foreign += line if line.strip() else b""
                if len(streams.foreign) > MOST_FOREIGN_BYTES:
                    raise ValueError(f"{len(streams.foreign)} bytes came, and none of them is the script's")
        except (ConnectionError, ValueError) as error:
            raise self.error(
                f"what it says cannot be read: {error}", "let start-up files of the shell be silent"
            ) from None
        return None

    def _check_host(self, found: dict[str, str]) -> None:
        """Refuses a host that cannot have the agent."""
        system = found["kind"].partition(" ")[0]
        if system != "Linux":
            raise self.error(f"the host runs {system}, the agent is made for Linux", "take a Linux host")
        if "is_there" not in found:
            raise self.error(
                f"the home directory of the account, {found['home']}, is not there",
                "make it, or use an account that has one: the agent is kept in ~/.cache",
            )

    def _note_reached(self, found: dict[str, str], note: str) -> None:
        connection = found["connection"].split()
        if len(connection) == 4:
            self.reached.lab_address = connection[0]
            self.reached.address = self.reached.address or connection[2]
        if not self.reached.notes:
            self.reached.notes.append(note)

    def _for_machine(self, program: AgentProgram, machine: str) -> AgentProgram:
        """The agent for a host of another architecture. Raises AccessError."""
        what = f"the host is a {machine}, the agent at hand is made for {platform.machine()}"
        if program.for_machine is None:
            raise self.error(what, f"take a {platform.machine()} host")
        try:
            return program.for_machine(machine)
        except AccessError as error:
            raise self.error(f"{what}; {error.what}: {error.where}", error.advice) from error

    def _not_logged_in(
        self, status: int, found: dict[str, str], doing: str, said: str, complaint: str
    ) -> AccessError:
        """The error for a client that ended before the script became the agent."""
        step, last = found.get("step"), last_lines(complaint)
        if self.lost(status):
            # Some servers turn a login away on stdout.
            error = self._not_reached(status, complaint if complaint.strip() else said)
            error.what = f"{error.what} ({doing})" if step else error.what
            return error
        if "home" not in found:
            return self.no_shell(status, said, complaint)
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
        return self.error(what, advice)


def _marks(program: AgentProgram) -> dict[str, str]:
    """Marks of a whole copy of the program on a host: name, SHA-256, and what cksum(1) says of it."""
    sha = program.sha256
    return {"name": f"agent-{sha[:16]}", "sha": sha, "sum": _checksum(program.path, sha)}


@functools.cache
def _checksum(path: Path, sha256: str) -> str:
    """Answer of cksum(1) on a file, the content of which has this hash."""
    content = path.read_bytes()
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "little")
    # It takes the bits of a byte in the order in which zlib does not, and begins with zero.
    turned = zlib.crc32((content + length).translate(_TURNED), 0xFFFFFFFF)
    return f"{int(f'{turned:032b}'[::-1], 2)} {len(content)}"


_TURNED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def last_lines(said: str, count: int = 1) -> str:
    """The last lines that say anything; empty: there is none."""
    return "; ".join([line.strip() for line in said.splitlines() if line.strip()][-count:])


def _after_banner(complaint: str) -> str:
    """What stands on stderr from where the script begins; all of it where it has not."""
    return complaint.rpartition(f"{_MARK} begins")[2]


_MARKED = re.compile(rf"{_MARK} (\w+) ?(.*)\n".encode())
