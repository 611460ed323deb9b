"""Rules for stopping: how they are written, what is refused, and a campaign that ends when it has its answer."""

from __future__ import annotations

import asyncio
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import Notes, experiment, iodyno, run

from iodyno import designs
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.decisions.contrast import Observation
from iodyno.analysis.decisions.stopping import LEAST_FREEDOM, Judge, plan
from iodyno.analysis.summary import analyse
from iodyno.cli.main import run as main_run
from iodyno.core.decision import LONGEST, Standing, UntilSpec, bind, parse_rule
from iodyno.core.design import Design
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec
from iodyno.core.factor import Factor
from iodyno.core.outcome import Estimate
from iodyno.formats.experiment_file import parse_experiment
from iodyno.hosts.access import AgentProgram
from iodyno.report.decision import decision_sentence, look_line
from iodyno.report.figures.decision import figure as decision_figure
from iodyno.report.json import campaign
from iodyno.report.sentences import sentences
from iodyno.store.writer import write_document
from iodyno.strategies.until import with_rule

PROGRAM = AgentProgram(Path("/nowhere"), "0" * 64, "0123456789abcdef")
FACTORS = (Factor("size", (1024, 65536)), Factor("connections", (1, 8)))
RATIO = "ratio(size=1KiB/size=64KiB) > 1.5"
"""The simulated truth: a KiB in messages of 1 KiB costs 4.7 times as much."""


def asked(rule: str = RATIO, max_trials: int = 80, noise: float = 0.05) -> Experiment:
    truth = {"noise_between_trials": noise, "exact": True}
    hosts = {name: HostSpec(name, "simulated", {"truth": truth}) for name in ("client", "server")}
    return ruled(experiment(hosts=hosts, factors=FACTORS), rule, max_trials)


def ruled(
    plain: Experiment, rule: str | None, max_trials: int | None, folder: Path | None = None
) -> Experiment:
    found = with_rule(plain, rule, max_trials, folder)
    assert found is not None
    return found


def execute(
    experiment: Experiment, into: Path, notes: Notes | None = None, resume: Path | None = None
) -> Path:
    return asyncio.run(run(experiment, into, notes=notes, program=PROGRAM, resume=resume)).folder


# How a rule is written.


@pytest.mark.parametrize(
    ("text", "kind", "of", "bound"),
    [
        ("ratio(protocol) > 1.5", "ratio", "ratio", 1.5),
        ("ratio(size=1KiB/size=64KiB) < 0.9", "ratio", "ratio", 0.9),
        ("ratio(protocol, sender.cpu_ns_per_kib) > 1.5", "ratio", "ratio", 1.5),
        ("difference(size) > 0", "difference", "difference", 0.0),
        ("difference(size) > -2.5e3", "difference", "difference", -2500.0),
        ("difference(size) > 5 %", "ratio", "ratio", 1.05),
        ("size=1KiB costs more than size=64KiB", "ratio", "ratio", 1.0),
        ("no difference(size) beyond 2%", "no_difference", "ratio", 0.02),
        ("no  difference ( size , goodput_bits_per_s )  beyond 100", "no_difference", "difference", 100.0),
        ("width(ratio(size)) < 5%", "width", "ratio", 0.05),
        ("width(difference(size)) < 20", "width", "difference", 20.0),
        ("width(client.cpu_ns_per_kib) < 3%", "width", "mean", 0.03),
        ("steady(goodput_bits_per_s)", "steady", "mean", 1.0),
    ],
)
def test_rules_are_read(text: str, kind: str, of: str, bound: float) -> None:
    rule = parse_rule(text)
    assert (rule.kind, rule.of, rule.bound) == (kind, of, pytest.approx(bound))
    assert parse_rule(rule.text) == rule


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected ratio(X) > 1.5"),
        ("ratio(size)", "expected ratio(X) > 1.5"),
        ("ratio(size) >= 1.5", "expected ratio(X) > 1.5"),
        ("ratio(size) > 150%", "a ratio in per cent"),
        ("ratio(size) > 0", "more than 0"),
        ("difference(size) > -100%", "above -100 %"),
        ("no difference(size) beyond 0%", "a margin of 0; expected more than 0"),
        ("width(ratio(size)) < 5", "in per cent"),
        ("ratio(size=1KiB/connections=8) > 1", "expected ratio(X)"),
        ("x" * (LONGEST + 1), "invalid value 'str'"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"expected|unknown") as refused:
        parse_rule(text)
    assert said in str(refused.value)


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="ratiodfenwh size=1KiB/64(),<>.%-+e0", max_size=80)
    | st.text(max_size=80)
    | st.integers()
)
def test_any_text_is_a_rule_or_one_clear_error(written: object) -> None:
    try:
        rule = parse_rule(written)
    except ValueError as problem:
        assert "expected " in str(problem)
    else:
        assert math.isfinite(rule.bound)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ratio(siz) > 1.5", "unknown factor 'siz': expected size, connections, rounds"),
        ("ratio(size=2KiB/size=64KiB) > 1.5", "unknown level '2KiB' of size: expected 1KiB, 64KiB"),
        ("ratio(size=1KiB/size=1KiB) > 1.5", "one level twice"),
        ("ratio(size=1XiB/size=64KiB) > 1.5", "unknown unit 'XiB'"),
        (
            "ratio(connections) > 1.5",
            "has 3 levels; expected two of them, such as connections=1/connections=8",
        ),
        ("ratio(rounds) > 1.5", "has one level"),
        ("ratio(size, speed) > 1.5", "unknown outcome 'speed'"),
        ("ratio(size, moon.cpu_ns_per_kib) > 1.5", "expected client.cpu_ns_per_kib, server.cpu_ns_per_kib"),
        ("ratio(size, client.goodput_bits_per_s) > 1.5", "expected goodput_bits_per_s"),
    ],
)
def test_a_rule_about_something_else_says_what_there_is(text: str, said: str) -> None:
    factors = (FACTORS[0], Factor("connections", (1, 2, 8)), Factor("rounds", (1,)))
    with pytest.raises(ValueError, match=r"expected|unknown") as refused:
        bind(
            parse_rule(text),
            factors=factors,
            workload=asked().workload.workload,
            sender="client",
            hosts=("client", "server"),
        )
    assert said in str(refused.value)


