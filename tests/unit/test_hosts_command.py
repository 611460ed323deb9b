"""`iodyno hosts`: all hosts side by side; a dead one is named, and is not waited for; logins are bounded."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from places import PROGRAM, iodyno

from iodyno.core.experiment import HostSpec
from iodyno.hosts import logins
from iodyno.session.host_checks import check_hosts

FILE = """
name: many
hosts:
  client: {{access: simulated, count: 3}}
  dead: {{access: ssh, inventory: [{{to: "127.0.0.1:1"}}], config_file: /dev/null}}
  server: {{access: {server}}}
workload: {{kind: stream, sender: [client, dead], receiver: server}}
"""


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs ssh (Debian: openssh-client)")
def test_ready_hosts_stand_side_by_side_and_a_dead_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text(FILE.format(server="simulated"))
    shown = iodyno("hosts", "many.yaml", cwd=tmp_path)
    assert shown.returncode == 3
    title, head, *rows = shown.stdout.splitlines()
    assert title == "4 of 5 hosts are ready" and head.split()[:2] == ["Host", "Reached"]
    assert [row.split()[0] for row in rows[:4]] == ["client-1", "client-2", "client-3", "server"]
    assert all("±" in row for row in rows[:4])
    dead_row = next(row for row in rows if row.startswith("dead"))
    assert "127.0.0.1:1" in dead_row and "Connection refused" in shown.stdout
    assert "1 of 5 hosts are not ready" in shown.stderr and "ssh -F /dev/null -p 1" in shown.stderr
    told = json.loads(iodyno("hosts", "many.yaml", "--json", cwd=tmp_path).stdout)
    assert not told["ok"] and [host["ready"] for host in told["hosts"]] == [True, True, True, False, True]
    first, dead = told["hosts"][0], told["hosts"][3]
    assert first["facts"]["kernel"] == "simulated" and first["clock"]["error_ns"] >= 0
    assert "Connection refused" in dead["problem"]["what"] and dead["clock"] is None


def test_a_host_that_says_nothing_is_not_waited_for_beyond_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IODYNO_EXEC", "sh")
    mute = {"mute": HostSpec("mute", "exec", {"command": ("sh", "-c", "exec sleep 60"), "agent": "0"})}
    hosts = {**{f"c-{n}": HostSpec(f"c-{n}", "simulated") for n in range(10)}, **mute}
    checks = asyncio.run(check_hosts(hosts, PROGRAM, 2.0))
    assert [check.name for check in checks if check.problem is not None] == ["mute"]
    assert "no answer within 2 s" in str(checks[-1].problem)


def test_a_command_of_a_file_runs_where_its_program_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    file = FILE.format(server=f'exec, command: [touch, "{mark}"]').replace("[client, dead]", "client")
    (tmp_path / "e.yaml").write_text(file.replace("  dead:", "  #"))
    monkeypatch.delenv("IODYNO_EXEC", raising=False)
    refused = iodyno("hosts", "e.yaml", cwd=tmp_path)
    assert refused.returncode == 3 and not mark.exists()
    assert "runs `touch` on this machine" in refused.stderr and "IODYNO_EXEC=touch" in refused.stderr


def test_a_server_lets_some_in_at_a_time_and_holds_no_other_up() -> None:
    inside: dict[str, int] = {}
    most: dict[str, int] = {}

    async def log_in(server: str) -> None:
        async with logins.turn(server):
            inside[server] = inside.get(server, 0) + 1
            most[server] = max(most.get(server, 0), inside[server])
            await asyncio.sleep(0.01)
            inside[server] -= 1

    async def scenario() -> None:
        await asyncio.gather(*(log_in(server) for server in ["a"] * 40 + ["b"] * 4 + [""] * 60))

    asyncio.run(scenario())
    assert most["a"] == logins.AT_A_SERVER and most["b"] == 4
    assert logins.AT_A_SERVER < most[""] <= logins.IN_ALL
