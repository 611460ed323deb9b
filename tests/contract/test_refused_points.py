"""What agents would refuse is refused by `iodyno check`, at the place in the file that says it."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from typing import Any

import pytest

from iodyno import designs
from iodyno.campaign import refused_points
from iodyno.core.errors import ExperimentError
from iodyno.core.submission import CLIENTS, SERVERS
from iodyno.core.workload import CONNECT_REQUEST_RESPONSE, REQUEST_RESPONSE, STREAM, Workload
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.formats.mistakes import MistakesError
from iodyno.hosts.local import LocalAccess
from iodyno.session import refusals
from iodyno.session.locate import find_agent

KINDS = (STREAM, REQUEST_RESPONSE, CONNECT_REQUEST_RESPONSE)
SOME: dict[str, tuple[Any, ...]] = {
    "transport": ("tcp", "udp", "unix", "vsock", "tls"),
    "engine": ("threads", "epoll", "round_robin", "io_uring"),
    "syscalls": ("read_write", "message", "batch", "zero_copy", "sendfile", "splice", "segments"),
    "client_engine": tuple(CLIENTS),
    "server_engine": tuple(SERVERS),
    "rate": ("100/s",),
    "burst": (4,),
    "sizes": ("uniform(1, 100)", "exponential(1KiB)"),
    "response_size": ("1B", "64KiB"),
    "direction": ("reverse", "both"),
    "congestion_control": ("reno",),
    "mss": (500,),
    "receive": ("discard",),
    "receive_low_water": ("4KiB",),
    "queue_depth": (4,),
    "think": ("1ms",),
    "reader_think": ("1ms",),
    **dict.fromkeys(("multiplexed", "cork", "serialised", "busy_wait", "tls_resumption"), (True,)),
}


def drawn(source: random.Random) -> dict[str, Any]:
    kind = source.choice(KINDS)
    load: dict[str, Any] = {"kind": kind.name, "sender": "client", "receiver": "server", "connections": 2}
    for name in sorted(SOME.keys() & names_of(kind)):
        if source.random() < (0.6 if name in ("transport", "engine") else 0.12):
            load[name] = source.choice(SOME[name])
    access = source.choice(("netns", "local"))
    return {"name": "drawn", "hosts": hosts_by(access), "workload": load}


def hosts_by(access: str) -> dict[str, Any]:
    return {name: {"access": access} for name in ("client", "server")}


def names_of(kind: Workload) -> set[str]:
    return {parameter.name for parameter in kind.parameters}


@pytest.mark.parametrize("seed", [0, 3])
def test_what_is_in_the_way_is_named_where_the_file_says_it(seed: int) -> None:
    source, refused, taken = random.Random(seed), 0, 0
    for _ in range(30):
        keys = drawn(source)
        try:
            experiment = parse_experiment(experiment_text(keys), file="FILE", environment={})
        except ExperimentError:
            continue
        try:
            refused_points.refuse(experiment, designs.plan(experiment), "FILE")
        except MistakesError as error:
            refused += 1
            for mistake in error.mistakes:
                section, _, name = mistake.path.partition(".")
                assert section == "workload" and {name} <= set(keys["workload"]) | {"size", "engine"}, error
                assert (
                    "expected " in mistake.text or "; leave " in mistake.text
                ) and "None" not in mistake.text
        else:
            taken += 1
    assert refused and taken


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (
            {"transport": "tls", "syscalls": "sendfile"},
            "workload.syscalls: the load cannot be made with sendfile",
        ),
        ({"engine": "io_uring", "cork": True}, "workload.cork: "),
        ({"transport": "udp", "size": "1KiB", "mss": 500}, "workload.mss: "),
        ({"transport": "unix", "receive": "discard"}, "workload.receive: "),
        ({"engine": "round_robin", "direction": "both"}, "workload.direction: "),
    ],
)
def test_a_stream_that_no_agent_makes_is_refused_by_its_key(load: dict[str, Any], said: str) -> None:
    workload = {"kind": "stream", "sender": "client", "receiver": "server", "connections": 2, **load}
    text = experiment_text({"name": "x", "hosts": hosts_by("netns"), "workload": workload})
    experiment = parse_experiment(text, file="FILE", environment={})
    with pytest.raises(ExperimentError) as raised:
        refused_points.refuse(experiment, designs.plan(experiment), "FILE")
    assert said in str(raised.value)


def test_blocks_with_more_checks_than_an_agent_keeps_are_refused_before_the_target_is_looked_at() -> None:
    def planned(working_set: str) -> None:
        checked = {
            "target": "/nowhere",
            "working_set": working_set,
            "block": "4KiB",
            "read": "0%",
            "verify": "write",
        }
        keys = {
            "name": "x",
            "hosts": {"one": {"access": "local"}},
            "workload": {"kind": "disk", "hosts": ["one"], **checked},
        }
        experiment = parse_experiment(experiment_text(keys), file="FILE", environment={})
        refused_points.refuse(experiment, designs.plan(experiment), "FILE")

    planned("64GiB")
    said = r"invalid value 'write' for workload\.verify: 17039360 units .*; expected a smaller region"
    with pytest.raises(ExperimentError, match=said):
        planned("65GiB")


def test_a_host_is_asked_what_its_own_kernel_lacks() -> None:
    def job(**load: Any) -> dict[str, Any]:
        workload = {"kind": "stream", "sender": "client", "receiver": "server", "connections": 2, **load}
        text = experiment_text({"name": "x", "hosts": hosts_by("netns"), "workload": workload})
        experiment = parse_experiment(text, file="FILE", environment={})
        end, *_ = refused_points.ends_of(experiment, designs.plan(experiment))
        return end.job()

    jobs = [job(), job(transport="vsock"), job(engine="io_uring", cork=True)]
    program = find_agent()
    facts = json.loads(subprocess.run([program.path, "facts"], capture_output=True, check=True).stdout)
    lacks = [each["name"] for each in facts["capabilities"] if not each["available"]]
    here = asyncio.run(refusals.there(LocalAccess("client", ()), program, jobs))
    assert [each and each.key for each in here] == [
        None,
        "transport" if "transport.vsock" in lacks else None,
        "cork",
    ]
    assert [each and each.key for each in refusals.anywhere(jobs)] == [None, None, "cork"]