def test_a_rule_of_the_experiment_file() -> None:
    text = (
        "name: a\nhosts: {client: {access: local}, server: {access: local}}\n"
        "workload: {kind: stream, sender: client, receiver: server}\nfactors: {size: [1KiB, 64KiB]}\n"
    )
    found = parse_experiment(text + "until: ratio(size) > 1.5\nmax_trials: 40\n", file="a.yaml").until
    assert found is not None and (found.max_trials, found.numerator, found.denominator) == (40, 65536, 1024)
    assert found.outcome == "client.cpu_ns_per_kib"
    for more, said in (
        ("until: ratio(siz) > 1.5\n", "a.yaml:5: until: 'ratio(siz) > 1.5': unknown factor 'siz'"),
        ("until: soon\n", "a.yaml:5: invalid value 'soon' for until: expected ratio(X)"),
        ("max_trials: 40\n", "without `until` the design says how many trials there are"),
    ):
        with pytest.raises(ExperimentError) as refused:
            parse_experiment(text + more, file="a.yaml")
        assert said in str(refused.value)


# What the rule says of numbers.


def observations(ratio: float, blocks: int, spread: float = 0.05) -> list[Observation]:
    """Values whose spread is known: a wave over the blocks, of which the two levels get opposite signs."""
    return [
        Observation({"size": size}, block, value * math.exp(spread * sign * math.cos(2.4 * block)))
        for block in range(blocks)
        for size, value, sign in ((1024, 100 * ratio, 1), (65536, 100.0, -1))
    ]


def judge(rule: str, factors: tuple[Factor, ...] = FACTORS[:1]) -> Judge:
    spec = bind(
        parse_rule(rule),
        factors=factors,
        workload=asked().workload.workload,
        sender="client",
        hosts=("client", "server"),
        max_trials=200,
    )
    return Judge(spec, plan(2, 2, 200))


