"""Hosts of engines that people have, for real: containers of nothing but the agent, nodes of Slurm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engines
import pytest
from places import done_or_void, iodyno

from iodyno.session.locate import find_agent

pytestmark = pytest.mark.root

FILE = """
name: engines
hosts:
  client: {{{client}}}
  server: {{{server}}}
workload: {{kind: stream, sender: client, receiver: server, think: 1ms}}
factors: {{connections: [1]}}
design: {{replicates: 1}}
windows: {{warm_up: 0s, measured: 200ms, interval: 100ms}}
limits: {{background_window: 100ms, background: 100%}}
outcomes: [goodput_bits_per_s, client.cpu_ns_per_kib]
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    engines.skip_without(engines.NO_SLURM)
    with engines.slurm(tmp_path_factory.mktemp("slurm") / "slurm") as names:
        yield names


def of_page(access: str, changes: dict[str, str]) -> str:
    """The keys of the page's example for an access, with the names that are here."""
    page = Path(__file__).parents[2] / "docs/guides/many-hosts.md"
    (keys,) = [found for found in _EXAMPLE.findall(page.read_text()) if access in found]
    for shown, here in changes.items():
        assert shown in keys
        keys = keys.replace(shown, here)
    return str(keys)


_EXAMPLE = re.compile(r"^client: \{(.*)\}", re.MULTILINE)


def checked(folder: Path, client: str, server: str) -> list[dict[str, Any]]:
    (folder / "engines.yaml").write_text(FILE.format(client=client, server=server))
    told = iodyno("hosts", "engines.yaml", "--json", cwd=folder)
    assert told.returncode == 0, told.stderr
    hosts: list[dict[str, Any]] = json.loads(told.stdout)["hosts"]
    return hosts


def test_containers_of_nothing_but_the_agent_carry_a_load_over_their_network(tmp_path: Path) -> None:
    engines.skip_without(engines.NO_PODMAN)
    with engines.containers(tmp_path / "image", 2, find_agent().path) as (names, _):
        client, server = (of_page("podman", {"web": name}) for name in names)
        hosts = checked(tmp_path, client, server)
        assert [host["facts"]["container"] for host in hosts] == ["podman", "podman"]
        own = [host["address"] for host in hosts]
        assert own == [host["facts"]["addresses"][0].partition("/")[0] for host in hosts] and own[0] != own[1]
        ran = iodyno("run", "engines.yaml", "--into", "c", cwd=tmp_path)
    assert done_or_void(ran), ran.stderr
    # What the container is not allowed is said, and the cost is of a tier that needs no right.
    assert "no sensor.cpu_exact: not allowed to load programs" in ran.stderr
    (campaign,) = (tmp_path / "c").glob("*/campaign.json")
    told = json.loads(campaign.read_text())
    assert [told["hosts"][name]["address"] for name in ("client", "server")] == own
    assert "tier" in ran.stdout


def test_nodes_of_slurm_tell_their_job_and_end_it(nodes: list[str], tmp_path: Path) -> None:
    client = of_page("srun", {"n[001-100]": "n[1-1]"})
    server = f"access: srun, node: n2, agent: {find_agent().path}"
    hosts = checked(tmp_path, f"{client}, agent: {find_agent().path}", server)
    assert [host["facts"]["node"] for host in hosts] == nodes
    first, second = (int(host["facts"]["job"]) for host in hosts)
    assert first != second, "without a job of the lab's each has its own"


def test_a_node_that_is_not_there_is_named(nodes: list[str], tmp_path: Path) -> None:
    program = f"agent: {find_agent().path}"
    file = FILE.format(
        client=f"access: srun, node: n9, {program}", server=f"access: srun, node: n1, {program}"
    )
    (tmp_path / "engines.yaml").write_text(file)
    refused = iodyno("hosts", "engines.yaml", cwd=tmp_path)
    assert refused.returncode == 3
    assert "host client: the host cannot be reached by `srun" in refused.stderr and "n9" in refused.stderr
