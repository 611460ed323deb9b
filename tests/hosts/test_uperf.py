"""Profiles of uperf on real traffic: every shape runs, and what uperf gets wrong is right."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import command_server
import one_guest
import pytest
from places import HUNG_S, Notes, run

from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.limiter.verdict import of_trial
from iodyno.core.errors import ExperimentError, PreflightError
from iodyno.core.experiment import Limits
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.script.analysis.results import FoundScript, scripts_of
from iodyno.loads.script.core.wire import threads_of
from iodyno.loads.script.uperf import experiment_keys, parse_profile, values_of
from iodyno.session.accesses import OpenHosts

SHAPES = sorted((Path(__file__).parents[1] / "fixtures" / "uperf").glob("*.xml"))
KERNEL_LACKS = ("sctp", "vsock")
"""Protocols of shapes that this kernel, or this agent, may not have: they must be refused with their name."""

pytestmark = pytest.mark.root


def scaled_down(text: str) -> str:
    """The shape with few threads, short durations and few iterations."""
    text = re.sub(r'(nthreads|nprocs)="\d+"', r'\1="2"', text)
    text = re.sub(r'(<transaction duration=")[^"]*', r"\g<1>150ms", text)
    return re.sub(r'(<transaction iterations=")\d{2,}', r"\g<1>3", text)


def carried_out(text: str, into: Path, **variables: str) -> tuple[FoundScript | None, dict[str, Any]]:
    """What the profile did in one short trial between two namespaces, and the trial's manifest."""
    dataset, manifest = measured(text, into, ("cpu_times",), **variables)
    found = scripts_of(dataset)
    return (found[0] if found else None), manifest


def measured(
    text: str,
    into: Path,
    sensors: tuple[str, ...] | None,
    link_delay: str = "",
    link_rate: str = "",
    **variables: str,
) -> tuple[Dataset, dict[str, Any]]:
    """One short trial of the profile between two namespaces, with these sensors (None: all), and its manifest."""
    profile = parse_profile(text)
    levels = values_of(profile, {"h": "x"}, variables)
    keys = {**experiment_keys(profile, levels), "profile": False}
    shape = {"link_delay": link_delay, "link_rate": link_rate}
    keys["workload"].update({key: value for key, value in shape.items() if value})
    experiment = parse_experiment(experiment_text(keys), environment={})
    limits = Limits(retries=0, background_ns=100_000_000, background_ratio=1.0)
    notes = Notes()
    outcome = asyncio.run(run(replace(experiment, limits=limits, sensors=sensors), into, notes=notes))
    return read_dataset(outcome.folder), notes.manifests[-1]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.stem)
def test_every_shape_runs_or_is_refused_by_name(shape: Path, tmp_path: Path) -> None:
    text = scaled_down(shape.read_text())
    (tmp_path / "files").mkdir()
    for number in range(3):
        (tmp_path / "files" / str(number)).write_bytes(bytes(100_000))
    used = parse_profile(text).script.variables()
    known = {
        "nthr": "2",
        "iter": "3",
        "proto": "tcp",
        "conn": "2",
        "cc": "reno",
        "dir": str(tmp_path / "files"),
    }
    variables = {v.name: known[v.name] for v in used if v.name in known}
    if "encaps=" in text:
        with pytest.raises(ExperimentError, match="encaps, which is not carried out"):
            carried_out(text, tmp_path, **variables)
        return
    lacking = [protocol for protocol in KERNEL_LACKS if f"protocol={protocol}" in text]
    try:
        found, manifest = carried_out(text, tmp_path, **variables)
    except PreflightError as refused:
        assert any(f"`protocol={protocol}`" in refused.what for protocol in lacking), refused
        return
    if manifest["status"] == "failed" and lacking:
        said = json.dumps(manifest["reason"]).lower()
        assert any(word in said for word in lacking), said
        return
    assert manifest["status"] == "finished", manifest["reason"]
    assert found is not None
    script = parse_profile(text).script.bound({**variables, "nthr": 2, "iter": 3, "conn": 2})
    assert sum(group.threads for group in found.groups) == threads_of(script)
    for group, asked in zip(found.groups, script.groups, strict=True):
        for transaction, wanted in zip(group.transactions, asked.transactions, strict=True):
            if wanted.iterations is not None:
                assert transaction.iterations == wanted.iterations * group.threads
            for operation in transaction.operations:
                theirs = operation.theirs
                assert theirs is not None
                # Over a stream both ends make as many, what one was ahead by when the time was over among them; of datagrams
                # some may be lost, and nobody waits for a pause.
                if "udp" not in text and operation.mine.call != "think":
                    both = (operation.mine, theirs)
                    made, moved = ([getattr(end, name) for end in both] for name in ("operations", "bytes"))
                    assert made[0] == made[1] and moved[0] == moved[1], operation.mine.label


