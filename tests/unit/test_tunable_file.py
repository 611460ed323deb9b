"""Tunables in an experiment file: what may be written, what it means, what is said about mistakes."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest

from iodyno import designs
from iodyno.core.errors import ExperimentError
from iodyno.core.factor import parameter_of
from iodyno.core.tunable import TUNABLES, asked_of
from iodyno.core.workload import Level
from iodyno.formats.experiment_file import experiment_schema, parse_experiment
from iodyno.formats.yaml_document import read as read_yaml
from iodyno.hosts.guard import Seen
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.host import refused
from iodyno.hosts.tunables.settings_table import tables
from iodyno.hosts.tunables.tunable import Place, State, cpus_of, mask_of

BASE = """
name: tunables
hosts: {client: {access: local}, server: {access: local}}
workload: {kind: stream, sender: client, receiver: server}
"""


def test_every_tunable_has_a_description_and_a_way_to_be_turned() -> None:
    assert set(TURNED) == set(TUNABLES)
    for name, tunable in TURNED.items():
        assert tunable.name == name


def test_tunables_are_settings_and_factors_of_each_host() -> None:
    asked = parse_experiment(
        BASE
        + """
tunables: {all: {gro: on}, server: {blanking: 50us, rps: off}}
factors:
  all.mtu: [1500, 9000]
  client.gso_max_size: {levels: [4KiB, 64KiB], together: {server.tso: [off, on]}}
  variant: {levels: [one, two], together: {all.sg: [on, off], connections: [1, 8]}}
"""
    )
    design = designs.plan(asked)
    assert len(design.points) == 8
    settings = asked.settings(design.points[-1].levels)
    assert asked_of(settings, ("client", "server")) == {
        "client": {"gro": True, "mtu": 9000, "gso_max_size": 65536, "sg": False},
        "server": {"gro": True, "mtu": 9000, "tso": True, "sg": False, "blanking": 50_000, "rps": "off"},
    }
    assert settings["connections"] == 8
    shown = parameter_of(asked.workload.workload, "client.gso_max_size")
    assert shown is not None and shown.show(65536) == "64KiB"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tunables: {sever: {mtu: 9000}}", "did you mean 'server'?"),
        ("tunables: {server: {mtuu: 9000}}", "did you mean 'mtu'?"),
        ("tunables: {server: {mtu: 9}}", "invalid value 9 for tunables.server.mtu: expected 68 to 65536"),
        ("tunables: {server: {rps: upwards}}", "expected one of off, own, others, all"),
        ("tunables: {server: {blanking: 50}}", "unit is missing"),
        ("tunables: {server: 9000}", "expected tunables with one level each"),
        ("tunables: on", "expected hosts, or all, with their tunables"),
        ("factors: {srver.mtu: [1500]}", "did you mean 'server'?"),
        ("factors: {server.mtuu: [1500]}", "did you mean 'mtu'?"),
        ("factors: {variant: [one, two]}", "together with what each of them stands for"),
        (
            "tunables: {all: {mtu: 9000}}\nfactors: {server.mtu: [1500]}",
            "tunables: all.mtu sets it already",
        ),
        (
            "tunables: {all: {mtu: 9000}, server: {mtu: 1500}}",
            "tunables: all.mtu sets it already",
        ),
        (
            "factors: {server.mtu: [1500], all.mtu: [9000]}",
            "the factor server.mtu sets it already",
        ),
    ],
)
def test_mistakes_are_named_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(ExperimentError) as wrong:
        parse_experiment(f"{BASE}\n{text}\n")
    assert said in str(wrong.value)


def test_a_host_may_not_be_called_all() -> None:
    with pytest.raises(ExperimentError, match="it means every host"):
        parse_experiment(BASE.replace("client", "all"))


def test_the_published_schema_takes_what_the_reader_takes() -> None:
    good = """
