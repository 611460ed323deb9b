"""The accesses by name, and the options that a host of each may be given in an experiment file.

How an access reaches a host is in `iodyno.hosts`; here is only what it can be told. To add an access:
describe it here (one entry of `ACCESSES`), give `iodyno/hosts` one file, and `OPENERS` in `iodyno.session.accesses` a line.
One that is a command which holds the stdin and stdout of a program on the host needs the entry alone, with its `command`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.core import quantity
from iodyno.core.invalid import invalid

OptionValue = int | str | tuple[str, ...] | Mapping[str, object]
"""Value of an option once read: a count, nanoseconds, a text, words, or a mapping of names to values."""

HOST_NAME = "{name}"
"""Placeholder for the name of the host."""

_WORD = re.compile(r"[A-Za-z0-9_{][\w{}.,:/@=!()\[\] -]{0,252}")
"""Name that is put into a command. It begins with no dash, which would make it an option."""


@dataclass(frozen=True)
class AccessOption:
    """One thing that an access can be told about a host."""

    name: str
    kind: Literal["text", "word", "words", "count", "duration", "mapping"]
    help: str
    low: int = 1
    high: int = 2**31
    required: bool = False
    default: str | None = None

    def parse(self, written: object) -> OptionValue:
        """The option in its base unit. Raises ValueError with what was found and what is allowed."""
        if self.kind == "mapping":
            if not isinstance(written, Mapping):
                raise ValueError(invalid(written, "keys with their values"))
            return written
        if self.kind == "words":
            if not isinstance(written, list) or not written or not all(map(_is_text, written)):
                raise ValueError(invalid(written, "a list of texts that are not empty"))
            return tuple(written)
        if self.kind == "word":
            if not isinstance(written, str) or not _WORD.fullmatch(written):
                raise ValueError(invalid(written, "a name that begins with a letter or a digit"))
            return written
        if self.kind == "text":
            if not _is_text(written):
                raise ValueError(invalid(written, "a text that is not empty"))
            assert isinstance(written, str)
            return written
        if not isinstance(written, (str, int, float)):
            raise ValueError(invalid(written, f"one {self.kind}"))
        assert self.kind in ("count", "duration")
        value = quantity.parse(self.kind, written)
        if not self.low <= value <= self.high:
            low, high = quantity.show(self.kind, self.low), quantity.show(self.kind, self.high)
            raise ValueError(invalid(written, f"{low} to {high}"))
        return value


def _is_text(written: object) -> bool:
    return isinstance(written, str) and bool(written.strip()) and written.isprintable()


@dataclass(frozen=True)
class AccessKind:
    """A way to reach a host, with its options.

    `target`: the option that says which host it is. `command`: groups of words that start a program there and hold its stdin and
    stdout; a group with an option that is not given is left out.
    """

    name: str
    help: str
    options: tuple[AccessOption, ...] = ()
    target: str | None = None
    command: tuple[tuple[str, ...], ...] = ()

    def words(self, name: str, options: Mapping[str, OptionValue]) -> list[str]:
        """The command for the host of that name, to which the program's own words are added.

        >>> ACCESSES["podman"].words("client-2", {"user": "1000"})
        ['podman', 'exec', '-i', '--user=1000', 'client-2']
        """
        given = {o.name: o.default for o in self.options if o.default is not None} | dict(options)
        words = []
        for group in self.command:
            needed = re.findall(r"\{(\w+)\}", " ".join(group))
            if all(option in given for option in needed):
                words += [re.sub(r"\{(\w+)\}", lambda found: str(given[found[1]]), word) for word in group]
        return [word.replace(HOST_NAME, name) for word in words]


_AGENT = AccessOption(
    "agent",
    "text",
    "The agent's program there, in an image or on a shared file system; left out: copied through stdin, which needs a shell.",
)
_COMMAND_TIMEOUT = AccessOption(
    "command_timeout",
    "duration",
    "How long a command may take there; in nanoseconds once read.",
    low=10**8,
    high=3600 * 10**9,
)
_OF_COMMANDS = (_AGENT, _COMMAND_TIMEOUT)


def _container(program: str, help: str) -> AccessKind:
    options = (
        AccessOption("container", "word", "Its name or id.", default=HOST_NAME),
        AccessOption("user", "word", "User in it."),
        *_OF_COMMANDS,
    )
    command = ((program, "exec", "-i"), ("--user={user}",), ("{container}",))
    return AccessKind(program, help, options, "container", command)


def _instance(program: str, help: str) -> AccessKind:
    options = (
        AccessOption("instance", "word", "Its name, or REMOTE:NAME.", default=HOST_NAME),
        AccessOption("project", "word", "Its project."),
        *_OF_COMMANDS,
    )
    command = ((program, "exec", "-T"), ("--project={project}",), ("{instance}", "--"))
    return AccessKind(program, help, options, "instance", command)


ACCESSES: Mapping[str, AccessKind] = {
    access.name: access
    for access in (
        AccessKind("local", "This machine as it is; two such hosts talk over loopback."),
        AccessKind(
            "netns",
            "A network namespace on this machine, made and removed by iodyno; needs root.",
            (
                AccessOption(
                    "link_mtu", "count", "MTU of the link between the namespaces.", low=1280, high=65_535
                ),
                AccessOption(
                    "addresses",
                    "count",
                    "IPv4 addresses of the host on that link; each allows some 64 000 connections more.",
                    high=4096,
                ),
            ),
        ),
        AccessKind(
            "ssh",
            "Another machine, through the OpenSSH client and its configuration.",
            (
                AccessOption("to", "text", "user@host[:port], or a Host of ssh_config.", required=True),
                AccessOption("port", "count", "Port of the ssh server.", high=65_535),
                AccessOption("identity_file", "text", "Private key to log in with."),
                AccessOption("known_hosts_file", "text", "File of the host keys that are trusted."),
                AccessOption(
                    "config_file",
                    "text",
                    "ssh_config to use instead of the user's; one that has ssh run a program here is refused.",
                ),
                _COMMAND_TIMEOUT,
            ),
            "to",
        ),
        AccessKind(
            "exec",
            "A command that starts a program on the host and holds its stdin and stdout; IODYNO_EXEC has to name its program.",
            (
                AccessOption(
                    "command",
                    "words",
                    "The command, to which the agent's is added; {name} and {n} stand for the host.",
                    required=True,
                ),
                *_OF_COMMANDS,
            ),
        ),
        _container("podman", "A container that runs, by `podman exec`."),
        _container("docker", "A container that runs, by `docker exec`."),
        AccessKind(
            "kubectl",
            "A pod of Kubernetes that runs, by `kubectl exec`.",
            (
                AccessOption("pod", "word", "Its name.", default=HOST_NAME),
                AccessOption(
                    "selector",
                    "word",
                    "Labels of running pods, of which `count` are taken.",
                ),
                AccessOption("namespace", "word", "Its namespace."),
                AccessOption("container", "word", "Container of the pod; left out: the first."),
                AccessOption("context", "word", "Context of kubectl."),
                *_OF_COMMANDS,
            ),
            "pod",
            (
                ("kubectl",),
                ("--context={context}",),
                ("--namespace={namespace}",),
                ("exec", "-i", "--quiet", "{pod}"),
                ("--container={container}",),
                ("--",),
            ),
        ),
        AccessKind(
            "srun",
            "A node of Slurm, by `srun`: a step of the job that iodyno or `job` is, else a job of its own.",
            (
                AccessOption("node", "word", "Its name.", default=HOST_NAME),
                AccessOption("partition", "word", "Partition to ask."),
                AccessOption("job", "count", "Job that has the node."),
                AccessOption("cpus_per_task", "count", "CPUs to ask for.", high=8192),
                *_OF_COMMANDS,
            ),
            "node",
            (
                (
                    "srun",
                    "--nodes=1",
                    "--ntasks=1",
                    "--nodelist={node}",
                    "--overlap",
                    "--unbuffered",
                    "--quiet",
                ),
                ("--partition={partition}",),
                ("--jobid={job}",),
                ("--cpus-per-task={cpus_per_task}",),
                ("--immediate=15",),
            ),
        ),
        _instance("incus", "An instance of Incus that runs, by `incus exec`."),
        _instance("lxc", "An instance of LXD that runs, by `lxc exec`."),
        AccessKind(
            "simulated",
            "No machine: an agent that answers from a known truth, to check the analysis with.",
            (AccessOption("truth", "mapping", "What the simulated host costs and carries."),),
        ),
    )
}
"""Every access, by name."""
