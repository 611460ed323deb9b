"""Several hosts of an end: told one by one, and together, where each has a machine of its own and where all are on one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import MappingProxyType

import pytest
from places import run

from iodyno.analysis.alike import as_one
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.host_data import HostData
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.campaign import skew
from iodyno.campaign.account import Account
from iodyno.core.experiment import Windows, WorkloadSpec
from iodyno.formats.experiment_file import parse_experiment
from iodyno.report.method import method_rows
from iodyno.report.tables import load_tables
from iodyno.session.accesses import divide_cpus
from iodyno.session.clock import ClockFit

FILE = b"""
name: many
hosts: {client: {access: simulated, count: 3}, server: {access: simulated}}
workload: {kind: stream, sender: client, receiver: server, connections: 2}
factors: {size: [16KiB]}
design: {replicates: 2}
windows: {warm_up: 100ms, measured: 500ms, drain: 50ms, interval: 100ms}
limits: {background_window: 100ms, background: 100%}
outcomes: [goodput_bits_per_s, fairness, client.cpu_ns_per_kib, client-2.cpu_ns_per_kib, client.cpu_busy_ratio]
profile: off
"""


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> CampaignSummary:
    experiment = parse_experiment(FILE, environment={})
    return analyse(read_dataset(asyncio.run(run(experiment, tmp_path_factory.mktemp("many"))).folder))


def test_hosts_with_machines_of_their_own_have_costs_of_their_own_and_one_together(
    summary: CampaignSummary,
) -> None:
    (point,) = summary.points
    of = {name: found.estimate or 0.0 for name, found in point.outcomes.items()}
    each = [of[f"client-{number}.cpu_ns_per_kib"] for number in (1, 2, 3)]
    assert min(each) <= of["client.cpu_ns_per_kib"] <= max(each), "of all, each for its part"
    assert of["fairness"] == pytest.approx(1.0)
    assert "each host of client has its own" in str(point.outcomes["client.cpu_busy_ratio"].missing)


def test_an_end_of_several_hosts_is_one_in_tables_with_a_row_for_each_beside(
    summary: CampaignSummary,
) -> None:
    assert [host.name for host in summary.shown_hosts] == ["client", "server"]
    main, hosts, *_ = load_tables(summary)
    assert {column.group for column in main.columns} >= {"client", "server"}
    assert [row[0].text for row in hosts.rows] == ["client-1", "client-2", "client-3"]


def test_the_report_tells_how_far_apart_hosts_started_over_all_trials(summary: CampaignSummary) -> None:
    def told(skews: range) -> str:
        trials = [replace(summary.trials[0], skew_ns=skew * 1000) for skew in skews]
        return dict(method_rows(replace(summary, trials=trials)))["Start skew"]

    assert all(trial.skew_ns is not None for trial in summary.trials)
    assert told(range(1, 4)).endswith("of 3 trials: median 2.00 us, greatest 3.00 us")
    assert told(range(1, 201)).endswith("of 200 trials: median 100 us, p99 198 us, greatest 200 us")


@pytest.mark.parametrize(
    ("late_us", "warm_up_ms", "limit_ns", "told"),
    [
        (11_000, 250, None, None),
        (11_000, 0, None, "up to 2% of the measured window was without server"),
        (3_000_000, 250, None, "up to 100% of the measured window was without server"),
        (1_300, 250, 1_000_000, "the limit is 1000 us"),
        (900, 0, 1_000_000, None),
    ],
)
def test_a_late_host_is_told_of_where_it_misses_a_part_of_what_is_measured(
    late_us: int, warm_up_ms: int, limit_ns: int | None, told: str | None
) -> None:
    account, clock = Account(start={}), ClockFit(0, 10_000, 20_000, 0)
    began = {"client": 0, "server": late_us * 1000}
    windows = Windows(warm_up_ns=warm_up_ms * 1_000_000, measured_ns=700_000_000)
    skew.note(account, dict.fromkeys(began, clock), began, limit_ns, windows)
    assert account.start is not None and account.start["skew_ns"] == late_us * 1000
    warned = [warning.text for warning in account.warnings]
    assert [text.startswith(f"server started {late_us} us after client") for text in warned] == [True] * bool(
        told
    )
    assert all(text.endswith(str(told)) for text in warned)


def host(name: str, moved: int, fairness_ppb: int, rtt_ns: int, flows: int) -> HostData:
    reading = Reading(
        100,
        1,
        None,
        {
            ("tcp.acked_bytes", ""): moved,
            ("tcp.rtt_ns", "of=min"): rtt_ns,
            ("tcp.rtt_ns", "of=mean"): rtt_ns,
            ("tcp.rtt_ns", "of=max"): rtt_ns,
            ("tcp.flows", ""): flows,
        },
    )
    manifest = {
        "job": {"connections": flows},
        "ready": {"connections": flows, "workers": 1},
        "result": {"bytes": moved, "operations": 1, "connection_fairness_ppb": fairness_ppb},
    }
    records = [Record(0, "measured", 0, 100, moved, 1, flows, 0)]
    return HostData(name, "send", (0,), manifest, records, readings={"tcp_info": {0: reading}})


def test_hosts_as_one_add_what_they_count_and_weigh_the_states_of_their_flows() -> None:
    one = as_one("c", [host("c-1", 300, 10**9, 10, 3), host("c-2", 100, 10**9, 50, 1)])
    assert (one.measured_bytes, one.measured_ns) == (400, 100)
    values = one.readings["tcp_info"][0].values
    assert values["tcp.acked_bytes", ""] == 400 and values["tcp.flows", ""] == 4
    assert [values["tcp.rtt_ns", f"of={of}"] for of in ("min", "mean", "max")] == [10, 20, 50]
    assert one.manifest["job"]["connections"] == one.manifest["ready"]["connections"] == 4
    # Four connections that carry 100 each.
    assert one.manifest["result"]["connection_fairness_ppb"] == 10**9
    unequal = as_one("c", [host("c-1", 300, 10**9, 10, 1), host("c-2", 100, 10**9, 50, 1)])
    assert unequal.manifest["result"]["connection_fairness_ppb"] == round(
        1e9 * 400**2 / (2 * (300**2 + 100**2))
    )


@pytest.mark.parametrize(
    ("allowed", "clients", "server"),
    [
        ([0, 1], [(0,), (0,), (0,)], (1,)),
        ([0, 1, 2, 3, 4, 5], [(0,), (1,), (2,)], (3, 4, 5)),
        ([0], [(0,), (0,), (0,)], (0,)),
    ],
)
def test_an_end_has_a_part_of_the_cpus_which_its_hosts_divide_or_share(
    allowed: list[int], clients: list[tuple[int, ...]], server: tuple[int, ...]
) -> None:
    names = ["client-1", "client-2", "client-3"]
    cpus, shared = divide_cpus(allowed, dict.fromkeys((*names, "server"), ()), [names])
    assert [cpus[name] for name in names] == clients and cpus["server"] == server
    assert bool(shared) == (len(allowed) == 1), "hosts that do the same may share, those of two ends may not"


def test_connections_are_between_all_or_between_pairs() -> None:
    mesh = WorkloadSpec("stream", ("a", "b"), ("c", "d"))
    assert mesh.links == (("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"))
    pairs = replace(mesh, between="pairs")
    assert pairs.links == (("a", "c"), ("b", "d"))
    assert (pairs.receivers_of("b"), pairs.senders_to("c")) == (("d",), ("a",))
    grouped = replace(mesh, groups=MappingProxyType({"x": ("a", "b")}))
    assert grouped.named_ends == ("x", "c", "d")
