"""Many hosts in few words: inventories of Ansible, ssh_config, node lists, and what is said about wrong ones."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iodyno.core.access import ACCESSES
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.formats.ansible_inventory import InventoryError, parse_ini, parse_yaml
from iodyno.formats.experiment_file import parse_experiment
from iodyno.formats.name_ranges import ansible_pattern, node_list

INI = """\
# of the rack
lone ansible_host=192.0.2.9

[clients]
web[01:03].example.org ansible_port=2222
10.0.0.7:2200 ansible_user="me"   ; not a comment there
END_OF_LINE
[clients:vars]
ansible_user=root
ansible_ssh_private_key_file=~/.ssh/key

[servers]
db-[a:c]

[load:children]
clients
servers

[load:vars]
ansible_user = load
""".replace("   ; not a comment there\nEND_OF_LINE", "   # a comment")
YAML = """\
all:
  vars: {ansible_user: root, motd: "{{ lookup('file', 'x') }}"}
  children:
    load:
      children:
        clients:
          hosts:
            web[1:2]: {ansible_port: 22}
            far: {ansible_host: "fd19::2", ansible_user: me}
        servers:
          hosts: {db: }
          vars: {ansible_user: ${DB_USER}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text(INI)
    (tmp_path / "hosts.yaml").write_text(YAML.replace("${DB_USER}", "db"))
    (tmp_path / "ssh").write_text("Host web-1 web-2 *.lan\n  User me\nHost web-* !web-9\nHost db\n")
    return tmp_path


def read(keys: str, folder: Path) -> Experiment:
    text = f"name: x\nhosts: {{client: {{{keys}}}, server: {{access: local}}}}\n"
    return parse_experiment(
        f"{text}workload: {{kind: stream, sender: client, receiver: server}}\n", folder=folder
    )


def reached(keys: str, folder: Path, key: str = "to") -> list[Any]:
    return [host.options[key] for name, host in read(keys, folder).hosts.items() if name != "server"]


def test_a_group_of_an_inventory_is_as_many_hosts_reached_as_it_says(folder: Path) -> None:
    hosts = read("inventory: hosts.ini, group: clients, count: 2", folder).hosts
    assert list(hosts) == ["client-1", "client-2", "server"]
    assert hosts["client-2"].access == "ssh"
    key = {"port": 2222, "identity_file": "~/.ssh/key"}
    assert hosts["client-2"].options == {"to": "root@web02.example.org", **key}
    assert reached("inventory: hosts.ini, group: clients", folder)[-1] == "me@10.0.0.7"
    assert reached("inventory: hosts.ini, group: servers", folder) == [f"load@db-{one}" for one in "abc"]
    assert len(reached("inventory: hosts.ini, group: load", folder)) == 7
    assert reached('inventory: hosts.ini, group: "web0[12]*"', folder)[1:] == ["root@web02.example.org"]
    assert reached("inventory: hosts.yaml, group: load", folder) == [
        *("root@web1", "root@web2", "me@fd19::2", "db@db"),
    ]


def test_names_of_ssh_config_of_slurm_and_of_containers(folder: Path) -> None:
    assert reached('inventory: ssh, group: "web-*"', folder) == ["web-1", "web-2"]
    assert reached('inventory: ssh, group: "web-*"', folder, "config_file") == [str(folder / "ssh")] * 2
    nodes = read('access: srun, inventory: "n[001-003,7]", partition: all', folder).hosts
    assert [host.options.get("node") for host in nodes.values()] == ["n001", "n002", "n003", "n7", None]
    assert reached("access: podman, inventory: hosts.ini, group: servers", folder, "container") == [
        f"db-{one}" for one in "abc"
    ]


def test_a_campaign_keeps_the_hosts_and_not_the_inventory(folder: Path) -> None:
    first = read("inventory: hosts.ini, group: clients, cpus: [0]", folder)
    (folder / "hosts.ini").unlink()
    again = parse_experiment(first.text)
    assert (again.hosts, again.text) == (first.hosts, first.text)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            "inventory: hosts.ini, group: clinets",
            "hosts.ini:1: no host is in 'clinets'; did you mean 'clients'?",
        ),
        ("inventory: hosts.ini, count: 9", "invalid value 9 for hosts.client.count: the inventory has 8"),
        ("inventory: none.ini", "none.ini cannot be read: No such file"),
        ("inventory: ~nobody-has-this/hosts", "~nobody-has-this/hosts cannot be read: No such file"),
        ("inventory: hosts.ini, to: a", "to: cannot be used with inventory"),
        ("access: ssh, to: a, group: clients", "group: can only be used with inventory"),
        ('inventory: "n[3-1]"', "expected the lower end first"),
        ('inventory: "n[1-99999999]"', "more than 10000 names"),
        ("inventory: [{to: a, colour: red}]", "unknown key 'colour'"),
        ("access: podman, inventory: ssh", "ssh is an ssh_config: expected access ssh"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(folder: Path, keys: str, said: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        read(keys, folder)
    assert said in str(refused.value) and "experiment.yaml:2" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[a]\nb c\n", 2, "invalid value 'c': expected VARIABLE=VALUE"),
        ("[a\n", 1, "expected [GROUP]"),
        ("[a:b]\n", 1, "expected [GROUP]"),
        ("[a]\n\nb[1:0]\n", 3, "lower end first"),
        ("[a]\nb ansible_port=0\n", 2, "expected a port of 1 to 65535"),
        ("[a]\nb\n[a:vars]\nansible_user={{ x }}\n", 4, "not a template"),
        (
            "[a]\nb ansible_ssh_common_args='-o ProxyCommand=x'\n",
            2,
            "is not read: expected it in ~/.ssh/config",
        ),
        ("[a]\nb ansible_connection=winrm\n", 2, "expected ssh"),
        ("[a:children]\nb\n", 2, "unknown group 'b'"),
        ("[a:children]\nb\n[b:children]\na\n[c]\nd\n", 4, "is its own child"),
        ("[a]\nb 'x\n", 2, "no closing quotation"),
    ],
)
def test_a_wrong_inventory_is_refused_at_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(InventoryError) as refused:
        parse_ini(text).of("all")
    assert refused.value.mistake.line == line and said in str(refused.value), refused.value