@pytest.mark.parametrize(
    ("rule", "ratio", "answer"),
    [
        (RATIO, 2.0, "yes"),
        (RATIO, 1.0, "no"),
        (RATIO, 1.5, "undecided"),
        ("ratio(size=1KiB/size=64KiB) < 1.5", 2.0, "no"),
        ("ratio(size) > 1.5", 2.0, "no"),  # the last level over the first
        ("size=1KiB costs more than size=64KiB", 1.2, "yes"),
        ("difference(size=1KiB/size=64KiB) > 50", 2.0, "yes"),
        ("difference(size=1KiB/size=64KiB) > 20%", 2.0, "yes"),
        ("no difference(size) beyond 10%", 1.0, "yes"),
        ("no difference(size) beyond 10%", 1.5, "no"),
        ("no difference(size) beyond 2%", 1.0, "undecided"),
        ("width(ratio(size)) < 20%", 1.3, "yes"),
        ("width(ratio(size)) < 0.5%", 1.3, "undecided"),
        ("width(client.cpu_ns_per_kib) < 10%", 1.3, "yes"),
    ],
)
def test_answers(rule: str, ratio: float, answer: str) -> None:
    assert judge(rule).look(observations(ratio, 16), 16).answer == answer


@pytest.mark.parametrize(
    ("rounds", "steady"),
    [
        ((100, 100, 100, 100), False),  # five are needed
        ((100, 100, 100, 100, 100), True),
        ((300, 100, 100, 100, 100, 100), True),  # the last five count
        ((90, 110, 100, 110, 90), True),  # a range of 20 %, no slope
        ((89, 111, 100, 111, 89), False),
        ((95, 97.5, 100, 102.5, 105), True),  # a slope of 10 % from end to end
        ((94.5, 97.2, 100, 102.8, 105.5), False),
        ((0, 0, 0, 0, 0), False),
    ],
)
def test_rounds_are_steady_by_range_and_slope(rounds: tuple[float, ...], steady: bool) -> None:
    calm = [Observation({"size": 1024}, block, 50.0) for block in range(len(rounds))]
    seen = [Observation({"size": 65536}, block, value) for block, value in enumerate(rounds)]
    found = judge("steady(goodput_bits_per_s)").look([*calm, *seen], len(rounds))
    assert found.answer == ("yes" if steady else "undecided")
    if steady:
        if max(rounds[-5:]) > 100:  # of all points that which varies most
            assert (found.low, found.high) == (min(rounds[-5:]), max(rounds[-5:]))
        assert decision_sentence(found).startswith("Steady: steady(goodput_bits_per_s). ")


def test_what_more_is_needed_is_about_what_it_takes() -> None:
    rule = judge("ratio(size=1KiB/size=64KiB) > 1.1")
    early = rule.look(observations(1.16, 8), 8)
    assert early.answer == "undecided" and early.more_trials is not None
    blocks = (early.trials + early.more_trials) // 2
    assert rule.look(observations(1.16, blocks + 3), blocks + 3).answer == "yes"
    never = rule.look([replace(o, value=o.value) for o in observations(1.1, 8)], 8)
    assert never.more_trials is None or never.more_trials > 500


def test_an_early_narrow_interval_wants_a_block_that_confirms_it() -> None:
    rule = judge("width(ratio(size)) < 20%")
    blocks = LEAST_FREEDOM + 1
    assert rule.look(observations(1.3, blocks, 0.01), blocks).answer == "undecided"
    assert rule.look(observations(1.3, blocks, 0.01), blocks).more_trials == 2
    assert rule.look(observations(1.3, blocks + 1, 0.01), blocks + 1).answer == "yes"


@pytest.mark.parametrize("rule", ["width(ratio(size)) < 90%", "width(client.cpu_ns_per_kib) < 90%"])
def test_no_interval_stands_beside_an_answer_that_does_not_rest_on_it(rule: str) -> None:
    """One of two blocks may be narrower than asked, and the rule does not believe it: it would contradict the answer."""
    for blocks in (2, LEAST_FREEDOM):
        found = judge(rule).look(observations(1.3, blocks, 0.01), blocks)
        assert found.answer == "undecided" and found.more_trials and found.estimate
        assert (found.low, found.high) == (None, None) == (found.looks[-1].low, found.looks[-1].high)
        assert "[" not in look_line(found) and "fewer than 5 degrees of freedom" in decision_sentence(found)
    found = judge(rule).look(observations(1.3, LEAST_FREEDOM + 2, 0.01), LEAST_FREEDOM + 2)
    assert found.answer == "yes" and "[" in look_line(found)


