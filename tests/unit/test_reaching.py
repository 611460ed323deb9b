"""How hosts are reached, as far as that needs no host: CPUs, the agent's program, words of ssh, clocks, names."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import PROGRAM, own_agent

from iodyno import run_folder
from iodyno.cli.host_argument import access_of
from iodyno.cli.main import run
from iodyno.core.access import ACCESSES
from iodyno.core.errors import AccessError, ExperimentError
from iodyno.core.experiment import HostSpec
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.hosts.ssh import SshAccess
from iodyno.paths import veth
from iodyno.session import locate
from iodyno.session import session as sessions
from iodyno.session.accesses import OPENERS, divide_cpus, open_hosts
from iodyno.session.clock import Probe, fit
from iodyno.session.session import Session
from iodyno.session.simulated import SimulatedAccess


def test_every_access_that_may_be_written_can_be_opened() -> None:
    assert set(OPENERS) == set(ACCESSES)


@pytest.mark.parametrize(
    ("allowed", "asked", "cpus", "shared"),
    [
        ([0, 1], {"a": (), "b": ()}, {"a": (0,), "b": (1,)}, []),
        ([0, 1, 2, 3, 4], {"a": (), "b": ()}, {"a": (0, 1), "b": (2, 3)}, []),
        ([3], {"a": (), "b": ()}, {"a": (3,), "b": (3,)}, ["a", "b"]),
        ([0, 1, 2], {"a": (1,), "b": ()}, {"a": (1,), "b": (0, 2)}, []),
        ([0, 1], {"a": (0,), "b": (0, 1)}, {"a": (0,), "b": (0, 1)}, ["a", "b"]),
        ([0, 1], {"a": (0, 1), "b": ()}, {"a": (0, 1), "b": (0, 1)}, ["a", "b"]),
    ],
)
def test_hosts_on_one_machine_divide_its_cpus(
    allowed: list[int], asked: dict[str, tuple[int, ...]], cpus: dict[str, tuple[int, ...]], shared: list[str]
) -> None:
    assert divide_cpus(allowed, asked) == (cpus, shared)


def test_one_netns_host_alone_is_a_mistake_in_the_experiment() -> None:
    with pytest.raises(ExperimentError, match=r"with each other, found client"):
        asyncio.run(open_hosts({"client": HostSpec("client", "netns")}, [("client", "server")]))


# ---- the agent's program ----


def test_the_named_agent_is_taken_and_a_wrong_name_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named, package = tmp_path / "own" / "mine", tmp_path / "package"
    for folder in (named.parent, package):
        folder.mkdir()
    shutil.copy2("/bin/true", named)
    monkeypatch.setattr(locate, "_PACKAGED", package)
    (package / "BUILD").write_text("0123456789abcdef\n")
    monkeypatch.setenv("IODYNO_AGENT", str(named))
    program = locate.find_agent()
    assert (program.path, program.build_hash, len(program.sha256)) == (named, "0123456789abcdef", 64)
    (named.parent / "BUILD").write_text("fedcba9876543210\n")
    assert locate.find_agent().build_hash == "fedcba9876543210"
    monkeypatch.setenv("IODYNO_AGENT", str(tmp_path / "absent"))
    with pytest.raises(AccessError, match="absent") as missing:
        locate.find_agent()
    assert "make build" in missing.value.advice


def test_an_agent_that_is_not_as_it_was_built_is_not_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = own_agent(tmp_path)
    monkeypatch.setenv("IODYNO_AGENT", str(program.path))
    assert locate.find_agent() == program
    text = bytearray(program.path.read_bytes())
    # Of the notes for a debugger: it runs on as if nothing had happened.
    text[-40] ^= 1
    program.path.write_bytes(text)
    for look in (locate.find_agent, locate.program_path):
        with pytest.raises(AccessError, match="is not as it was built") as refused:
            look()
        assert refused.value.where == str(program.path) and "make build" in refused.value.advice
    main = "from iodyno.cli.main import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", main, "tunables"], capture_output=True, text=True, check=False
    )
    assert (shown.returncode, shown.stdout) == (3, "") and "is not as it was built" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_reducer_of_traces_lies_beside_the_agent_and_a_missing_one_is_one_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, reducer = tmp_path / "mine", tmp_path / "iodyno-heat"
    for path in (named, reducer):
        shutil.copy2("/bin/true", path)
    monkeypatch.setenv("IODYNO_AGENT", str(named))
    assert locate.program_path(locate.HEAT) == reducer
    reducer.unlink()
    (tmp_path / "trace").write_text("1 2\n")
    assert run(["heatmap", str(tmp_path / "trace")]) == 3
    said = capsys.readouterr().err
    assert "the program iodyno-heat is not there" in said and str(reducer) in said and "make build" in said


def test_a_console_script_of_the_same_name_is_not_the_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script, binary = tmp_path / "scripts" / "iodyno-agent", tmp_path / "bin" / "iodyno-agent"
    for path in (script, binary):
        path.parent.mkdir()
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    shutil.copy2("/bin/true", binary)
    monkeypatch.delenv("IODYNO_AGENT", raising=False)
    monkeypatch.setattr(locate, "_PACKAGED", tmp_path)
    (tmp_path / "BUILD").write_text("b\n")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(script.parent))
    monkeypatch.setenv("PATH", str(binary.parent))
    assert locate.find_agent().path == binary
    binary.unlink()
    with pytest.raises(AccessError, match="is not there"):
        locate.find_agent()


# ---- the ssh client, as OpenSSH 9.2 speaks ----


LOGIN = "me@h: Permission denied (publickey).\r\n"
BANNER = """Unauthorised access is refused: Permission denied to all others.
Connection refused? No route to host? The connection will be closed by us, No space left on device.
"""


@pytest.mark.parametrize(
    ("status", "said", "what"),
    [
        (255, "ssh: connect to host h port 22: No route to host\r\n", "ssh: ssh: connect to host h port 22: No route to host"),
        (255, f'{BANNER}Load key "/k/id.pub": invalid format\r\n{LOGIN}',
         'ssh: Load key "/k/id.pub": invalid format; me@h: Permission denied (publickey).'),
        (255, "", "ssh: exit status 255, without a word"),
        (-9, "", "ssh: killed by signal 9"),
    ],
)  # fmt: skip
def test_a_client_that_does_not_get_there_says_so_itself(status: int, said: str, what: str) -> None:
    error = SshAccess("far", {"to": "me@h:2222"}).trouble(status, said)
    assert error.what == f"the host cannot be reached by {what}"
    assert error.where == "host far (ssh me@h:2222)" and error.exit_code == 3


def test_a_host_of_the_command_line_is_named_once_and_its_last_words_are_its_own() -> None:
    access = access_of("ssh:me@[fd19::2]:2222")
    assert access.trouble(255, LOGIN).where == "host me@[fd19::2]:2222"
    error = access.trouble(127, f"{BANNER}/bin/sh: 1: exec: /home/me/.cache/iodyno/agent-x: not found\n")
    assert error.what.endswith("agent-x: not found") and "cannot be executed" in error.what
    assert "exit status 70: no memory" in access.trouble(70, f"{BANNER}no memory\n").what


def test_what_to_try_reaches_the_same_server_in_the_same_way() -> None:
    options = {"to": "me@h:2222", "identity_file": "k/my key", "known_hosts_file": "kh"}
    refused = SshAccess("far", options).trouble(255, "me@h: Permission denied (publickey).")
    by_hand = "ssh -p 2222 -i 'k/my key' -o IdentitiesOnly=yes -o UserKnownHostsFile=kh -o GlobalKnownHostsFile=/dev/null"
    assert f"`{by_hand} -o BatchMode=yes me@h true`" in refused.advice


@pytest.mark.parametrize(
    ("to", "reached", "port"),
    [
        ("h", "h", None),
        ("me@h:2222", "me@h", "2222"),
        ("me@fd19::2", "me@fd19::2", None),
        ("me@[fd19::2]", "me@fd19::2", None),
        ("[fe80::1%eth0]:99", "fe80::1%eth0", "99"),
    ],
)
def test_an_address_may_stand_in_brackets(to: str, reached: str, port: str | None) -> None:
    access = access_of(f"ssh:{to}")
    assert isinstance(access, SshAccess)
    assert access.to == reached and access._command[-1] == reached
    assert ("-p" in access._command) == (port is not None)
    if port:
        assert access._command[access._command.index("-p") + 1] == port


NO_TARGET = [
    *(
        "-oProxyCommand=x",
        "me@-oFoo=bar",
        "-l@h",
        "a b",
        "h:123456",
        "h:99999",
        "h:0",
        "h:",
        "a:b",
        "me@",
        ":22",
    ),
    *("[h]:22", "fd19::zz", "me@ssh:h", "ssh://h", "h\n", ""),
]


@pytest.mark.parametrize("to", NO_TARGET)
def test_what_is_no_host_is_refused(to: str) -> None:
    """On a command line, and with its place in an experiment file."""
    with pytest.raises(ExperimentError, match="expected ") as refused:
        access_of(f"ssh:{to}")
    assert refused.value.where == "--host"
    text = (
        f"name: x\nhosts:\n  one: {{access: ssh, to: h}}\n  two:\n    access: ssh\n    to: {json.dumps(to)}\n"
    )
    text += "workload: {kind: stream, sender: one, receiver: two}\n"
    with pytest.raises(ExperimentError, match="expected ") as refused:
        parse_experiment(text, file="x.yaml", environment={})
    assert "x.yaml:6" in str(refused.value) and "hosts.two.to" in str(refused.value)


def test_each_host_of_a_group_has_its_own_target() -> None:
    def hosts(to: str, count: int, **more: Any) -> list[tuple[str, Any, Any]]:
        host = {"access": "ssh", "to": to, "count": count, **more}
        workload = {"kind": "disk", "hosts": "node", "target": "null"}
        keys = {"name": "x", "hosts": {"node": host}, "workload": workload}
        found = parse_experiment(experiment_text(keys), environment={}).hosts.values()
        return [(host.name, host.options["to"], host.options.get("port")) for host in found]

    assert hosts("me@gate:220{n}", 2) == [("node-1", "me@gate", 2201), ("node-2", "me@gate", 2202)]
    assert hosts("node{n}", 1) == [("node", "node1", None)]
    with pytest.raises(ExperimentError, match="`to` has a port too"):
        hosts("gate:220{n}", 2, port=22)
    with pytest.raises(
        ExperimentError, match=r"invalid value .gate:65536. for hosts\.node\.to: expected a port"
    ):
        hosts("gate:6553{n}", 7)


# ---- clocks ----


@given(
    st.integers(-(10**15), 10**15),
    st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**6)), min_size=1),
)
def test_the_true_offset_lies_within_the_error_whatever_the_delays(
    offset: int, delays: list[tuple[int, int, int]]
) -> None:
    probes = []
    for number, (there, back, thinking) in enumerate(delays):
        asked = number * 10**9
        received = asked + there + offset
        replied = received + thinking
        probes.append(Probe(asked, received, replied, replied - offset + back))
    found = fit(probes)
    assert abs(found.offset_ns - offset) <= found.error_ns
    assert found.rtt_min_ns == min(there + back for there, back, _ in delays)


@pytest.mark.parametrize(("enough_ns", "looks"), [(10**12, 8), (-1, 32)])
def test_a_clock_is_looked_at_until_it_is_known_well_enough(
    enough_ns: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    send = Session._send

    async def counted(self: Session, message: dict[str, Any]) -> None:
        asked.append(message["type"])
        await send(self, message)

    monkeypatch.setattr(Session, "_send", counted)
    monkeypatch.setattr(sessions, "ENOUGH_NS", enough_ns)

    async def scenario() -> None:
        host = SimulatedAccess("client", {"clock_offset_ns": 10**12})
        session = await Session.start(host, PROGRAM)
        try:
            found = await session.probe_clock()
        finally:
            await session.close()
        assert abs(found.offset_ns - 10**12) <= found.error_ns

    asyncio.run(scenario())
    assert asked.count("probe") == looks


# ---- namespaces ----


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_cpu_mask_reads_as_the_kernel_writes_it(cpus: set[int]) -> None:
    words = veth._mask(sorted(cpus)).split(",")
    assert all(len(word) == 8 for word in words[1:])
    assert int("".join(words), 16) == sum(1 << cpu for cpu in cpus)


def test_settings_are_raised_and_never_lowered() -> None:
    assert veth._asked("= = +4194304", "4096 16384 8388608") == "4096 16384 8388608"
    assert veth._asked("= = +4194304", "4096 16384 65536") == "4096 16384 4194304"
    assert veth._asked("1024 65535", "32768 60999") == "1024 65535"
    assert veth._asked("+10", None) is None


@pytest.mark.root
def test_only_namespaces_of_dead_labs_are_leftovers() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    own = run_folder.start_ticks(os.getpid())
    assert own is not None and run_folder.start_ticks(ended.pid) is None
    names = {
        f"iodyno-{ended.pid}-12345-client": True,
        f"iodyno-{os.getpid()}-{own + 1}-client": True,
        f"iodyno-{os.getpid()}-{own}-zzz": False,
        "iodynox-1-1-client": False,
    }
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        # Another lab of this machine may have been the first to remove them.
        assert set(veth.remove_leftovers()) & set(names) <= {name for name, old in names.items() if old}
        assert all((Path("/run/netns") / name).exists() != old for name, old in names.items())
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.mark.root
def test_a_path_moves_receiving_to_its_own_cpus_and_reads_back_what_it_asked() -> None:
    async def scenario() -> None:
        path = await veth.VethPath.make({"client": (0,), "server": (0,)}, mtu=9000)
        try:
            for end in path.ends.values():
                facts = end.facts()
                assert facts["receive_processing"] == "its own CPUs"
                asked = facts["settings"]["net.ipv4.ip_local_port_range"]
                assert asked == {"asked": "1024 65535", "obtained": "1024 65535"}
                shown = subprocess.run(
                    ["ip", "-n", end.namespace, "link", "show", "veth0"],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                assert "mtu 9000" in shown.stdout and "state UP" in shown.stdout
        finally:
            path.remove()
        path.remove()
        assert not [end for end in path.ends.values() if (Path("/run/netns") / end.namespace).exists()]

    asyncio.run(scenario())