WITHIN_A_GUEST = {
    "vsock": one_guest.VSOCK,
    "sctp": one_guest.SCTP,
}
"""Protocols that a guest's kernel has, where this machine's may not, with the modules that they need there."""

ASSOCIATION = (
    "sctp_nodelay sctp_rto_initial=300 sctp_rto_min=100 sctp_rto_max=1000 sctp_sack_delay=100 sctp_sack_frequency=3"
    " sctp_max_burst_size=8 sctp_max_fragment_size=1000 sctp_hb_interval=500 sctp_path_mtu=1400 sctp_in_streams=4"
    " sctp_out_streams=8 wndsz=256k"
)


@pytest.mark.parametrize(
    ("protocol", "opens", "flowops"),
    [
        ("vsock", "", '<flowop type="write" options="size=90 count=10"/><flowop type="read" options="size=64k"/>'),
        ("sctp", "", '<flowop type="write" options="size=90 count=10"/><flowop type="read" options="size=64k"/>'),
        (
            "sctp",
            ASSOCIATION,
            '<flowop type="write" options="size=5k sctp_stream_id=3 sctp_unordered batch_size=4"/>'
            '<flowop type="write" options="size=rand(1,3k) sctp_stream_id=1"/><flowop type="recv" options="size=10"/>'
            '<flowop type="sendfilev" options="dir=DIR nfiles=2 size=20k"/>',
        ),
    ],
    ids=["vsock", "sctp", "sctp-options"],
)  # fmt: skip
def test_protocols_of_a_guest_carry_what_was_asked(
    protocol: str, opens: str, flowops: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = WITHIN_A_GUEST[protocol]
    if why := one_guest.unavailable(modules):
        pytest.skip(f"no guest here: {why}")

    async def open_hosts(*_: object, **__: object) -> OpenHosts:
        return one_guest.two_hosts(("client", "server"), modules, tmp_path)

    monkeypatch.setattr("iodyno.campaign.testbed.accesses.open_hosts", open_hosts)
    text = loop(flowops.replace("DIR", "/bin"), 'iterations="20"', protocol)
    text = text.replace(f"protocol={protocol}", f"protocol={protocol} {opens}")
    found, manifest = carried_out(text, tmp_path)
    assert manifest["status"] == "finished", manifest["reason"]
    assert found is not None
    wanted = parse_profile(text).script.groups[0].transactions[1].flowops
    operations = found.groups[0].transactions[1].operations
    for flowop, operation in zip(wanted, operations, strict=True):
        times = int(flowop.options.get("count", 1)) * int(flowop.options.get("batch_size", 1))
        assert operation.mine.operations == operation.theirs.operations == 20 * 2 * times
        assert operation.mine.bytes == operation.theirs.bytes > 0


LOOP = """<profile name="loop"><group nthreads="2">
<transaction><flowop type="connect" options="remotehost=$h protocol=PROTO"/></transaction>
<transaction TIMES>FLOWOPS</transaction>
<transaction><flowop type="disconnect"/></transaction>
</group></profile>"""


def loop(flowops: str, times: str, protocol: str = "tcp") -> str:
    return LOOP.replace("FLOWOPS", flowops).replace("TIMES", times).replace("PROTO", protocol)


def test_durations_are_exact_and_rates_are_over_their_own_time(tmp_path: Path) -> None:
    """uperf ends at whole seconds, and divides by all that the command took."""
    found, _ = carried_out(
        loop('<flowop type="write" options="size=8k count=10"/>', 'duration="350ms"'), tmp_path
    )
    assert found is not None
    (group,) = found.groups
    moving = group.transactions[1]
    # Not before its time; after it, one iteration of each thread is completed, which takes as long as it takes on a busy
    # machine.
    assert 0.9 * 350e6 <= moving.span_ns < 60e9
    write = moving.operations[0].mine
    assert write.operations == 10 * moving.iterations
    assert write.bytes == 8192 * write.operations
    assert write.bits_per_s == pytest.approx(write.bytes * 8e9 / moving.span_ns)
    assert group.taken_bytes == group.sent_bytes == write.bytes
    assert group.bits_per_s is not None
    assert group.bits_per_s == pytest.approx(write.bits_per_s, rel=0.5)


def test_a_rate_is_kept_evenly_and_its_pauses_are_no_latency(tmp_path: Path) -> None:
    """uperf makes half of a second's iterations at once, and shows its own pauses as the time of a read."""
    pair = '<flowop type="write" options="size=64"/><flowop type="read" options="size=64"/>'
    found, _ = carried_out(loop(pair, 'duration="1s" rate="100"'), tmp_path)
    assert found is not None
    paced = found.groups[0].transactions[1]
    # Two threads, 100 a second each; one at either edge of the second may fall on either side.
    assert abs(paced.iterations + paced.missed - 200) <= 4
    read = paced.operations[1].mine
    assert paced.response is not None
    assert read.times.p50_ns is not None
    # A burst of 50 each half second would wait for milliseconds in the mean: half an interval is 5 ms. What a busy machine
    # takes to put a thread on its CPU is seen in the lateness of the iterations; a read waits for that of two ends.
    assert paced.lateness is not None and paced.lateness.p50_ns is not None
    assert read.times.p50_ns < 5e6 + 2 * paced.lateness.p50_ns


def test_what_arrived_is_told_from_what_was_sent(tmp_path: Path) -> None:
    """uperf's result of UDP is what was sent."""
    text = loop('<flowop type="write" options="size=8k"/>', 'duration="300ms"', "udp").replace(
        "protocol=udp", "protocol=udp wndsz=8k"
    )
    found, manifest = carried_out(text, tmp_path)
    assert manifest["status"] == "finished", manifest["reason"]
    assert found is not None
    (group,) = found.groups
    operation = group.transactions[1].operations[0]
    assert operation.theirs is not None
    assert group.taken_bytes == operation.theirs.bytes
    assert operation.theirs.operations <= operation.mine.operations
    if operation.theirs.operations < operation.mine.operations:
        assert operation.lost > 0
        # Of those waited for: also where the other end was behind and never came to send them.
        assert operation.loss_ratio is not None and 0 < operation.loss_ratio <= 1


def test_a_long_way_is_no_loss_and_a_short_timeout_is_kept(tmp_path: Path) -> None:
    """Over UDP an answer that takes longer than one is awaited on a short way is neither lost nor the next request's."""
    dataset, manifest = measured(
        loop(PAIR, 'iterations="5"', "udp"), tmp_path / "long", (), link_delay="60ms"
    )
    assert manifest["status"] == "finished", manifest["reason"]
    (found,) = scripts_of(dataset)
    read = found.groups[0].transactions[1].operations[1]
    assert (read.mine.operations, read.lost, read.mine.failures) == (10, 0, 0)
    # No answer is faster than the way there and back, but for the width of a bucket.
    assert read.mine.times.p50_ns is not None and read.mine.times.p50_ns > 119e6
    short = PAIR.replace('type="read" options="', 'type="read" options="timeout=2ms canfail ')
    dataset, manifest = measured(
        loop(short, 'iterations="5"', "udp"), tmp_path / "short", (), link_delay="30ms"
    )
    assert manifest["status"] == "finished", manifest["reason"]
    (found,) = scripts_of(dataset)
    read = found.groups[0].transactions[1].operations[1]
    # Five times 2 ms are over before the first answer comes.
    assert read.theirs is not None and read.theirs.operations == 10
    assert read.mine.operations + read.lost == 10
    assert read.lost >= 6


@pytest.mark.parametrize(("size", "fits"), [("11k", True), ("32k", False)])
def test_a_queue_of_fragments_is_waited_for_and_what_never_fits_is_refused(
    size: str, fits: bool, tmp_path: Path
) -> None:
    """The kernel refuses fragments beyond twice the send buffer: those of one datagram beside another's, or of one alone."""
    text = loop(f'<flowop type="write" options="size={size}"/>', 'iterations="50"', "udp").replace(
        "protocol=udp", "protocol=udp wndsz=4k"
    )
    dataset, manifest = measured(text, tmp_path, (), link_rate="50Mbit/s")
    if not fits:
        assert "longer than its send buffer" in json.dumps(manifest["reason"])
        return
    assert manifest["status"] == "finished", manifest["reason"]
    (found,) = scripts_of(dataset)
    assert found.groups[0].transactions[1].operations[0].mine.operations == 100


PAIR = '<flowop type="write" options="size=64"/><flowop type="read" options="size=64"/>'


@pytest.mark.alone  # A stall of 20 ms at the end of the second are 2 of 100 iterations that were due.
@pytest.mark.parametrize(
    ("times", "limiter"),
    [('duration="1s" rate="100"', "offered_load"), ('duration="1s"', "concurrency")],
)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_what_limits_a_profile_is_named(times: str, limiter: str, protocol: str, tmp_path: Path) -> None:
    dataset, manifest = measured(loop(PAIR, times, protocol), tmp_path, None)
    assert manifest["status"] == "finished", manifest["reason"]
    (trial,) = dataset.trials
    found = of_trial(trial)
    # Two threads that exchange all the time may fill a CPU of a busy machine, too.
    assert limiter in [suspect.name for suspect in found.ranked], found
    assert found.name == limiter or limiter == "concurrency", found


def test_the_kernel_counts_what_connections_of_a_profile_carry(tmp_path: Path) -> None:
    """Of those that stay open; those that come and go are said."""
    text = loop('<flowop type="write" options="size=8k"/>', 'duration="1s"')
    (trial,) = measured(text, tmp_path / "stays", ("tcp_info",))[0].trials
    (sender, receiver) = (trial.hosts[name] for name in ("client", "server"))
    # At the last reading they may be closed.
    readings = sender.measured_readings("tcp_info")
    assert max(reading.values.get(("tcp.flows", ""), 0) for reading in readings) == 2, readings
    sent = sum(record.bytes for record in sender.measured)
    # What was written last is on its way when the connections are closed.
    assert sender.growth("tcp_info", "tcp.acked_bytes") == pytest.approx(sent, rel=0.05)
    assert receiver.growth("tcp_info", "tcp.received_bytes") == pytest.approx(sent, rel=0.05)
    again = (
        '<flowop type="connect" options="remotehost=$h protocol=tcp"/><flowop type="write" options="size=8k"/>'
        '<flowop type="read" options="size=64"/><flowop type="disconnect"/>'
    )
    text = f'<profile name="p"><group nthreads="2"><transaction duration="500ms">{again}</transaction></group></profile>'
    (trial,) = measured(text, tmp_path / "goes", ("tcp_info",))[0].trials
    for host in trial.hosts.values():
        readings = host.measured_readings("tcp_info")
        assert all(reading.values.get(("tcp.flows", ""), 0) <= 2 for reading in readings)
        assert any("came and went" in (reading.missing or "") for reading in readings), readings


def test_cpu_time_is_not_zero(tmp_path: Path) -> None:
    _, manifest = carried_out(loop('<flowop type="write" options="size=64"/>', 'duration="300ms"'), tmp_path)
    assert all(host["result"]["agent_cpu_ns"] > 0 for host in manifest["hosts"].values())


def iodyno(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*command_server.iodyno(), *words]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, cwd=cwd, env=environment)