def test_where_there_is_no_interval_it_says_why() -> None:
    rule = judge(RATIO)
    assert rule.look([], 1, problem="a trial is failed: lost").missing == "a trial is failed: lost"
    assert "one block says nothing" in rule.look(observations(2.0, 1), 1).missing
    same = [replace(each, value=1.0) for each in observations(1.0, 6)]
    found = rule.look(same, 6)
    assert found.answer == "undecided" and "exactly the same value" in found.missing
    zero = [replace(each, value=0.0) for each in observations(1.0, 6)]
    assert "ask for a difference" in rule.look(zero, 6).missing
    one_sided = [each for each in observations(1.0, 6) if each.levels["size"] == 1024]
    assert rule.look(one_sided, 6).missing == "too few trials for an interval"
    for standing in (found, rule.look([], 1, problem="lost")):
        assert "nan" not in decision_sentence(standing).lower() + look_line(standing).lower()


COUNTED = "client.cpu_ns_per_kib"


def counted(large: float, small: float, blocks: int, resolution: float) -> list[Observation]:
    """Trials that all counted the same number of whole operations."""
    return [
        Observation({"size": size}, block, value, resolution)
        for block in range(blocks)
        for size, value in ((65536, large), (1024, small))
    ]


@pytest.mark.parametrize(
    ("rule", "enough"),
    [
        (f"width({COUNTED}) < 10%", 0.04),
        ("width(ratio(size)) < 10%", 0.03),
        ("width(difference(size)) < 10", 0.03),
        ("difference(size) > 0", 0.06),
        ("ratio(size) > 1", 0.06),
        ("no difference(size) beyond 20%", 0.06),
    ],
)
def test_equal_counts_of_whole_operations_are_no_certainty(rule: str, enough: float) -> None:
    """Each window cut off alike: 100 and 110 within one operation of `enough` of them are known as well as that allows."""
    fine, coarse = (
        judge(rule).look(counted(110.0, 100.0, 12, share * 100), 12) for share in (enough, 2.5 * enough)
    )
    assert (fine.answer, coarse.answer) == ("yes", "undecided")
    assert coarse.low is not None and coarse.high is not None and coarse.low < coarse.high
    assert coarse.more_trials is None and "one count more or less" in coarse.method
    assert "measure for longer" in decision_sentence(coarse)
    unknown = judge(rule).look(counted(110.0, 100.0, 12, 0.0), 12)
    assert unknown.answer == "undecided" and "exactly the same value" in unknown.missing


def test_trials_of_a_slow_factor_count_no_finer_than_one() -> None:
    rule = judge("difference(size) > 0")
    plots = Judge(rule.spec, plan(2, 2, 200, whole_plots=True)).look(counted(110.0, 100.0, 12, 15.0), 12)
    assert plots.answer == "undecided" and plots.coarse


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.floats(-1e6, 1e6)), max_size=14),
    st.sampled_from(
        [RATIO, "difference(size) > 0", "width(ratio(size)) < 5%", "no difference(size) beyond 2%"]
    ),
)
def test_no_data_makes_a_number_that_is_none(data: list[tuple[int, bool, float]], rule: str) -> None:
    found = judge(rule).look(
        [Observation({"size": 1024 if small else 65536}, block, value) for block, small, value in data], 3
    )
    for value in (found.estimate, found.low, found.high):
        assert value is None or math.isfinite(value)
    if found.low is not None and found.high is not None and found.estimate is not None:
        assert found.low <= found.estimate <= found.high
    json.dumps(campaign_values(found), allow_nan=False)


def campaign_values(found: Standing) -> dict[str, object]:
    return {"text": decision_sentence(found), "estimate": found.estimate, "more": found.more_trials}


def test_the_figure_shows_every_look_with_an_interval(tmp_path: Path) -> None:
    folder = execute(asked("ratio(size=1KiB/size=64KiB) > 4.7", 24), tmp_path)
    summary = analyse(read_dataset(folder))
    found = decision_figure(summary)
    assert found is not None and summary.decision is not None
    looks, bound = found.panels[0].series
    assert [mark.x for mark in looks.marks] == [
        look.trials for look in summary.decision.looks if look.low is not None
    ]
    assert {mark.y for mark in bound.marks} == {4.7}
    assert decision_figure(replace(summary, decision=None)) is None


# A campaign that ends when it has its answer.