@given(st.text(alphabet="ab[]:=-0129,.#;'\" \n\t\\{}@*!&", max_size=80))
def test_any_text_is_read_or_refused_by_one_error(text: str) -> None:
    for parse in (parse_ini, parse_yaml):
        with contextlib.suppress(InventoryError):
            assert all(host.keys["to"] for host in parse(text).of("all"))
    for expand in (node_list, ansible_pattern):
        with contextlib.suppress(ValueError):
            expand(text)


@pytest.mark.parametrize(
    "written", ["r[1-2]" + "n" * 40 + "1-4]", "[1]" * 2000 + "[", "n[1-9999]," * 500 + "m"]
)
def test_a_long_wrong_list_is_refused_as_fast_as_a_short_one(written: str) -> None:
    for expand in (node_list, ansible_pattern):
        with pytest.raises(ValueError, match="invalid value"):
            expand(written)


def test_many_ranges_of_one_name_are_read() -> None:
    assert node_list("[1]" * 2000) == ["1" * 2000]
    assert ansible_pattern("[1:1]" * 2000) == ["1" * 2000]


@pytest.mark.skipif(
    shutil.which("ansible-inventory") is None, reason="needs ansible-inventory (pip install ansible-core)"
)
@pytest.mark.parametrize("name", ["hosts.ini", "hosts.yaml"])
def test_ansible_reads_the_same(folder: Path, name: str) -> None:
    shown = subprocess.run(
        ["ansible-inventory", "-i", folder / name, "--list"], capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(shown.stdout)
    of = told["_meta"]["hostvars"]
    parse = parse_ini if name.endswith("ini") else parse_yaml
    for group in ("clients", "servers"):
        ours = parse((folder / name).read_text()).of(group)
        assert [host.name for host in ours] == told[group]["hosts"]
        for host in ours:
            theirs = of.get(host.name, {})
            target = f"{theirs['ansible_user']}@{theirs.get('ansible_host', host.name)}"
            assert (host.keys["to"], host.keys.get("port")) == (target, theirs.get("ansible_port"))


@pytest.mark.parametrize(
    ("access", "options", "command"),
    [
        ("podman", {}, "podman exec -i client-1"),
        ("docker", {"container": "web", "user": "1000"}, "docker exec -i --user=1000 web"),
        (
            "kubectl",
            {"pod": "load-7", "namespace": "lab", "container": "agent", "context": "far"},
            "kubectl --context=far --namespace=lab exec -i --quiet load-7 --container=agent --",
        ),
        ("kubectl", {}, "kubectl exec -i --quiet client-1 --"),
        (
            "srun",
            {"node": "n2", "partition": "all", "job": 41, "cpus_per_task": 4},
            "srun --nodes=1 --ntasks=1 --nodelist=n2 --overlap --unbuffered --quiet --partition=all --jobid=41"
            " --cpus-per-task=4 --immediate=15",
        ),
        ("incus", {"instance": "far:web", "project": "p"}, "incus exec -T --project=p far:web --"),
        ("lxc", {}, "lxc exec -T client-1 --"),
    ],
)
def test_the_command_of_an_engine(access: str, options: dict[str, Any], command: str) -> None:
    assert " ".join(ACCESSES[access].words("client-1", options)) == command


def test_every_example_of_the_page_is_understood(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs/guides/many-hosts.md"
    examples = re.findall(r"^client: \{(.*)\}", page.read_text(), re.MULTILINE)
    monkeypatch.setenv("HOME", str(folder))
    (folder / ".ssh").mkdir()
    (folder / ".ssh/config").write_text("Host web-1 web-2\n")
    counts = [len(read(keys.replace("count: 100", "count: 3"), folder).hosts) - 1 for keys in examples]
    assert counts == [3, 2, 100, 10, 1, 1]