tunables: {all: {gro: on}, server: {blanking: 50us}}
factors: {all.mtu: [1500, 9000], variant: {levels: [a, b], together: {all.tso: [on, off]}}}
"""
    for text, fits in (
        (good, True),
        ("factors: {all.mtuu: [1]}", False),
        ("factors: {variant: {levels: [a]}}", False),
    ):
        plain: Any = read_yaml(BASE + text, {})[0].plain()
        validator = jsonschema.Draft202012Validator(experiment_schema())
        assert validator.is_valid(plain) == fits, text


# ---- how tunables read what a host says ----

PLACE = Place("eth0", cpus=(1,), machine_cpus=(0, 1), initial_namespace=True)


def test_an_offload_is_on_when_it_is_active_and_goes_back_to_what_was_requested() -> None:
    said = (
        '[{"ifname": "eth0",'
        ' "tx-tcp-segmentation": {"active": false, "fixed": false, "requested": true},'
        ' "tx-tcp6-segmentation": {"active": true, "fixed": true, "requested": true},'
        ' "scatter-gather": {"active": true, "fixed": null, "requested": null},'
        ' "generic-receive-offload": {"active": true, "fixed": true, "requested": true}}]'
    )
    tso = TURNED["tso"].state(PLACE, [Seen(said)])
    assert tso.level is False and tso.before == {"tx-tcp-segmentation": True}
    gro = TURNED["gro"].state(PLACE, [Seen(said)])
    assert gro.level is None and "fixed at on" in (gro.unsupported or "")
    assert "no gso" not in str(TURNED["gso"].state(PLACE, [Seen(said)]))
    broken = TURNED["tso"].state(PLACE, [Seen(None, "there is no command `ethtool` on this host")])
    assert "no command `ethtool`" in (broken.unsupported or "")


def test_tables_of_ethtool_are_read_with_what_is_missing_left_out() -> None:
    text = (
        "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nCombined:\t8\n"
        "Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nCombined:\t4\n"
    )
    assert tables(text) == ({"Combined": 8}, {"Combined": 4})
    queues = TURNED["queues"].state(PLACE, [Seen(text)])
    assert (queues.level, queues.high, queues.before[0]) == (4, 8, {"combined": 4})
    assert TURNED["queues"].undo(PLACE, queues) == [{"run": ["ethtool", "-L", "eth0", "combined", "4"]}]
    # The masks that were there come back after it, those of queues and interrupts alone.
    seen = Seen(
        "/sys/class/net/eth0/queues/rx-0/rps_cpus:0,3\n/proc/irq/9/smp_affinity:f\n/proc/7/comm:irqbalance\n"
    )
    with_masks = TURNED["queues"].state(PLACE, [Seen(text), seen])
    masks = TURNED["queues"].undo(PLACE, with_masks)[1]["run"][-1]
    assert "rx-0/rps_cpus:0,3 /proc/irq/9/smp_affinity:f;" in masks and "irqbalance" not in masks
    assert "expected 1 to 8 on this host" in (refused("queues", queues, 16) or "")
    assert "the device has none of TX" in (
        TURNED["transmit_queues"].state(PLACE, [Seen(text)]).unsupported or ""
    )
    apart = text.replace("TX:\t\tn/a", "TX:\t\t4").replace("RX:\t\tn/a", "RX:\t\t4")
    transmit = TURNED["transmit_queues"].state(PLACE, [Seen(apart)])
    assert (transmit.level, transmit.high, transmit.before[0]) == (4, 4, {"tx": 4})
    assert TURNED["transmit_queues"].steps(PLACE, transmit, 2) == [
        {"run": ["ethtool", "-L", "eth0", "tx", "2"]}
    ]


CHANNELS = """Channel parameters for eth0:
Pre-set maximums:
RX:		{0}
TX:		{0}
Other:		1
Combined:	{1}
Current hardware settings:
RX:		{2}
TX:		{2}
Other:		1
Combined:	{3}
"""


@pytest.mark.parametrize(
    ("driver", "channels", "level", "words"),
    [
        ("ice", (16, 16, 0, 16), 16, ["combined", "8"]),
        ("bnxt_en, combined", (37, 74, 0, 8), 8, ["combined", "8"]),
        ("bnxt_en, apart", (37, 74, 16, 0), 16, ["rx", "8", "tx", "8"]),
        ("mlx5_core", ("n/a", 63, "n/a", 20), 20, ["combined", "8"]),
        ("ena", ("n/a", 32, "n/a", 32), 32, ["combined", "8"]),
        ("i40e", (0, 64, 0, 64), 64, ["combined", "8"]),
        ("veth", (16, 0, 1, 0), 1, ["rx", "8", "tx", "8"]),
    ],
)
def test_queues_are_set_in_the_kind_that_the_driver_has_in_use(
    driver: str, channels: tuple[object, ...], level: int, words: list[str]
) -> None:
    queues = TURNED["queues"]
    state = queues.state(PLACE, [Seen(CHANNELS.format(*channels))])
    assert (driver, state.level) == (driver, level)
    assert queues.steps(PLACE, state, 8) == [{"run": ["ethtool", "-L", "eth0", *words]}]
    back = [str(level) if word == "8" else word for word in words]
    assert queues.undo(PLACE, state) == [{"run": ["ethtool", "-L", "eth0", *back]}]


TABLE = """RX flow hash indirection table for eth0 with 8 RX ring(s):
    0:      0     1     2     3     4     5     6     7
    8:      0     1     2     3     4     5     6     7
