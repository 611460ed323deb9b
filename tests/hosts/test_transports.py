"""Streams, requests and connections over Unix sockets and TLS between real hosts of this machine: they carry what was
counted at both ends, cost what can be told, and leave nothing behind.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import one_guest
import pytest
from places import MS, Notes, experiment, namespaces_of, run

from iodyno.analysis.arrivals import messages_per_call
from iodyno.analysis.dataset import read_dataset
from iodyno.campaign import rendezvous
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import Windows
from iodyno.core.factor import Factor
from iodyno.hosts.access import Reached
from iodyno.session.accesses import OpenHosts

WINDOWS = Windows(50 * MS, 250 * MS, 30 * MS, 100 * MS)
SENSORS = ("cpu_times", "tcp_info")
pytestmark = pytest.mark.alone


def asked(access: str, transports: tuple[str, ...], kind: str = "stream", **settings: Any) -> Any:
    found = experiment(
        access, factors=(Factor("transport", transports),), windows=WINDOWS, connections=2, **settings
    )
    return replace(found, workload=replace(found.workload, kind=kind), sensors=SENSORS)


def left_behind() -> list[str]:
    """Unix sockets of trials, and their folders."""
    names = Path("/proc/net/unix").read_text(encoding="ascii", errors="replace").splitlines()
    folders = [path.name for path in Path(tempfile.gettempdir()).glob("iodyno-unix-*")]
    return [line.split()[-1] for line in names if "iodyno-" in line and "test" not in line] + folders


def carried(wanted: Any, tmp_path: Path) -> dict[str, Any]:
    """Runs it; the one trial of each transport."""
    before, notes = set(left_behind()), Notes()
    outcome = asyncio.run(run(wanted, tmp_path / "campaigns", notes=notes))
    assert not outcome.failed, [manifest.get("reason") for manifest in notes.manifests]
    assert not set(left_behind()) - before
    assert not namespaces_of(os.getpid())
    found = {str(trial.settings["transport"]): trial for trial in read_dataset(outcome.folder).trials}
    for transport, trial in found.items():
        results = {host.role: host.manifest["result"] for host in trial.hosts.values()}
        sent, received = results["send"], results["receive"]
        assert sent["connections_lost"] == received["connections_lost"] == 0, transport
        assert received["bytes"] > 0, transport
        # What counts is payload, at both ends, to the last byte.
        assert sent["bytes"] == received["bytes"], transport
    return found


@pytest.mark.root
def test_between_two_namespaces(tmp_path: Path) -> None:
    found = carried(asked("netns", ("tcp", "unix", "tls")), tmp_path)
    assert set(found) == {"tcp", "unix", "tls"}
    places = {
        transport: trial.hosts["server"].manifest["job"]["address"] for transport, trial in found.items()
    }
    # Two namespaces have no abstract name in common, and a file they have.
    assert places["unix"].startswith("/") and not Path(places["unix"]).exists()
    assert places["tls"].rpartition(":")[0] == places["tcp"].rpartition(":")[0]


@pytest.mark.root
def test_in_one_namespace_made_by_the_lab(tmp_path: Path) -> None:
    wanted = asked(
        "netns", ("unix", "tls"), "connect_request_response", path="loopback", size=300, response_size=900
    )
    found = carried(wanted, tmp_path)
    assert found["unix"].hosts["client"].manifest["job"]["address"] == "@"


def test_on_the_machine_itself(tmp_path: Path) -> None:
    carried(
        asked("local", ("unix", "tls"), "request_response", engine="epoll", size=64, response_size=20_000),
        tmp_path,
    )


def test_a_call_takes_a_batch_and_what_is_discarded_counts(tmp_path: Path) -> None:
    wanted = asked(
        "local", ("tcp",), engine="epoll", syscalls="batch", batch=32, size=1_000, receive="discard"
    )
    trial = carried(wanted, tmp_path)["tcp"]
    jobs = {name: host.manifest["job"] for name, host in trial.hosts.items()}
    assert all(job["discards"] and job["batch"] == 32 for job in jobs.values())
    assert messages_per_call(trial).value == 32
    # Who reads takes what there is.
    assert not trial.hosts["server"].batches


def test_what_cannot_discard_is_refused_with_what_can_before_the_first_trial(tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as raised:
        asyncio.run(run(asked("local", ("tcp", "unix"), receive="discard"), tmp_path / "campaigns"))
    assert "host server: receive: the load cannot be made with discarding" in raised.value.what
    assert "take tcp" in raised.value.advice


def test_resumed_sessions_and_every_cipher(tmp_path: Path) -> None:
    wanted = asked("local", ("tls",), "connect_request_response", tls_resumption=True, tls_cipher="chacha20")
    trial = carried(wanted, tmp_path)["tls"]
    job = trial.hosts["client"].manifest["job"]
    assert (job["tls_cipher"], job["tls_resumption"]) == ("chacha20", True)


def test_vsock_is_carried_or_refused_with_the_reason(tmp_path: Path) -> None:
    try:
        carried(asked("local", ("vsock",)), tmp_path)
    except PreflightError as refused:
        assert "vsock" in str(refused) and refused.advice


@pytest.mark.root
@pytest.mark.parametrize("kind", ["stream", "request_response", "connect_request_response"])
def test_vsock_is_carried_by_a_kernel_that_has_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a guest, whose kernel carries vsock within itself; this machine's often does not."""
    if why := one_guest.unavailable(one_guest.VSOCK):
        pytest.skip(f"no guest here: {why}")

    async def open_hosts(*_: object, **__: object) -> OpenHosts:
        return one_guest.two_hosts(("client", "server"), one_guest.VSOCK, tmp_path)

    monkeypatch.setattr("iodyno.campaign.testbed.accesses.open_hosts", open_hosts)
    trial = carried(asked("local", ("vsock",), kind, size=1_000), tmp_path)["vsock"]
    jobs = {name: host.manifest["job"] for name, host in trial.hosts.items()}
    assert {job["transport"] for job in jobs.values()} == {"vsock"}
    assert jobs["client"]["address"].startswith("1:") and jobs["client"]["address"] != "1:0"


def test_two_kernels_share_no_unix_socket() -> None:
    # As the lab sees a host elsewhere: one that is no namespace of this machine.
    reached = {"client": Reached(namespace=""), "server": Reached()}
    testbed: Any = SimpleNamespace(
        experiment=asked("local", ("unix",)),
        hosts=SimpleNamespace(
            accesses={name: SimpleNamespace(reached=found) for name, found in reached.items()}
        ),
        sessions={
            name: SimpleNamespace(hello={"host": {"boot_id": name}, "capabilities": []}) for name in reached
        },
    )
    assert "cannot share a Unix socket" in (rendezvous.refused(testbed, "unix") or "")
    assert "two kernels" in (rendezvous.refused(testbed, "vsock") or "")
    assert rendezvous.refused(testbed, "tls") is None
    with pytest.raises(PreflightError), rendezvous.places(testbed, {"transport": "unix"}):
        pass
