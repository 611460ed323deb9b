"""Credit flow control: a sender may have as many frames on their way as the receiver has given it credits.

A credit is taken when a frame begins to be sent and is back after the frame's own time and a round trip, in which the
receiver has freed the buffer. Nothing is lost; what is short of credits waits. So credits cover a distance, and beyond it
the rate is credits / (frame time + round trip), however fast the line is.
"""

from __future__ import annotations

import math

from iodyno.analysis.queueing.md1 import md1
from iodyno.analysis.queueing.mdc import MOST_SERVERS, mdc
from iodyno.analysis.queueing.station import Method, StationResult, check_count, check_rate, check_service
from iodyno.analysis.queueing.times import Times
from iodyno.core.errors import ExperimentError

LIGHT_IN_FIBRE_M_PER_S = 2.0e8
"""Speed of light over 1.468, the group index of single-mode fibre at 1550 nm (ITU-T G.652), rounded: 5 us/km."""
COVERED = Method(True, "credits cover the round trip and never bind: M/D/1")
BINDING = Method(
    False, "lower bound: the greater of M/D/1 (the line) and M/D/c (the credits, each held for a round trip)"
)


def credit_rate_per_s(credits_: int, frame_time_s: float, round_trip_s: float) -> float:
    """The most frames per second: the line's 1 / s, or what the credits let through, B / (s + round trip).

    Source: Little's law for credits, of which B are out at most. Raises ExperimentError for a bad argument.
    """
    _check(credits_, frame_time_s, round_trip_s)
    return min(1 / frame_time_s, credits_ / (frame_time_s + round_trip_s))


def credits_for(frame_time_s: float, round_trip_s: float) -> int:
    """The least credits with which a line is never short of them: 1 + round trip / frame time, rounded up.

    Source: B s >= s + round trip (Little's law). Raises ExperimentError for a bad argument.
    """
    _check(1, frame_time_s, round_trip_s)
    return 1 + math.ceil(round_trip_s / frame_time_s * (1 - 1e-12))


def covered_distance_m(
    credits_: int,
    frame_time_s: float,
    speed_m_per_s: float = LIGHT_IN_FIBRE_M_PER_S,
    *,
    own_time: bool = True,
) -> float:
    """The longest line in metres on which so many credits keep it busy: (B - 1) s v / 2.

    Without `own_time` the usual rule, B s v / 2, which forgets that a credit is also held while its own frame is sent.
    Source: there and back in the time of B - 1 frames. Raises ExperimentError for a bad argument.
    """
    _check(credits_, frame_time_s, 0.0)
    if not (math.isfinite(speed_m_per_s) and speed_m_per_s > 0):
        raise ExperimentError(
            f"invalid value: a speed of {speed_m_per_s:g} m/s; expected above 0", where="credits"
        )
    return (credits_ - 1 if own_time else credits_) * frame_time_s * speed_m_per_s / 2


def credit_flow(
    arrival_rate_per_s: float, frame_time_s: float, round_trip_s: float, credits_: int
) -> StationResult:
    """A line of constant frames with B credits and Poisson arrivals: waits of frames before they are sent.

    Frame n begins at max(its arrival, begin of n - 1 plus s, begin of n - B plus s plus round trip). Without the last term this
    is M/D/1; without the second one it is M/D/B with service s + round trip, as constant service ends in order. Each alone is
    a lower bound, path by path; where B s >= s + round trip the first is exact. The response ends when the frame is sent, and
    is at the other end half a round trip later. Raises ExperimentError for bad arguments, or more than line or credits carry.
    """
    model = f"credits, {credits_}"
    _check(credits_, frame_time_s, round_trip_s)
    check_rate(arrival_rate_per_s, model)
    most_per_s = credit_rate_per_s(credits_, frame_time_s, round_trip_s)
    if arrival_rate_per_s >= most_per_s * (1 - 1e-15):
        raise ExperimentError(
            f"unstable: {arrival_rate_per_s:.6g} frames/s arrive, and {credits_} credits over a round trip of"
            f" {round_trip_s * 1e6:.4g} us let {most_per_s:.6g}/s through ({most_per_s * frame_time_s:.1%} of the line)",
            where=model,
            advice=f"a lower load, or {credits_for(frame_time_s, round_trip_s)} credits, which cover this round trip",
        )
    line = md1(arrival_rate_per_s, frame_time_s)
    assert line.waiting is not None
    waiting_s, waiting, method = line.waiting_time_s, line.waiting, COVERED
    if credits_ < credits_for(frame_time_s, round_trip_s):
        if credits_ > MOST_SERVERS:
            raise ExperimentError(
                f"invalid value: {credits_} credits that do not cover the round trip; expected "
                f"{MOST_SERVERS} at most",
                where=model,
            )
        held = mdc(arrival_rate_per_s, frame_time_s + round_trip_s, credits_)
        assert held.waiting is not None
        waiting_s, method = max(waiting_s, held.waiting_time_s), BINDING
        of_line, of_credits = line.waiting, held.waiting
        waiting = Times(lambda t: max(of_line.exceeds(t), of_credits.exceeds(t)), frame_time_s + round_trip_s)
    return StationResult(
        model=model,
        servers=1,
        service_time_s=frame_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=arrival_rate_per_s * frame_time_s,
        response_time_s=frame_time_s + waiting_s,
        waiting_time_s=waiting_s,
        queue_length=arrival_rate_per_s * waiting_s,
        number_in_system=arrival_rate_per_s * (frame_time_s + waiting_s),
        method=method,
        waiting=waiting,
        response=waiting.later_by(frame_time_s),
        missing="no probabilities of states: frames that wait and credits that are out are two numbers",
    )


def _check(credits_: int, frame_time_s: float, round_trip_s: float) -> None:
    check_count(credits_, "credits", "credits")
    check_service(frame_time_s, "credits")
    if not (math.isfinite(round_trip_s) and round_trip_s >= 0):
        raise ExperimentError(
            f"invalid value: a round trip of {round_trip_s:g} s; expected 0 or more", where="credits"
        )
