"""The knobs of a host, one file each. To add one: its entry in `iodyno.core.knob`, a file here, a line in `TURNED`."""

from __future__ import annotations

from collections.abc import Mapping

from iodyno.hosts.knobs import (
    blanking,
    busy_poll,
    busy_read,
    coalesce_receive,
    cpu_limit,
    gro,
    gso,
    gso_max_segs,
    gso_max_size,
    mtu,
    netdev_budget,
    netdev_max_backlog,
    qdisc,
    queues,
    ring_receive,
    ring_transmit,
    rps,
    sg,
    shaper_rate,
    tcp_autocorking,
    tcp_congestion_control,
    tcp_limit_output,
    tcp_notsent_lowat,
    tcp_rmem_max,
    tcp_sack,
    tcp_timestamps,
    tcp_wmem_max,
    threaded,
    transmit_queues,
    tso,
    tx_checksum,
    xps,
)
from iodyno.hosts.knobs.knob import Knob

TURNED: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        mtu.KNOB,
        ring_receive.KNOB,
        ring_transmit.KNOB,
        coalesce_receive.KNOB,
        queues.KNOB,
        transmit_queues.KNOB,
        sg.KNOB,
        tx_checksum.KNOB,
        tso.KNOB,
        gso.KNOB,
        gro.KNOB,
        gso_max_size.KNOB,
        gso_max_segs.KNOB,
        rps.KNOB,
        xps.KNOB,
        threaded.KNOB,
        blanking.KNOB,
        qdisc.KNOB,
        shaper_rate.KNOB,
        cpu_limit.KNOB,
        tcp_rmem_max.KNOB,
        tcp_wmem_max.KNOB,
        tcp_notsent_lowat.KNOB,
        tcp_limit_output.KNOB,
        tcp_autocorking.KNOB,
        tcp_sack.KNOB,
        tcp_timestamps.KNOB,
        tcp_congestion_control.KNOB,
        busy_poll.KNOB,
        busy_read.KNOB,
        netdev_max_backlog.KNOB,
        netdev_budget.KNOB,
    )
}
"""Every knob, in the order in which they are set; they are restored in the opposite one.

What others build on comes first: queues before what steers to them, scatter-gather and checksums before segmentation,
GRO before what needs a receive queue.
"""