def test_a_failure_is_no_success(tmp_path: Path) -> None:
    """uperf ends with 0."""
    profile = tmp_path / "p.xml"
    profile.write_text(loop('<flowop type="read" options="size=1 timeout=200ms conn=7"/>', 'iterations="1"'))
    unopened = iodyno("run", "p.xml", cwd=tmp_path, h="x")
    assert unopened.returncode != 0
    assert "conn=7" in unopened.stderr
    profile.write_text(loop('<flowop type="write" options="size=1"/>', 'iterations="1"', "sctp"))
    refused = iodyno("run", "p.xml", cwd=tmp_path, h="x")
    assert refused.returncode != 0 or "sctp" not in refused.stderr
    assert "Traceback" not in refused.stderr + unopened.stderr


def test_what_the_limit_ends_is_not_tried_again_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(
        loop('<flowop type="write" options="size=64"/>', 'iterations="100000000000"')
    )
    ended = iodyno("run", "p.xml", "--limit", "300ms", cwd=tmp_path, h="x")
    assert ended.returncode == 5, ended.stderr
    assert "script_cut: the script was not over after 300ms" in ended.stderr
    assert "--limit" in ended.stderr.splitlines()[-1] and "--resume" not in ended.stderr
    assert len(list(tmp_path.glob("campaigns/*/trials/*"))) == 1