def test_a_campaign_stops_when_it_is_decided(tmp_path: Path) -> None:
    notes = Notes()
    folder = execute(asked(), tmp_path, notes)
    content = json.loads((folder / "campaign.json").read_text())
    found = notes.looks[-1]
    assert (found.answer, found.ended) == ("yes", "decided") and found.trials < 30
    assert found.estimate == pytest.approx(4.7, rel=0.15)
    assert content["finished"] and len(content["design"]["trials"]) == 80
    assert Standing.from_json(content["until"]) == found
    assert [look.blocks for look in found.looks] == list(range(1, found.blocks + 1))
    # The blocks are complete, so that drift falls on all points.
    assert len(notes.manifests) == 4 * found.blocks
    summary = analyse(read_dataset(folder))
    assert summary.planned == found.trials and not any("planned trials" in d.text for d in summary.warnings)
    assert sentences(summary)[0].text.startswith(f"Yes: {RATIO}. client.cpu_ns_per_kib at size=1KiB over")
    assert campaign(summary)["decision"]["answer"] == "yes"
    again = Notes()
    execute(asked(), tmp_path, again, resume=folder)
    assert not again.manifests, "nothing is left to do"


def test_what_the_rule_has_answered_no_sentence_leaves_open(tmp_path: Path) -> None:
    summary = analyse(read_dataset(execute(asked(), tmp_path)))

    def vague(found: Estimate) -> Estimate:
        value = found.estimate
        return found if value is None else replace(found, low=value / 5, high=value * 5, spread=None)

    # Trials that differ mostly by their blocks: intervals overlap, and the rule knows more, as it compares within blocks.
    points = tuple(
        replace(p, outcomes={name: vague(found) for name, found in p.outcomes.items()})
        for p in summary.points
    )
    vaguely = replace(summary, points=points)
    told = [s.text for s in sentences(vaguely)]
    costs = {
        host: next(t for t in told if t.startswith(f"On {host}, a KiB costs"))
        for host in ("client", "server")
    }
    assert "cannot be told apart" not in costs["client"]
    assert not [text for text in told if text.startswith("From message size")]
    # What the rule was not about stays open, and all of it without a decision.
    assert "cannot be told apart" in costs["server"]
    assert any(text.startswith("From 1 to 8 connections") and "may rise or fall" in text for text in told)
    without = [s.text for s in sentences(replace(vaguely, decision=None))]
    assert any(text.startswith("From message size") and "may rise or fall" in text for text in without)


class Stopped(Notes):
    """Interrupts the campaign in its seventh trial."""

    def on_trial_start(self, planned: object, attempt: int) -> None:
        if len(self.manifests) == 6:
            raise asyncio.CancelledError


def test_an_interrupted_decision_goes_on_where_it_was(tmp_path: Path) -> None:
    rule = "ratio(size=1KiB/size=64KiB) > 4.7"
    spec = asked(rule, 16)
    with pytest.raises(asyncio.CancelledError):
        execute(spec, tmp_path, Stopped())
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "campaign.json").read_text())["until"]["blocks"] == 1
    notes = Notes()
    execute(spec, tmp_path, notes, resume=folder)
    assert len(notes.manifests) == 10 and [look.blocks for look in notes.looks] == [2, 3, 4]
    found = notes.looks[-1]
    assert (found.answer, found.ended) == ("undecided", "limit")
    assert "the limit was reached after 16 of at most 16 trials" in decision_sentence(found)
    # The limit is raised: the trials stay, and the sequence keeps what it was tuned for.
    more = Notes()
    execute(ruled(spec, None, 24, folder), tmp_path, more, resume=folder)
    assert len(more.manifests) == 8 and more.looks[-1].tuned_trials == found.tuned_trials
    assert more.looks[-1].looks[:4] == found.looks


def test_a_rule_is_not_changed_after_a_look(tmp_path: Path) -> None:
    folder = execute(asked(max_trials=8), tmp_path)
    for rule, most, said in (
        ("ratio(size) > 2", None, "the campaign was begun with"),
        (None, 4, "expected 8 or more"),
    ):
        with pytest.raises(ExperimentError, match=said):
            with_rule(replace(asked(), until=None), rule, most, folder)
    kept = ruled(experiment(factors=FACTORS), None, None, folder)
    assert kept.until is not None and kept.until.rule.text == RATIO and kept.until.max_trials == 8


def test_a_header_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    folder = execute(asked(max_trials=8), tmp_path)
    path = folder / "campaign.json"
    content = json.loads(path.read_text())
    content["until"] = {"answer": "yes"}
    write_document(path, content)
    with pytest.raises(StoreError, match="decision cannot be read"):
        execute(asked(max_trials=8), tmp_path, resume=folder)