RSS hash key:
6d:5a:56:da:25:5b:0e:c2
RSS hash function:
    toeplitz: on
"""


def test_a_table_of_receive_hashes_goes_round_or_is_left_alone() -> None:
    tunable = TURNED["rss_queues"]
    own = tunable.state(PLACE, [Seen(TABLE)])
    assert (own.level, own.high) == (8, 8)
    assert tunable.steps(PLACE, own, 4) == [{"run": ["ethtool", "-X", "eth0", "equal", "4"]}]
    assert tunable.undo(PLACE, own) == [{"run": ["ethtool", "-X", "eth0", "default"]}]
    fewer = tunable.state(PLACE, [Seen(TABLE.replace("4     5     6     7", "0     1     2     3"))])
    assert fewer.level == 4
    assert tunable.undo(PLACE, fewer) == [{"run": ["ethtool", "-X", "eth0", "equal", "4"]}]
    weighted = tunable.state(PLACE, [Seen(TABLE.replace("    8:      0     1", "    8:      1     1"))])
    assert "could not be brought back" in (weighted.unsupported or "")


FIELDS = """TCP over IPV4 flows use these fields for computing Hash flow key:
IP SA
IP DA
L4 bytes 0 & 1 [TCP/UDP src port]
L4 bytes 2 & 3 [TCP/UDP dst port]
"""
COALESCING = """Coalesce parameters for eth0:
Adaptive RX: on  TX: off
stats-block-usecs: n/a

rx-usecs: 50
rx-frames: n/a