@pytest.mark.parametrize(
    ("opens", "flowop", "said"),
    [
        (
            "cc=nosuch",
            '<flowop type="write" options="size=64"/>',
            "host server: `cc` asks for nosuch, it has ",
        ),
        ("", '<flowop type="sendfile" options="dir=absent"/>', "sendfile takes its files from absent"),
    ],
)
def test_what_a_host_lacks_is_said_before_the_first_trial(
    opens: str, flowop: str, said: str, tmp_path: Path
) -> None:
    text = loop(flowop, 'iterations="1"').replace("protocol=tcp", f"protocol=tcp {opens}")
    (tmp_path / "p.xml").write_text(text)
    refused = iodyno("run", "p.xml", cwd=tmp_path, h="x")
    assert refused.returncode == 4, refused.stderr
    assert said in refused.stderr and "measuring the background" not in refused.stderr
    # What may fail is counted.
    if opens:
        (tmp_path / "p.xml").write_text(text.replace("cc=nosuch", "cc=nosuch canfail"))
        assert "preflight" not in iodyno("run", "p.xml", cwd=tmp_path, h="x").stderr


def test_what_is_not_carried_of_sctp_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "partial.xml").write_text(
        loop(
            '<flowop type="write" options="size=1k sctp_pr_policy=ttl sctp_pr_value=20"/>',
            'iterations="1"',
            "sctp",
        )
    )
    refused = iodyno("run", "partial.xml", cwd=tmp_path, h="x")
    assert refused.returncode == 2, refused.stderr
    assert "sctp_pr_policy" in refused.stderr and "leave sctp_pr_policy out" in refused.stderr


