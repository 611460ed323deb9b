"""Payload back and both ways, copies by the kernel, connections that could not be made."""

from __future__ import annotations

from collections.abc import Mapping

from iodyno.analysis import calls, goodput
from iodyno.analysis.host_data import HostData
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import WarningCode

SECOND = 10**9


def host(name: str, role: str, got: int, counted: Mapping[str, Mapping[str, int]] | None = None) -> HostData:
    """One host whose measured window is a second; `counted`: growth by sensor and metric."""
    readings = {
        sensor: {0: Reading(SECOND, 0, None, {(metric, ""): value for metric, value in values.items()})}
        for sensor, values in (counted or {}).items()
    }
    record = Record(0, "measured", 0, SECOND, got, 10, 1, 0)
    return HostData(name, role, (0,), {"result": {"bytes": got}}, [record], {}, readings)


def trial(direction: str, near: HostData, far: HostData) -> Trial:
    hosts, settings = {end.name: end for end in (near, far)}, {"direction": direction}
    return Trial("t", 0, 1, 0, 0, "p01", {}, settings, "finished", None, "", {}, (), hosts)


def test_goodput_is_what_the_end_got_that_the_payload_goes_to() -> None:
    near, far = host("a", "send", 500), host("b", "receive", 300)
    for direction, got in (("forward", 300), ("reverse", 500), ("both", 800)):
        assert goodput.goodput(trial(direction, near, far)).value == 8 * got
    back = trial("reverse", near, far)
    assert (back.end("send"), back.end("receive")) == (far, near)


def test_both_ways_no_end_gets_more_than_the_other_sent() -> None:
    def said(sent: int) -> list[str]:
        near = host("a", "send", 500, {"both_ways": {"stream.sent_bytes": 300}})
        far = host("b", "receive", 300, {"both_ways": {"stream.sent_bytes": sent}})
        return [warning.text for warning in calls.check(trial("both", near, far))]

    assert said(500) == []
    assert said(499) == ["a got 500 bytes, more than the 499 that b sent"]


def test_zero_copy_that_copies_everything_is_warned_of() -> None:
    def said(copied: int) -> list[WarningCode]:
        counted = {"zerocopy": {"zerocopy.completed": 1000, "zerocopy.copied": copied}}
        near = host("a", "send", 1, counted)
        return [warning.code for warning in calls.check(trial("forward", near, host("b", "receive", 1)))]

    assert said(1000) == [WarningCode.OPTION_NOT_OBTAINED]
    assert said(900) == []


def test_connections_that_could_not_be_made_are_told() -> None:
    def said(**counts: int) -> list[WarningCode]:
        counted = {f"connect.{name}": count for name, count in {"opened": 1000, **counts}.items()}
        near = host("a", "send", 1, {"connects": counted})
        return [warning.code for warning in calls.check(trial("forward", near, host("b", "receive", 1)))]

    assert said() == [] and said(without_port=5) == []
    assert said(refused=1) == [WarningCode.CONNECTIONS_LOST]
    assert said(without_port=50) == [WarningCode.GENERATOR_LIMITED]