tx-usecs: 8
"""
PAUSE = "Pause parameters for eth0:\nAutonegotiate:\ton\nRX:\t\toff\nTX:\t\ton\nRX negotiated: off\n"


@pytest.mark.parametrize(
    ("name", "text", "level", "other", "steps", "undo"),
    [
        ("rss_fields_tcp", FIELDS, "ports", "addresses", "-N eth0 rx-flow-hash tcp4 sd", "-N eth0 rx-flow-hash tcp4 sdfn"),
        ("rss_fields_udp", FIELDS[: FIELDS.index("IP DA")], "s", "ports", "-N eth0 rx-flow-hash udp4 sdfn",
         "-N eth0 rx-flow-hash udp4 s"),
        ("coalesce_adaptive", COALESCING, True, False, "-C eth0 adaptive-rx off adaptive-tx off",
         "-C eth0 adaptive-rx on adaptive-tx off"),
        ("coalesce_receive", COALESCING, 50_000, 8000, "-C eth0 rx-usecs 8 adaptive-rx off",
         "-C eth0 rx-usecs 50 adaptive-rx on"),
        ("coalesce_transmit", COALESCING, 8000, 16_000, "-C eth0 tx-usecs 16 adaptive-tx off",
         "-C eth0 tx-usecs 8 adaptive-tx off"),
        ("flow_control", PAUSE, True, False, "-A eth0 autoneg off rx off tx off", "-A eth0 autoneg on rx off tx on"),
    ],
)  # fmt: skip
def test_what_ethtool_shows_is_set_and_brought_back(
    name: str, text: str, level: object, other: Any, steps: str, undo: str
) -> None:
    state = TURNED[name].state(PLACE, [Seen(text)])
    assert state.level == level
    assert TURNED[name].steps(PLACE, state, other) == [{"run": ["ethtool", *steps.split()]}]
    assert TURNED[name].undo(PLACE, state) == [{"run": ["ethtool", *undo.split()]}]
    assert TURNED[name].state(PLACE, [Seen(None, "Operation not supported")]).unsupported


def test_interrupts_go_to_cpus_only_where_nobody_else_moves_them() -> None:
    tunable, place = TURNED["irq_affinity"], Place("eth0", cpus=(1,), machine_cpus=(0, 1, 2))
    text = "/proc/irq/37/smp_affinity:00000007\n/proc/irq/38/smp_affinity:00000007\n"
    state = tunable.state(place, [Seen(text)])
    assert state.level == "all"
    written = [step["write"] for step in tunable.steps(place, state, "spread")]
    assert [(each["file"], each["text"]) for each in written] == [
        ("/proc/irq/37/smp_affinity", "00000001"),
        ("/proc/irq/38/smp_affinity", "00000002"),
    ]
    assert [step["write"]["text"] for step in tunable.undo(place, state)] == ["00000007"] * 2
    balanced = tunable.state(place, [Seen(text + "/proc/812/comm:irqbalance\n")])
    with pytest.raises(ValueError, match="only while irqbalance is off"):
        tunable.steps(place, balanced, "own")


def test_values_of_the_machine_are_refused_in_a_namespace() -> None:
    inside = Place("veth0", initial_namespace=False)
    state = TURNED["busy_poll"].state(inside, [Seen(None, "No such file or directory")])
    assert "one value for the whole machine" in (state.unsupported or "")
    outside = TURNED["busy_poll"].state(PLACE, [Seen("50\n")])
    assert outside.level == 50_000
    assert TURNED["busy_poll"].steps(PLACE, outside, 25_000) == [
        {"write": {"file": "/proc/sys/net/core/busy_poll", "text": "25"}}
    ]
    with pytest.raises(ValueError, match="whole steps of 1000 ns"):
        TURNED["busy_poll"].steps(PLACE, outside, 25_500)


def test_one_number_of_several_keeps_the_others() -> None:
    tunable = TURNED["tcp_rmem_max"]
    state = tunable.state(PLACE, [Seen("4096\t131072\t6291456\n")])
    assert state.level == 6_291_456
    (step,) = tunable.steps(PLACE, state, 262_144)
    assert step["write"]["text"] == "4096 131072 262144"
    (undo,) = tunable.undo(PLACE, state)
    assert undo["write"]["text"].split() == ["4096", "131072", "6291456"]


def test_a_qdisc_that_could_not_be_brought_back_is_left_alone() -> None:
    tunable = TURNED["qdisc"]
    foreign = tunable.state(PLACE, [Seen('[{"kind": "fq", "handle": "8001:", "root": true, "options": {}}]')])
    assert "could not be brought back" in (foreign.unsupported or "")
    own = tunable.state(
        PLACE, [Seen('[{"kind": "pfifo", "handle": "8001:", "root": true, "options": {"limit": 20}}]')]
    )
    assert own.level == "pfifo-20"
    with pytest.raises(ValueError, match="expected default, pfifo-PACKETS, bfifo-BYTES"):
        tunable.steps(PLACE, State(before="default"), "fq")


def test_masks_of_many_cpus_are_written_as_sysfs_has_them() -> None:
    for cpus in ((), (0,), (1, 31), (32, 70)):
        assert cpus_of(mask_of(cpus)) == cpus
    assert mask_of((0, 32)) == "00000001,00000001"


def test_power_states_are_of_the_controller_and_queues_that_are_polled_of_its_driver() -> None:
    """Answers of a disk that goes into such states (QEMU's does not), and of drivers without polled queues."""
    queue = "/sys/block/nvme0n1/queue"
    place = Place("", queues=(queue,))
    power, polled = TURNED["power_latency"], TURNED["poll_queues"]
    (look,) = power.looks(place)
    assert look == {"file": f"{queue}/../device/power/pm_qos_latency_tolerance_us"}
    state = power.state(place, [Seen("100000\n")])
    assert state.level == 100_000_000
    assert power.steps(place, state, 0) == [{"write": {"file": look["file"], "text": "0"}}]
    assert power.undo(place, state) == [{"write": {"file": look["file"], "text": "100000"}}]
    for text in ("auto\n", "any\n"):
        assert power.state(place, [Seen(text)]).unsupported
    without = polled.state(place, [Seen("1\n"), Seen("0\n")]).unsupported
    assert without is not None and without.endswith(
        "boot with nvme.poll_queues=1, or load nvme with poll_queues=1"
    )
    assert polled.state(place, [Seen(None, "it is not there"), Seen("1\n")]).unsupported
    reset = {"write": {"file": f"{queue}/../device/reset_controller", "text": "1"}}
    assert polled.undo(place, polled.state(place, [Seen("3\n"), Seen("1\n")])) == [
        {"write": {"file": "/sys/module/nvme/parameters/poll_queues", "text": "3"}},
        reset,
    ]


SEVERAL = """
name: several
hosts: {client: {access: netns, count: 3}, server: {access: netns}}
workload: {kind: stream, sender: client, receiver: server}
tunables: {client: {tcp_sack: off}, client-2: {tcp_timestamps: off}}
factors: {client.tcp_autocorking: [on, off], all.tcp_congestion_control: [cubic]}
"""


def test_a_name_of_several_hosts_sets_a_tunable_on_each_of_them() -> None:
    experiment = parse_experiment(SEVERAL)
    settings = experiment.settings(designs.plan(experiment).points[1].levels)
    of_all: dict[str, Level] = {"tcp_congestion_control": "cubic"}
    several = of_all | {"tcp_sack": False, "tcp_autocorking": False}
    assert asked_of(settings, experiment.hosts) == {
        "client-1": several,
        "client-2": several | {"tcp_timestamps": False},
        "client-3": several,
        "server": of_all,
    }


@pytest.mark.parametrize(
    ("tunables", "factors", "said"),
    [
        ("client: {mtu: 9000}, client-2: {mtu: 1500}", "{}", "duplicate setting client-2.mtu"),
        ("client-2: {mtu: 1500}", "{client.mtu: [1500, 9000]}", "duplicate setting client-2.mtu"),
        ("server: {mtu: 1500}", "{clients.mtu: [1500, 9000]}", "client"),
    ],
)
def test_one_of_several_hosts_is_not_set_twice(tunables: str, factors: str, said: str) -> None:
    text = re.sub(
        "tunables: .*", f"tunables: {{{tunables}}}", re.sub("factors: .*", f"factors: {factors}", SEVERAL)
    )
    with pytest.raises(ExperimentError, match=said):
        parse_experiment(text)