def test_as_typed(tmp_path: Path) -> None:
    (tmp_path / "named-anything").write_text(
        '<?xml version=1.0?>\n<profile name="Typed"><group nthreads="$nthr"><transaction iterations="1">'
        '<flowop type="connect" options="remotehost=$H protocol=$proto"/></transaction>'
        '<transaction duration="300ms"><flowop type=write options="size=64k"/>'
        '<transaction iterations="1"><flowop type=disconnect /></transaction></group></profile>'
    )
    ran = iodyno("run", "named-anything", cwd=tmp_path, h="Server.Example", nthr="2", proto="tcp")
    assert ran.returncode == 0, ran.stderr
    assert "remotehost $H (Server.Example): the host server" in ran.stderr
    assert "is not closed" in ran.stderr
    assert "group 1, 2 threads" in ran.stdout
    folder = tmp_path / ran.stdout.splitlines()[-1]
    page = (folder / "report.html").read_text()
    assert "Server.Example" in page
    assert "disconnect" in page
    again = iodyno("check", str(folder / "experiment.yaml"), cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_every_remote_host_is_one_of_its_own(tmp_path: Path) -> None:
    """uperf's master has many slaves."""
    text = """<profile name="three"><group nthreads="2">
    <transaction iterations="1"><flowop type="connect" options="remotehost=$h1 protocol=tcp conn=1"/>
    <flowop type="connect" options="remotehost=$h2 protocol=udp conn=2"/></transaction>
    <transaction duration="200ms"><flowop type="read" options="size=200 conn=1"/>
    <flowop type="write" options="size=100 conn=2"/></transaction>
    <transaction iterations="1"><flowop type="disconnect" options="conn=1"/></transaction>
    </group><group nthreads="1"><transaction iterations="1">
    <flowop type="accept" options="remotehost=192.0.2.3 protocol=tcp"/></transaction>
    <transaction iterations="50"><flowop type="write" options="size=300"/></transaction></group></profile>"""
    found, manifest = carried_out(text, tmp_path)
    assert manifest["status"] == "finished", manifest["reason"]
    assert found is not None
    assert found.receivers == ("h1", "h2", "server-3")
    read, write = found.groups[0].transactions[1].operations
    assert (read.host, write.host) == ("h1", "h2")
    assert read.theirs is not None and write.theirs is not None
    assert read.theirs.bytes >= read.mine.bytes > 0
    assert write.mine.operations == write.theirs.operations + write.lost
    (sent,) = found.groups[1].transactions[1].operations
    assert sent.host == "server-3"
    assert sent.theirs is not None and sent.theirs.bytes == 50 * 300
    addresses = {
        facts["job"]["load"]["script"]["address"].rpartition(":")[0] for facts in manifest["hosts"].values()
    }
    assert len(addresses) == 3
