"""Made trials of two hosts with one CPU each, for the rules of what limits: nothing is at its end unless it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.analysis.histogram import Histogram
from iodyno.analysis.host_data import HostData
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial

SPAN = 250_000_000
INTERVALS = 10
Shares = Mapping[str, float]

# A pair of hosts with one CPU each, of which neither is at its end; shares of each interval.
SENDER = {"app": 0.5, "user": 0.05, "softirq": 0.1, "other": 0.0, "run": 0.5, "wait": 0.0, "in_call": 1.0}
RECEIVER = {"app": 0.4, "user": 0.02, "softirq": 0.2, "other": 0.0, "run": 0.4, "wait": 0.0, "in_call": 1.0}
FLOW = {
    "busy": 1.0,
    "rwnd": 0.0,
    "sndbuf": 0.0,
    "retransmitted": 0.0,
    "unsent": 1e6,
    "cwnd": 1000.0,
    "Mbit_s": 800.0,
}


def host(
    name: str,
    role: str,
    shares: Shares,
    flow: Shares,
    ready: Mapping[str, Any],
    connections: int,
    without: tuple[str, ...],
) -> HostData:
    manifest = {"role": role, "ready": {"workers": connections, **ready}, "job": ready.get("job", {})}
    made = HostData(name, role, (0,), manifest)
    for index in range(INTERVALS):
        made.records.append(
            Record(index, "measured", index * SPAN, (index + 1) * SPAN, 10**6, 100, connections, 0)
        )
        calling = int(shares["in_call"] * SPAN * connections)
        made.histograms[index] = Histogram(100, calling, (0,), (100,))
        busy = shares["app"] + shares["softirq"] + shares["other"]
        exact = {
            "app": shares["app"],
            "other": shares["other"],
            "hardirq": 0.0,
            "idle": 1 - busy,
            "app_user": shares["user"],
        }
        sensors: dict[str, dict[tuple[str, str], float]] = {
            "cpu_exact": {(f"exact.{key}_ns", "cpu=0"): share * SPAN for key, share in exact.items()},
            "process": {("process.cpu_ns", ""): shares["app"] * SPAN},
            "threads": {
                ("thread.run_ns", "worker=all"): shares["run"] * SPAN * connections,
                ("thread.wait_ns", "worker=all"): shares["wait"] * SPAN * connections,
                ("thread.busiest_run_ns", "worker=busiest"): shares["run"] * SPAN,
            },
            "cpu_times": {("cpu.steal_ns", "cpu=0"): shares.get("steal", 0.0) * SPAN},
        }
        sensors["cpu_exact"]["exact.softirq_ns", "cpu=0,vector=NET_RX"] = shares["softirq"] * SPAN
        if role == "send":
            whole = SPAN * connections
            sensors["tcp_info"] = {
                ("tcp.busy_ns", ""): flow["busy"] * whole,
                ("tcp.rwnd_limited_ns", ""): flow["rwnd"] * flow["busy"] * whole,
                ("tcp.sndbuf_limited_ns", ""): flow["sndbuf"] * flow["busy"] * whole,
                ("tcp.retransmitted_segments", ""): flow["retransmitted"] * 10_000,
                ("tcp.data_segments_out", ""): 10_000,
                ("tcp.acked_bytes", ""): flow["Mbit_s"] * 1e6 / 8 * SPAN / 1e9,
                ("tcp.rtt_ns", "of=mean"): 1_000_000,
                ("tcp.cwnd_segments", "of=mean"): flow["cwnd"],
                ("tcp.snd_mss_bytes", "of=mean"): 1448,
                ("tcp.notsent_bytes", "of=mean"): flow["unsent"],
            }
        for sensor, values in sensors.items():
            if sensor not in without:
                whole_values = {key: int(value) for key, value in values.items()}
                made.readings.setdefault(sensor, {})[index] = Reading(SPAN, 20_000, None, whole_values)
    return made


def trial(
    *,
    sender: Shares | None = None,
    receiver: Shares | None = None,
    flow: Shares | None = None,
    sending: Mapping[str, Any] | None = None,
    receiving: Mapping[str, Any] | None = None,
    path: Mapping[str, Any] | None = None,
    connections: int = 1,
    without: tuple[str, ...] = (),
) -> Trial:
    settings = {"connections": connections, "size": 65536, "engine": "threads"}
    flows = {**FLOW, **(flow or {})}
    hosts = {
        "client": host(
            "client", "send", {**SENDER, **(sender or {})}, flows, sending or {}, connections, without
        ),
        "server": host(
            "server",
            "receive",
            {**RECEIVER, **(receiver or {})},
            flows,
            receiving or {},
            connections,
            without,
        ),
    }
    return Trial("00000-1", 0, 1, 0, 0, "p01", {}, settings, "finished", None, "", {"path": path}, (), hosts)


FULL = {"app": 0.7, "softirq": 0.3, "run": 0.97, "wait": 0.02}
BUFFERS = {"job": {"socket": {"send_buffer_bytes": 8192}}, "socket": {"send_buffer_bytes": 16384}}
QUOTA = {"cpu_quota": {"quota_ns": 5_000_000, "period_ns": 10_000_000, "group": "x"}}
SHAPED = {"link_rate": {"asked": 10**9, "obtained": 10**9}, "shaper": {"packets": 9_000, "drops": 1_000}}


# What datagrams of 1400 bytes have beside their payload: Ethernet 14, IPv4 20, UDP 8.
DATAGRAM, ON_THE_WIRE = 1400, 1442
COUNTED = ("sent", "received", "lost")


def of_datagrams(
    *,
    sent: int,
    carried: int,
    taken: int | None = None,
    link_rate: int | None = 50_000_000,
    due: int | None = None,
    sender: Shares | None = None,
    receiver: Shares | None = None,
    without: tuple[str, ...] = (),
) -> Trial:
    """A trial of a stream over UDP: datagrams of each interval that were sent, left the sender's device, and were taken by the
    receiver (None: all that were carried; one to which nothing comes knows of no loss); `due`: arrivals of an open loop.
    """
    made = trial(sender=sender, receiver=receiver, without=("tcp_info",))
    taken = carried if taken is None else taken
    if link_rate:
        shaped = {"asked": link_rate, "obtained": link_rate}
        made.manifest["path"] = {"device": "veth0", "link_rate": shaped}  # type: ignore[index]
    for name, data in made.hosts.items():
        data.manifest["job"] = {"transport": "udp", "workload": "stream"}  # type: ignore[index]
        counts = (sent, 0, 0) if name == "client" else (0, taken, sent - taken if taken else 0)
        device = "dev=veth0,kind=tbf"
        sensors: dict[str, dict[tuple[str, str], int]] = {
            "datagram": {
                (f"datagram.{what}", ""): count for what, count in zip(COUNTED, counts, strict=True)
            },
            "tcp_info": {("tcp.flows", ""): 0},
        }
        if name == "client":
            sensors["net_devices"] = {("net.tx_bytes", "dev=veth0"): carried * ON_THE_WIRE}
            sensors["qdisc"] = {
                ("qdisc.sent_bytes", device): carried * ON_THE_WIRE,
                ("qdisc.sent_packets", device): carried,
                ("qdisc.drops", device): sent - carried,
            }
            if due is not None:
                made.settings["rate"] = due  # type: ignore[index]
                data.manifest["job"]["arrivals"] = {"law": {"law": "constant"}}
                sensors["arrivals"] = {("arrivals.due", ""): due, ("arrivals.begun", ""): min(due, sent)}
        for sensor, values in sensors.items():
            said = "1 of 1 flows could not be read: Operation not supported (os error 95)"
            missing = said if sensor == "tcp_info" else None
            if sensor not in without:
                data.readings[sensor] = {
                    index: Reading(SPAN, 20_000, missing, dict(values)) for index in range(INTERVALS)
                }
    return made