FIVE = tuple(
    Factor(name, levels)
    for name, levels in (
        ("size", (1024, 65536)),
        ("connections", (1, 8)),
        ("window", (65536, 262144)),
        ("nodelay", (False, True)),
        ("engine", ("threads", "epoll")),
    )
)


def planned(design: DesignSpec) -> Design:
    return designs.plan(ruled(replace(experiment(factors=FIVE), design=design), RATIO, 96))


def test_blocks_of_a_fraction_tell_it_or_are_refused() -> None:
    design = planned(DesignSpec("fractional", resolution=5))
    assert len(design.trials) == 96 and len({trial.block for trial in design.trials}) == 6
    half = [
        Observation(
            t.point.levels,
            t.block,
            100.0 * (2 if t.point.levels["size"] == 1024 else 1) * (1 + 0.01 * (t.order % 7)),
        )
        for t in design.trials[:48]
    ]
    found = Judge(
        bind(
            parse_rule(RATIO),
            factors=FIVE,
            workload=asked().workload.workload,
            sender="client",
            hosts=("client", "server"),
        ),
        plan(16, 16, 96),
    ).look(half, 3)
    assert found.answer == "yes" and found.estimate == pytest.approx(2.0, rel=0.02)
    with pytest.raises(ExperimentError, match="cannot tell what size does"):
        planned(DesignSpec("fractional", resolution=3))


def test_a_factor_that_is_slow_to_change_is_measured_once_a_block() -> None:
    """What a change of the factor brings is shared by all trials until the next one."""
    source = random.Random(1)
    made = []
    for block in range(10):
        for size in (1024, 65536):
            shared = source.gauss(0, 0.2)
            made += [
                Observation({"size": size, "connections": n}, block, math.exp(shared + source.gauss(0, 0.01)))
                for n in (1, 2, 4, 8)
            ]
    rule = judge("no difference(size) beyond 50%")
    plots = Judge(rule.spec, plan(8, 8, 200, whole_plots=True)).look(made, 10)
    naive = Judge(rule.spec, plan(8, 8, 200)).look(made, 10)
    assert (
        plots.low is not None and plots.high is not None and naive.low is not None and naive.high is not None
    )
    assert plots.estimate == pytest.approx(naive.estimate)
    assert plots.low < 1 < plots.high and plots.high / plots.low > naive.high / naive.low


def test_too_few_trials_and_no_rule() -> None:
    with pytest.raises(ExperimentError, match="visiting every point once takes 4"):
        asked(max_trials=7)
    with pytest.raises(ExperimentError, match="no rule"):
        with_rule(experiment(), None, 7)
    assert isinstance(asked().until, UntilSpec)


def test_the_plan_says_when_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "name: a\nhosts: {client: {access: simulated}, server: {access: simulated}}\n"
        "workload: {kind: stream, sender: client, receiver: server}\nfactors: {size: [1KiB, 64KiB]}\n"
        "until: ratio(size) > 1.5\nmax_trials: 20\n"
    )
    assert main_run(["plan", str(file)]) == 0
    out = capsys.readouterr().out
    assert "= 20 trials" in out and "at most: it ends when it is known whether ratio(size) > 1.5" in out
    assert main_run(["check", str(file)]) == 0
    assert "ratio(size) > 1.5" in capsys.readouterr().out


def test_a_mistake_on_the_command_line_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "name: a\nhosts: {client: {access: simulated}, server: {access: simulated}}\n"
        "workload: {kind: stream, sender: client, receiver: server}\nfactors: {size: [1KiB, 64KiB]}\n"
    )
    for words, said in (
        (["--until", "ratio(siz) > 1"], "--until: 'ratio(siz) > 1': unknown factor 'siz': expected size"),
        (["--until", ""], "invalid value '' for --until"),
        (["--until", "soon"], "invalid value 'soon' for --until: expected ratio(X) > 1.5"),
        (
            ["--until", "ratio(size) > 1", "--max-trials", "3"],
            "invalid value for --max-trials: 3 trials at most",
        ),
    ):
        refused = iodyno("run", str(file), *words, cwd=tmp_path)
        assert refused.returncode == 2 and said in refused.stderr
