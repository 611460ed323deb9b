"""A cost per KiB taken apart into how many steps a KiB has and what one takes, on numbers that are known."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from iodyno.analysis.compare import ratio_estimate
from iodyno.analysis.function_change import FunctionChange, ProfileChange, Verdict
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.mechanisms import MECHANISMS, MechanismChange
from iodyno.analysis.path_steps import STEPS, StepChange, step_changes
from iodyno.analysis.stacks import Function
from iodyno.core.outcome import Estimate
from iodyno.report.function_json import step_values
from iodyno.report.function_sentences import between_places, why

KINDS = {kind.name: kind for kind in MECHANISMS}


def near(value: float, unit: str = "ns/KiB", width: float = 0.02) -> Estimate:
    return Estimate(value, value * (1 - width), value * (1 + width), 3, unit, "made")


def function(name: str, within: tuple[float, float]) -> FunctionChange:
    """A function that does nothing itself."""
    nothing = Estimate(0.0, 0.0, 0.1, 3, "ns/KiB", "made")
    verdict: Verdict = "rises" if within[1] > within[0] else "falls"
    return FunctionChange(
        function=Function(name, "kernel"),
        samples=(100, 100),
        exclusive=(nothing, nothing),
        inclusive=(near(within[0]), near(within[1])),
        difference=nothing,
        explains=nothing,
        ratio=near(1.0, "1"),
        inclusive_ratio=near(within[1] / within[0], "1"),
        verdict="unchanged",
        inclusive_verdict=verdict,
        certain=False,
        inclusive_certain=True,
    )


def counted(name: str, first: float, second: float, host: str = "client") -> MechanismChange:
    kind = KINDS[name]
    a, b = near(first, kind.unit), near(second, kind.unit)
    return MechanismChange(kind, host, a, b, ratio_estimate(a, b))


def change(*functions: FunctionChange, by: float = 1000.0) -> ProfileChange:
    point = SimpleNamespace(
        labels={"size": "64KiB"},
        host="client",
        cost=near(500.0),
        sampling=SimpleNamespace(event="cycles"),
        reach="all",
        with_programs=False,
        per="KiB",
        lacks=(),
    )
    other = SimpleNamespace(**{**vars(point), "labels": {"size": "1KiB"}, "cost": near(500.0 + by)})
    return ProfileChange(
        cast(PointProfile, point), cast(PointProfile, other), near(by), near(3.0, "1"), functions, 0.0, 0
    )


def one(found: list[StepChange]) -> StepChange:
    (step,) = found
    return step


def test_number_and_cost_of_a_step_multiply_to_its_cost_per_kib() -> None:
    # 64 KiB and 8 KiB in a segment: 1/64 and 1/8 of a segment in a KiB; 16 and 400 ns/KiB: 1024 and 3200 ns each.
    step = one(
        step_changes(
            change(function("__tcp_transmit_skb", (16.0, 400.0))),
            [counted("device_segment_bytes", 65536, 8192)],
        )
    )
    assert [count.estimate for count in step.count] == pytest.approx([1 / 64, 1 / 8])
    assert [each.estimate for each in step.each] == pytest.approx([1024.0, 3200.0])
    assert step.each[0].unit == "ns"
    assert step.count_ratio.estimate == pytest.approx(8)
    assert step.each_ratio.estimate == pytest.approx(3200 / 1024)
    assert step.count_ratio.estimate * step.each_ratio.estimate == pytest.approx(400 / 16)
    for found in (*step.count, step.count_ratio, *step.each, step.each_ratio):
        assert found.low is not None and found.high is not None and found.estimate is not None
        assert found.low < found.estimate < found.high


def test_steps_that_are_counted_per_mib_are_so_per_kib() -> None:
    step = one(
        step_changes(
            change(function("net_rx_action", (100.0, 600.0))), [counted("net_rx_runs_per_mib", 102.4, 512)]
        )
    )
    assert [count.estimate for count in step.count] == pytest.approx([0.1, 0.5])
    assert [each.estimate for each in step.each] == pytest.approx([1000.0, 1200.0])


def test_what_moves_little_or_was_not_counted_is_left_out() -> None:
    segments = counted("device_segment_bytes", 65536, 8192)
    assert not step_changes(change(function("__tcp_transmit_skb", (16.0, 100.0))), [segments])
    assert not step_changes(change(function("__tcp_transmit_skb", (16.0, 400.0))), [])
    assert not step_changes(change(function("tcp_ack", (16.0, 400.0))), [segments])
    # That of the other host is another one.
    other = counted("device_segment_bytes", 65536, 8192, "server")
    assert not step_changes(change(function("__tcp_transmit_skb", (16.0, 400.0))), [other])
    unknown = Estimate(None, None, None, 0, "B", "none", missing="not read")
    gone = MechanismChange(segments.kind, "client", unknown, unknown, ratio_estimate(unknown, unknown))
    assert not step_changes(change(function("__tcp_transmit_skb", (16.0, 400.0))), [gone])


def test_the_step_that_moves_most_comes_first_by_any_name_of_the_compiler() -> None:
    found = step_changes(
        change(function("tcp_sendmsg", (50.0, 250.0)), function("__tcp_transmit_skb.part.0", (16.0, 400.0))),
        [counted("device_segment_bytes", 65536, 8192), counted("bytes_per_write", 65536, 1024)],
    )
    assert [step.kind.one for step in found] == ["segment", "write"]


def test_the_sentence_says_more_or_costlier_and_does_not_say_it_twice() -> None:
    texts = [
        sentence.text
        for sentence in why(
            change(function("__tcp_transmit_skb", (25.0, 200.0)), function("tcp_sendmsg", (50.0, 850.0))),
            [
                counted("device_segment_bytes", 65536, 8192),
                counted("bytes_per_write", 65536, 1024),
                counted("segments_per_ack", 2, 20),
            ],
            ["size"],
        )
    ]
    (steps,) = [text for text in texts if text.startswith("Step by step, a KiB has on client")]
    writes, segments = steps.split("; ")
    assert (
        "client 64.0 [" in writes
        and "] times as many writes, each of which takes 850 ns in tcp_sendmsg" in writes
    )
    assert "instead of 3.20 us" in writes
    assert "as many segments to the device, each of which takes as long as before" in segments
    (behind,) = [text for text in texts if text.startswith("With it")]
    assert "segments per acknowledgement go from 2.00 to 20.0" in behind
    assert "bytes per write" not in behind and "bytes per segment" not in behind


def test_what_cannot_be_told_apart_is_not_called_the_same() -> None:
    wide = function("tcp_sendmsg", (350.0, 4000.0))
    ends = (
        Estimate(350.0, 20.0, 680.0, 3, "ns/KiB", "made"),
        Estimate(4000.0, 2300.0, 5700.0, 3, "ns/KiB", "made"),
    )
    (steps,) = [
        sentence.text
        for sentence in why(
            change(replace(wide, inclusive=ends)), [counted("bytes_per_write", 65536, 1024)], ["size"]
        )
        if sentence.text.startswith("Step by step")
    ]
    assert "of which it cannot be told whether one takes longer or shorter in tcp_sendmsg" in steps
    assert "(22.4 us and 4.00 us, × 0.18 [" in steps and "as long as before" not in steps
    # Nor of a number of steps.
    vague = Estimate(1024.0, 500.0, 4000.0, 3, "B", "made")
    unsure = MechanismChange(
        KINDS["bytes_per_write"], "client", near(1100.0, "B"), vague, ratio_estimate(near(1100.0, "B"), vague)
    )
    (steps,) = [
        sentence.text
        for sentence in why(change(function("tcp_sendmsg", (50.0, 850.0))), [unsure], ["size"])
        if sentence.text.startswith("Step by step")
    ]
    assert "a number of writes that cannot be told from that before (× 1.07 [" in steps


def test_what_only_one_of_two_points_has_is_no_end_of_a_change() -> None:
    first, second = (
        {"size": "64KiB", "connections": "32", "window": "256KiB"},
        {"variant": "paced", "think": "1ms"},
    )
    assert (
        between_places(first, second, ["size", "connections", "variant"], ["window", "think"])
        == "between the two"
    )
    said = between_places(first, {**second, "size": "1KiB"}, ["size", "variant"], ["window"])
    assert said == "from 64KiB messages to 1KiB messages"


def test_what_is_set_together_is_named_where_it_differs() -> None:
    first = {"connections": "32", "size": "1KiB", "window": "256KiB"}
    second = {"connections": "4000", "size": "1KiB", "window": "32KiB"}
    said = between_places(first, second, ["size", "connections"], ["window"])
    assert said == "from 32 connections, window 256KiB to 4000 connections, window 32KiB at 1KiB messages"
    said = between_places(first, {**first, "size": "64KiB"}, ["size", "connections"], ["window"])
    assert said == "from 1KiB messages to 64KiB messages at 32 connections"


def test_every_step_is_counted_by_a_mechanism_and_known_to_json() -> None:
    assert {step.mechanism for step in STEPS} <= set(KINDS)
    found: list[dict[str, Any]] = json.loads(
        json.dumps(
            step_values(
                step_changes(
                    change(function("__tcp_transmit_skb", (16.0, 400.0))),
                    [counted("device_segment_bytes", 65536, 8192)],
                )
            )
        )
    )
    assert found[0]["step"] == "segment" and found[0]["function"] == "__tcp_transmit_skb"
    assert found[0]["per_kib_ratio"]["estimate"] == pytest.approx(8)
    assert found[0]["each_ns"][1]["estimate"] == pytest.approx(3200)
