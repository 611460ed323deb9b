"""Signals of the flows, as TCP counts them at the sender: what held them up, what was sent again, what waits to be sent."""

from __future__ import annotations

from iodyno.analysis.limiter.signals import (
    Signal,
    View,
    absent,
    grown,
    nothing,
    of_window,
    over,
    ratio,
    total,
)
from iodyno.analysis.readings import Reading

_TCP = {"tcp", "tls"}


def _of_busy_time(view: View, limited: str) -> Signal:
    """A part of the flows' busy time, over all of it. The kernel counts that time in ticks of its clock: of exchanges that are
    over within one it counts nothing, and nothing held them up.
    """

    def of(reading: Reading) -> float | None:
        part, busy = total(reading, limited, ("",)), total(reading, "tcp.busy_ns", ("",))
        return None if part is None or busy is None else ratio(part, busy) or 0.0

    return grown(view.sender, "tcp_info", of)


def no_account(view: View) -> str | None:
    """Why flows of this load have no account of buffers and windows; None: they have one."""
    found = _transports(view)
    if found & _TCP:
        return None
    names = " and ".join(sorted(name.upper() if name == "udp" else name for name in found))
    return f"a flow over {names or 'no connection'} has no account of buffers and windows, as one of TCP has"


def unsent_messages(view: View, size: float) -> Signal:
    """Bytes that the application wrote and the kernel has not sent yet, mean over the flows, in messages of `size` bytes."""
    if by_datagrams(view):
        return nothing(view)  # a datagram goes whole to the device's queue
    return grown(view.sender, "tcp_info", lambda r: over(gauge(r, "tcp.notsent_bytes"), size), unit="message")


def _transports(view: View) -> set[str]:
    """Transports of the load: one, or those of a script's connections."""
    job = view.sender.job
    if not (script := job.get("script")):
        return {str(job.get("transport", "tcp"))}
    calls = (
        call for group in script["groups"] for one in group["transactions"] for call in one["operations"]
    )
    return {call.get("protocol", "tcp") for call in calls if call["call"] in ("connect", "accept")}


def by_datagrams(view: View) -> bool:
    """Tell whether the load goes by datagrams alone, whose sender does not learn what became of them."""
    return _transports(view) <= {"udp"}


def rwnd_limited(view: View) -> Signal:
    """Share of the flows' busy time in which the receive window was full; none is where there are no windows."""
    if no_account(view):
        return nothing(view)
    return _of_busy_time(view, "tcp.rwnd_limited_ns")


def sndbuf_limited(view: View) -> Signal:
    """Share of the flows' busy time in which the send buffer was too small, as the kernel counts it."""
    if why := no_account(view):
        return absent("tcp_info", why)
    return _of_busy_time(view, "tcp.sndbuf_limited_ns")


def retransmitted(view: View) -> Signal:
    """Retransmitted share of the data segments, over the whole measured window; none is where no segment is sent again."""
    if no_account(view):
        return nothing(view)
    again = view.sender.growth("tcp_info", "tcp.retransmitted_segments")
    sent = view.sender.growth("tcp_info", "tcp.data_segments_out")
    return of_window(view.sender, again / sent if again is not None and sent else None, "tcp_info")


def retransmitting(view: View) -> Signal:
    """Share of the intervals of the measured window in which segments were sent again."""
    if no_account(view):
        return nothing(view)
    segments_again = [
        total(reading, "tcp.retransmitted_segments")
        for record in view.sender.measured
        if (reading := view.sender.readings.get("tcp_info", {}).get(record.index))
    ]
    known = [segments > 0 for segments in segments_again if segments is not None]
    return of_window(view.sender, sum(known) / len(known) if known else None, "tcp_info")


def gauge(reading: Reading, metric: str) -> float | None:
    """Return a metric as the mean of the flows."""
    return total(reading, metric, ("of=mean",))


def cwnd_used(view: View) -> Signal:
    """Return the data that the flows deliver in a round trip over their congestion window (of those that are there)."""
    if why := no_account(view):
        return absent("tcp_info", why)

    def of(reading: Reading) -> float | None:
        rtt, cwnd, mss = (
            gauge(reading, f"tcp.{name}") for name in ("rtt_ns", "cwnd_segments", "snd_mss_bytes")
        )
        acked = total(reading, "tcp.acked_bytes", ("",))
        if not (rtt and cwnd and mss) or acked is None:
            return None
        flows = total(reading, "tcp.flows") or view.connections
        return acked / reading.span_ns * rtt / (cwnd * mss * flows)

    return grown(view.sender, "tcp_info", of)


def send_buffer_used(view: View) -> Signal:
    """Congestion window over the send buffer that was asked for: above 1, the buffer is the smaller of the two."""
    asked = (view.sender.job.get("socket") or {}).get("send_buffer_bytes")
    obtained = ((view.sender.manifest.get("ready") or {}).get("socket") or {}).get("send_buffer_bytes")
    return window_over(view, obtained if asked else None)


def window_over(view: View, buffer_bytes: int | None) -> Signal:
    """Congestion window over a send buffer of that many bytes; None: of a size that nobody asked for."""
    if why := no_account(view):
        return absent("tcp_info", why)
    if not buffer_bytes:
        return absent(
            "socket options", "the kernel sizes the send buffer by itself, as large as the window needs"
        )

    def of(reading: Reading) -> float | None:
        cwnd, mss = gauge(reading, "tcp.cwnd_segments"), gauge(reading, "tcp.snd_mss_bytes")
        return cwnd * mss / buffer_bytes if cwnd and mss else None

    return grown(view.sender, "tcp_info", of)
