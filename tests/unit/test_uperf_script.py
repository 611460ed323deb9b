"""A profile runs as uperf means it: mirrored for the other end, on the wire of the agent, convertible without loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.script.campaign.jobs import script_of
from iodyno.loads.script.core.flowops import FLOWOPS, OPENING, OPTIONS
from iodyno.loads.script.core.mirror import mirrored
from iodyno.loads.script.core.remotes import remotes_of
from iodyno.loads.script.core.values import Flowop, Group, Script, Transaction, Uniform, Variable
from iodyno.loads.script.core.wire import script_json, threads_of
from iodyno.loads.script.uperf import converted, experiment_keys, host_notes, parse_profile, values_of
from iodyno.loads.script.uperf.writing import written

PROFILE = """<profile name="mix up">
<group nthreads="$nthr">
<transaction iterations="1">
<flowop type="accept" options="remotehost=$h protocol=$proto wndsz=50k tcp_nodelay cc=cubic conn=2"/>
</transaction>
<transaction duration="30s" rate="100">
<flowop type="write" options="size=$size rsize=1k count=10 conn=2 canfail"/>
<flowop type="think" options="busy duration=3ms"/>
<flowop type="read" options="size=rand(1,8k) timeout=2s non_blocking conn=2"/>
<flowop type="write" options="size=1 conn=2"/>
</transaction>
<transaction><flowop type="disconnect" options="conn=2"/></transaction>
</group>
</profile>
"""
LEVELS = {"nthr": 4, "proto": "ssl", "size": 65536}


def plain(kind: str, **options: Any) -> Script:
    return Script("s", (Group("g", 1, (Transaction((Flowop(kind, options),), 1),)),))


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("connect", "accept"), ("accept", "connect"), ("write", "read"), ("read", "write"), ("send", "recv"),
        ("recv", "send"), ("sendto", "recvfrom"), ("recvfrom", "sendto"), ("sendfile", "read"),
        ("sendfilev", "read"), ("disconnect", "disconnect"), ("think", "think"), ("nop", "nop"),
    ],
)  # fmt: skip
def test_the_other_end_does_the_opposite(mine: str, theirs: str) -> None:
    assert mirrored(plain(mine)).groups[0].transactions[0].flowops[0].kind == theirs


def test_what_concerns_one_end_alone_is_not_mirrored() -> None:
    assert set(FLOWOPS) == {kind for kind in FLOWOPS if FLOWOPS[kind].mirror in FLOWOPS}
    flowop = mirrored(plain("connect", remotehost="a", protocol="tcp", port=5, wndsz=1024, sctp_in_streams=3))
    assert flowop.groups[0].transactions[0].flowops[0].options == {
        "protocol": "tcp",
        "wndsz": 1024,
        "sctp_out_streams": 3,
    }


def test_each_end_gets_its_part_on_the_wire() -> None:
    script = parse_profile(PROFILE).script.bound(LEVELS)
    sender, receiver = script_json(script, "send"), script_json(script, "receive")
    assert sender["groups"][0]["threads"] == threads_of(script) == 4
    accept, loop, disconnect = sender["groups"][0]["transactions"]
    assert accept["until"] == {"kind": "iterations", "iterations": 1}
    assert accept["operations"] == [
        {
            "call": "accept", "label": "accept", "connection": 2, "protocol": "tls",
            "socket": {"send_buffer_bytes": 51200, "receive_buffer_bytes": 51200, "nagle": False,
                       "congestion_control": "cubic"},
        }
    ]  # fmt: skip
    assert loop["until"] == {"kind": "duration", "duration_ns": 30 * 10**9}
    assert loop["rate"] == {"iterations": 100, "period_ns": 10**9}
    fixed = {"law": "fixed", "bytes": 65536}
    drawn = {"law": "uniform", "least_bytes": 1, "greatest_bytes": 8192}
    on_it = {"connection": 2, "protocol": "tls"}
    assert loop["operations"] == [
        {"call": "write", "label": "write 1", **on_it, "size": fixed, "count": 10, "can_fail": True},
        {"call": "think", "label": "think", "duration_ns": 3_000_000, "think": "busy"},
        {
            "call": "read",
            "label": "read",
            **on_it,
            "size": drawn,
            "timeout_ns": 2 * 10**9,
            "non_blocking": True,
        },
        {"call": "write", "label": "write 2", **on_it, "size": {"law": "fixed", "bytes": 1}},
    ]
    assert disconnect["operations"] == [{"call": "disconnect", "label": "disconnect", **on_it}]
    theirs = receiver["groups"][0]["transactions"]
    assert [operation["call"] for operation in theirs[1]["operations"]] == ["read", "think", "write", "read"]
    assert theirs[1]["operations"][0]["call_bytes"] == 1024
    assert theirs[0]["operations"][0]["call"] == "connect"


def test_a_connection_that_nothing_opens_is_an_error_with_its_line() -> None:
    script = parse_profile(PROFILE.replace("wndsz=50k tcp_nodelay cc=cubic conn=2", "conn=3")).script.bound(
        LEVELS
    )
    with pytest.raises(ExperimentError, match="conn=2, which nothing before it opens") as caught:
        script_json(script, "send")
    assert "line 7" in str(caught.value)


def test_variables_come_from_options_then_the_environment_in_either_case() -> None:
    text = PROFILE.replace("$nthr", "$NTHR")
    environment = {"nthr": "4", "proto": "tcp", "size": "8k"}
    assert values_of(parse_profile(text), environment, {"size": "1M"}) == {
        "NTHR": 4,
        "proto": "tcp",
        "size": 1 << 20,
    }
    assert values_of(parse_profile(PROFILE), {**environment, "size": "rand(1,8k)"})["size"] == "rand(1,8192)"


def test_every_variable_without_a_value_is_said_in_one_error_but_for_hosts() -> None:
    with pytest.raises(ExperimentError) as caught:
        values_of(parse_profile(PROFILE), {})
    message = str(caught.value)
    for line, name in ((2, "nthr"), (4, "proto"), (7, "size")):
        assert f"profile.xml:{line}: the variable ${name} has no value" in message
    assert "--set nthr=... --set proto=... --set size=..." in message
    assert "$h " not in message
    with pytest.raises(ExperimentError, match="did you mean 'nthr'"):
        values_of(parse_profile(PROFILE), {}, {"nth": "1"})
    with pytest.raises(ExperimentError, match=r"invalid value 'tpc' for \$proto"):
        values_of(parse_profile(PROFILE), {"nthr": "1", "proto": "tpc", "size": "1"})


def jobs_of(experiment: Experiment) -> list[Any]:
    """What both ends do at the first point."""
    levels = {name: level for factor in experiment.factors for name, level in factor.settings(0).items()}
    assert experiment.workload.script is not None
    script = experiment.workload.script.bound(experiment.settings(levels))
    return [script_json(script, role) for role in ("send", "receive")]


def run_as(text: str, levels: dict[str, Any]) -> Experiment:
    keys = experiment_keys(parse_profile(text), levels)
    return parse_experiment(experiment_text(keys), environment={})


def test_a_converted_profile_means_the_same_and_its_numbers_are_factors() -> None:
    conversion = converted(parse_profile(PROFILE), LEVELS)
    experiment = parse_experiment(conversion.text, environment={})
    assert jobs_of(experiment) == jobs_of(run_as(PROFILE, LEVELS))
    assert {factor.name: factor.levels for factor in experiment.factors} == {
        "nthr": (4,), "proto": ("ssl",), "size": (65536,), "wndsz": (51200,), "duration": (30 * 10**9,), "rate": (100,),
        "rsize": (1024,), "count": (10,), "think": (3_000_000,), "read_size": ("rand(1,8192)",), "timeout": (2 * 10**9,),
        "write_size": (1,),
    }  # fmt: skip


def test_a_variable_is_a_factor_as_any_parameter_is() -> None:
    conversion = converted(parse_profile(PROFILE), LEVELS)
    text = conversion.text.replace("size: [64KiB]", "size: [1KiB, 64KiB, 1MiB]").replace(
        "nthr: [4]", "nthr: [1, 4]"
    )
    experiment = parse_experiment(text, environment={})
    assert {f.name: f.levels for f in experiment.factors if len(f.levels) > 1} == {
        "nthr": (1, 4),
        "size": (1024, 65536, 1 << 20),
    }
    with pytest.raises(ExperimentError, match="nthr"):
        parse_experiment(text.replace("nthr: [1, 4]", "nthr: [x]"), environment={})
    with pytest.raises(ExperimentError, match=r"\$nthr \(line 3 of it\) has no value"):
        parse_experiment(text.replace("  nthr: [1, 4]\n", ""), environment={})
    with pytest.raises(ExperimentError, match="did you mean 'write'"):
        parse_experiment(text.replace('type="write"', 'type="wriet"'), environment={})


STREAM = """<profile name="s"><group nthreads="8">
<transaction><flowop type="connect" options="remotehost=$h protocol=tcp wndsz=64k tcp_nodelay"/></transaction>
<transaction duration="20s">LOOP</transaction>
<transaction><flowop type="disconnect"/></transaction></group></profile>"""


@pytest.mark.parametrize(
    ("loop", "kind", "factors"),
    [
        (
            '<flowop type="write" options="size=8k count=10"/>',
            "stream",
            {"connections": (8,), "size": (8192,)},
        ),
        ('<flowop type="read" options="size=1k"/>', "stream", {"connections": (8,), "size": (1024,)}),
        (
            '<flowop type="write" options="size=64"/><flowop type="read" options="size=1k"/>',
            "request_response",
            {"connections": (8,), "size": (64,), "response_size": (1024,)},
        ),
    ],
)
def test_a_plain_profile_becomes_a_workload_of_our_own(loop: str, kind: str, factors: dict[str, Any]) -> None:
    experiment = parse_experiment(
        converted(parse_profile(STREAM.replace("LOOP", loop)), {}).text, environment={}
    )
    assert experiment.workload.kind == kind
    assert {factor.name: factor.levels for factor in experiment.factors} == factors
    assert experiment.windows.measured_ns == 20 * 10**9
    assert experiment.workload.settings["window"] == 65536
    assert experiment.workload.settings["nagle"] is False
    assert experiment.workload.settings.get("direction", "forward") == (
        "reverse" if loop.startswith('<flowop type="read"') else "forward"
    )


@pytest.mark.parametrize(
    "loop",
    [
        '<flowop type="write" options="size=8k canfail"/>',
        '<flowop type="write" options="size=rand(1,8k)"/>',
        '<flowop type="write" options="size=8k"/><flowop type="write" options="size=8k"/>',
        '<flowop type="write" options="size=8k count=2"/><flowop type="read" options="size=8k"/>',
        '<flowop type="read" options="size=8k"/><flowop type="write" options="size=8k"/>',
        '<flowop type="think" options="duration=1ms"/>',
    ],
)
def test_what_means_something_else_stays_a_script(loop: str) -> None:
    text = STREAM.replace("LOOP", loop)
    conversion = converted(parse_profile(text), {})
    assert "stays a script" in conversion.notes[0]
    assert jobs_of(parse_experiment(conversion.text, environment={})) == jobs_of(run_as(text, {}))


def test_a_window_that_no_workload_has_keeps_the_script_and_asks_for_what_uperf_asks_for() -> None:
    text = STREAM.replace("LOOP", '<flowop type="write" options="size=8k"/>')
    for window, asked in (("512", 512), ("0", None)):
        profile = parse_profile(text.replace("wndsz=64k", f"wndsz={window}"))
        script = script_json(profile.script, "send")
        (connect,) = script["groups"][0]["transactions"][0]["operations"]
        assert connect["socket"]["send_buffer_bytes"] == connect["socket"]["receive_buffer_bytes"] == asked
        conversion = converted(profile, {})
        assert ("stays a script: its wndsz is less" in conversion.notes[0]) == (asked is not None)
        parse_experiment(conversion.text, environment={})


def test_what_does_nothing_becomes_no_factor() -> None:
    loop = '<flowop type="write" options="size=8k duration=1s sctp_stream_id=3 canfail"/>'
    text = STREAM.replace("LOOP", loop + '<flowop type="think" options="duration=1ms"/>')
    asked = parse_experiment(converted(parse_profile(text), {}).text, environment={})
    assert {factor.name for factor in asked.factors} == {"nthreads", "duration", "wndsz", "size", "think"}
    over = text.replace("protocol=tcp", "protocol=sctp").replace(" tcp_nodelay", "")
    asked = parse_experiment(converted(parse_profile(over), {}).text, environment={})
    assert "sctp_stream_id" in {factor.name for factor in asked.factors}


def test_windows_leave_time_for_the_script() -> None:
    windows = run_as(PROFILE, LEVELS).windows
    assert windows.warm_up_ns == 0
    assert windows.measured_ns > 30 * 10**9


def test_hosts_that_the_experiment_does_not_have_are_said() -> None:
    (note,) = host_notes(parse_profile(PROFILE), {"h": "10.0.0.5"}, None)
    assert "$h (10.0.0.5)" in note
    assert "a network namespace of this machine" in note
    two = PROFILE.replace(
        "</group>", '<transaction><flowop type="connect" options="remotehost=b"/></transaction></group>'
    )
    assert any("2 remote hosts are one" in note for note in host_notes(parse_profile(two), {}, "ssh:x"))
    notes = host_notes(parse_profile(two), {}, None)
    assert [note.split(",")[0] for note in notes] == ["remotehost $h: the host h", "remotehost b: the host b"]


SEVERAL = """<profile name="p"><group nthreads="2">
<transaction iterations="1">
<flowop type="connect" options="remotehost=$h1 protocol=tcp conn=1"/>
<flowop type="connect" options="remotehost=10.0.0.9 protocol=udp conn=2"/></transaction>
<transaction duration="1s">
<flowop type="write" options="size=64 conn=1"/>
<flowop type="think" options="duration=1ms"/>
<flowop type="read" options="size=100 conn=2"/></transaction>
</group><group nthreads="1"><transaction iterations="1">
<flowop type="connect" options="remotehost=$h1 protocol=tcp"/></transaction>
<transaction iterations="5"><flowop type="read" options="size=7"/></transaction></group></profile>"""


def test_each_remote_host_is_a_host_that_gets_what_is_its_own() -> None:
    profile = parse_profile(SEVERAL)
    keys = experiment_keys(profile, {"h1": "db.example"})
    assert keys["hosts"] == {name: {"access": "netns"} for name in ("client", "h1", "server-2")}
    assert keys["workload"]["receiver"] == ["h1", "server-2"]
    experiment = parse_experiment(experiment_text(keys), environment={})
    assert experiment.workload.receivers == ("h1", "server-2")
    settings = experiment.settings({})
    sender = script_of(experiment, "send", settings, "client")
    first, second = (script_of(experiment, "receive", settings, host) for host in ("h1", "server-2"))
    assert sender is not None and first is not None and second is not None

    def told(script: dict[str, Any], key: str) -> list[list[list[Any]]]:
        return [
            [[o.get(key, 0) for o in t["operations"]] for t in g["transactions"]] for g in script["groups"]
        ]

    assert told(sender, "remote") == [[[0, 1], [0, 0, 1]], [[0], [0]]]
    assert told(first, "call") == [[["accept", "nop"], ["read", "think", "nop"]], [["accept"], ["write"]]]
    assert told(second, "call") == [[["nop", "accept"], ["nop", "think", "write"]], [["nop"], ["nop"]]]
    assert told(second, "remote") == [[[1, 0], [1, 0, 0]], [[1], [1]]]


def test_a_converted_profile_of_several_hosts_means_the_same() -> None:
    profile = parse_profile(SEVERAL)
    asked = parse_experiment(experiment_text(experiment_keys(profile, {"h1": "x"})), environment={})
    conversion = converted(profile, {"h1": "x"})
    made = parse_experiment(conversion.text, environment={})
    assert made.workload.receivers == asked.workload.receivers
    levels = {name: level for f in made.factors for name, level in f.settings(0).items()}
    for role, host in (("send", "client"), ("receive", "h1"), ("receive", "server-2")):
        assert script_of(made, role, made.settings(levels), host) == script_of(
            asked, role, asked.settings({}), host
        )


def test_hosts_that_are_too_few_or_share_what_they_open_are_an_error() -> None:
    script = parse_profile(SEVERAL).script
    with pytest.raises(ExperimentError, match="names 3 remote hosts"):
        remotes_of(parse_profile(SEVERAL.replace('conn=1"/>', 'conn=1"/>' + THIRD, 1)).script, ("a", "b"))
    assert remotes_of(script, ("one",)) == (((0, 0), (0, 0, 0)), ((0,), (0,)))
    accepted = SEVERAL.replace('type="connect"', 'type="accept"').replace("conn=2", "conn=1")
    with pytest.raises(ExperimentError, match="accepted from two hosts"):
        experiment_keys(parse_profile(accepted), {"h1": "x"})
    workload = {
        **experiment_keys(parse_profile(SEVERAL), {"h1": "x"})["workload"],
        "receiver": ["h1", "h1", "nobody"],
    }
    keys = {**experiment_keys(parse_profile(SEVERAL), {"h1": "x"}), "workload": workload}
    with pytest.raises(ExperimentError, match="duplicate host") as raised:
        parse_experiment(experiment_text(keys), environment={})
    assert "nobody" in str(raised.value)


THIRD = '<flowop type="connect" options="remotehost=c protocol=tcp conn=3"/>'


def test_a_profile_that_is_too_much_for_an_experiment_file_is_an_error() -> None:
    text = PROFILE.replace("$size", "$profile")
    with pytest.raises(ExperimentError, match="name"):
        values_of(parse_profile(text), {"profile": "1", "nthr": "1", "proto": "tcp"})
    with pytest.raises(ExperimentError, match="different kinds"):
        values_of(parse_profile(PROFILE.replace("3ms", "$size")), {"size": "1", "nthr": "1", "proto": "tcp"})


_NAMES = st.sampled_from(["a", "b", "size", "nthr"])


@st.composite
def _values(draw: st.DrawFn, name: str) -> Any:
    option = OPTIONS[name]
    if option.kind == "flag":
        return 1
    if option.kind == "protocol":
        return draw(st.sampled_from(["tcp", "udp", "ssl"]))
    if option.kind in ("text", "host", "word"):
        return draw(st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True))
    number = draw(st.integers(max(1, option.low), min(option.high, 10**9)))
    if name == "size" and draw(st.booleans()):
        return Uniform(1, number)
    return number


@st.composite
def _flowops(draw: st.DrawFn) -> Flowop:
    kind = draw(st.sampled_from(sorted(FLOWOPS)))
    names = draw(st.sets(st.sampled_from(FLOWOPS[kind].options))) if FLOWOPS[kind].options else set()
    names |= {"size"} if "size" in FLOWOPS[kind].options else set()
    names |= {"dir"} & set(FLOWOPS[kind].options) | ({"duration"} if kind == "think" else set())
    return Flowop(kind, {name: draw(_values(name)) for name in sorted(names)})


@st.composite
def _scripts(draw: st.DrawFn) -> Script:
    def transaction() -> Transaction:
        timed = draw(st.booleans())
        return Transaction(
            tuple(draw(st.lists(_flowops(), min_size=1, max_size=3))),
            None if timed else draw(st.integers(1, 10**6)),
            draw(st.integers(1, 10**12)) if timed else None,
            draw(st.none() | st.integers(1, 10**6)),
        )

    groups = tuple(
        Group(
            f"g{i}",
            draw(st.integers(1, 100)),
            tuple(transaction() for _ in range(draw(st.integers(1, 3)))),
            draw(st.booleans()),
        )
        for i in range(draw(st.integers(1, 2)))
    )
    return Script("p", groups)


def _without_lines(script: Script) -> str:
    import re

    return re.sub(r"line=\d+", "", repr(script))


@given(_scripts())
@settings(max_examples=150, deadline=None)
def test_a_script_that_is_written_reads_back_the_same(script: Script) -> None:
    assert _without_lines(parse_profile(written(script)).script) == _without_lines(script)


@given(_scripts())
@settings(max_examples=60, deadline=None)
def test_any_script_is_converted_without_loss(script: Script) -> None:
    # Every connection that is used must be opened, so a first transaction opens all; where that may fail, nobody can say what
    # is closed already. And all have one remote host.
    used = {flowop.connection for group in script.groups for flowop in group.flowops()}
    options = {"protocol": "tcp", "canfail": 1}
    opening = Transaction(tuple(Flowop("connect", options | ({"conn": c} if c else {})) for c in used), 1)
    script = Script(
        "p",
        tuple(
            Group(g.name, g.threads, (opening, *map(_to_one_host, g.transactions)), g.processes)
            for g in script.groups
        ),
    )
    profile = parse_profile(written(script))
    experiment = parse_experiment(converted(profile, {}, plain=False).text, environment={})
    levels = {name: level for f in experiment.factors for name, level in f.settings(0).items()}
    assert experiment.workload.script is not None
    bound = experiment.workload.script.bound(levels)
    for role in ("send", "receive"):
        assert script_json(bound, role) == script_json(script, role)
    assert not [f for f in bound.variables() if f.kind != "host"]
    assert all(
        f.options["remotehost"] == "server" for g in bound.groups for f in g.flowops() if f.kind in OPENING
    )
    assert all(not isinstance(g.threads, Variable) for g in bound.groups)


def _to_one_host(transaction: Transaction) -> Transaction:
    """And without what is refused: what is not carried out, and datagrams, as one may be too long."""

    def taken(name: str, value: Any) -> Any:
        # Files are sent over TCP only.
        return "h" if name == "remotehost" else "tcp" if name == "protocol" else value

    def allowed(flowop: Flowop) -> dict[str, Any]:
        known = {n: v for n, v in flowop.options.items() if OPTIONS[n].meaning != "unsupported"}
        return {name: taken(name, value) for name, value in known.items()}

    flowops = tuple(replace(f, options=allowed(f)) for f in transaction.flowops)
    return replace(transaction, flowops=flowops)


SCTP = """<profile name="p"><group nthreads="1">
<transaction iterations="1"><flowop type="connect" options="remotehost=$h protocol=sctp OPENED"/></transaction>
<transaction duration="1s"><flowop type="write" options="size=1k SENT"/></transaction></group></profile>"""


def test_what_is_asked_of_sctp_goes_to_both_ends() -> None:
    opened = "sctp_nodelay sctp_rto_min=100 sctp_in_streams=4 sctp_out_streams=8"
    text = SCTP.replace("OPENED", opened).replace(
        "SENT", "sctp_stream_id=3 sctp_unordered repeat=2 batch_size=5"
    )
    profile = parse_profile(text)
    script = profile.script.bound({"h": "server"})
    (near, moved), (far, taken) = (
        [t["operations"][0] for t in script_json(script, role)["groups"][0]["transactions"]]
        for role in ("send", "receive")
    )
    assert near["sctp"] == {"nodelay": True, "rto_min_ms": 100, "in_streams": 4, "out_streams": 8}
    assert far["sctp"] == near["sctp"] | {"in_streams": 8, "out_streams": 4}
    assert moved["sctp"] == {"stream": 3, "unordered": True}
    assert moved["repeat"] == taken["repeat"] == 10
    assert any("batch_size: each message of a batch has a call of its own" in note for note in profile.notes)


@pytest.mark.parametrize(
    ("opened", "sent"), [("encaps=9899", ""), ("", "sctp_pr_policy=ttl"), ("", "sctp_pr_value=20")]
)
def test_what_is_not_carried_of_sctp_is_refused(opened: str, sent: str) -> None:
    script = parse_profile(SCTP.replace("OPENED", opened).replace("SENT", sent)).script.bound({"h": "server"})
    with pytest.raises(ExperimentError) as refused:
        script_json(script, "send")
    name = (opened or sent).partition("=")[0]
    assert name in refused.value.what and refused.value.where.startswith("line ")


CONNECTED = """<profile name="p"><group nthreads="1">
<transaction iterations="1"><flowop type="connect" options="remotehost=$h protocol=%s"/></transaction>
<transaction duration="1s">
<flowop type="%s" options="size=%s"/></transaction></group></profile>"""


def test_a_datagram_that_udp_cannot_carry_is_refused_with_its_line_before_a_host_is_opened() -> None:
    with pytest.raises(
        ExperimentError, match=r"profile.xml:4: write: invalid value for size: 65536 .* expected 1 to 65507"
    ):
        experiment_keys(parse_profile(CONNECTED % ("udp", "write", "64k")), {})
    with pytest.raises(ExperimentError, match="invalid value for"):
        converted(parse_profile(CONNECTED % ("udp", "read", "rand(1,66000)")), {}, plain=False)
    for protocol, size in (("tcp", "64k"), ("udp", "65507")):
        assert experiment_keys(parse_profile(CONNECTED % (protocol, "write", size)), {})


def test_a_flowop_on_a_connection_that_nothing_opens_is_refused_before_a_host_is_opened() -> None:
    text = (CONNECTED % ("tcp", "write", "64")).replace('protocol=tcp"', 'protocol=tcp conn=2"')
    with pytest.raises(ExperimentError, match="which nothing before it opens"):
        experiment_keys(parse_profile(text), {})


def test_unix_sockets_have_both_hosts_in_one_namespace_and_that_is_said() -> None:
    profile = parse_profile(CONNECTED % ("$proto", "write", "64"))
    assert experiment_keys(profile, {"proto": "unix"})["workload"]["path"] == "loopback"
    assert "path" not in experiment_keys(profile, {"proto": "tcp"})["workload"]
    assert any("one network namespace" in note for note in host_notes(profile, {"proto": "unix"}, None))
    assert "path: loopback" in converted(profile, {"proto": "unix"}, plain=False).text


@pytest.mark.parametrize(
    ("transactions", "refused"),
    [
        ("10:connect 10:disconnect", ""),
        ("10:connect 5:write,disconnect 5:read,disconnect", ""),
        ("4:connect,write,disconnect", ""),
        ("1:connect 1:disconnect 1:connect,write", ""),
        ("1:connect 1:disconnect 1:write", "write uses a connection without a name"),
        ("2:connect 3:disconnect", "disconnect uses"),
        ("1:connect 2:write,disconnect", "write uses"),
        ("1:accept,disconnect,disconnect", "disconnect uses"),
    ],
)
def test_a_connection_that_is_closed_by_then_is_refused_before_the_start(
    transactions: str, refused: str
) -> None:
    needs = {"write": "size=8", "read": "size=8", "disconnect": ""}
    text = "".join(
        f'<transaction iterations="{times}">'
        + "".join(
            f'<flowop type="{kind}" options="{needs.get(kind, "remotehost=h protocol=tcp")}"/>'
            for kind in kinds.split(",")
        )
        + "</transaction>"
        for times, kinds in (each.split(":") for each in transactions.split())
    )
    script = parse_profile(f'<profile name="p"><group nthreads="2">{text}</group></profile>').script
    for role in ("send", "receive"):
        if not refused:
            script_json(script, role)
            continue
        mirror = (
            {"write": "read", "disconnect": "disconnect"}[refused.split()[0]] if role == "receive" else None
        )
        wanted = f"{mirror} uses" if mirror else refused
        with pytest.raises(ExperimentError, match=f"{wanted}.*, which is closed by then"):
            script_json(script, role)


def test_whole_files_have_no_size_on_the_wire() -> None:
    flowops = (
        '<flowop type="connect" options="remotehost=h protocol=tcp"/>'
        '<flowop type="sendfile" options="dir=/srv"/>'
    )
    text = f'<profile name="p"><group nthreads="1"><transaction iterations="1">{flowops}</transaction></group></profile>'
    for role, call in (("send", "sendfile"), ("receive", "read")):
        (_, sent) = script_json(parse_profile(text).script, role)["groups"][0]["transactions"][0][
            "operations"
        ]
        assert sent["call"] == call and "size" not in sent
