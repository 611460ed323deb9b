"""The shapes of `campaign.json` and `manifest.json`: what every version has, and what is read of the rest."""

from __future__ import annotations

from iodyno.store.shape import Each, Maybe, Rows, Such

NUMBER = (int, float)
LEVEL = (int, bool, str)
_KNOB = (int, bool, str, type(None))
LEVELS = Each(LEVEL)
DOUBT = {"code": str, "text": str, "where?": str}

_FACTS = {
    "cpus_online?": Maybe(Rows(int)),
    "cpus_allowed?": Maybe(Rows(int)),
    "memory_bytes?": Maybe(int),
    "cpu_quota_cpus?": Maybe(NUMBER),
    "tick_hz?": Maybe(NUMBER),
    "irq_time_accounting?": Maybe(bool),
    "smt?": Maybe(bool),
    "boot_id?": Maybe(str),
    "governor?": Maybe(str),
    "hypervisor?": Maybe(str),
    "kernel?": Maybe(str),
    "cpu_model?": Maybe(str),
}
_CLOCK = {
    "tsc_hz?": Maybe(NUMBER),
    "step_ns?": Maybe(NUMBER),
    "read_cost_ns?": Maybe(NUMBER),
    "clocksource?": Maybe(str),
    "operations_timed_with?": Maybe(str),
}
_HELLO = {
    "host?": Maybe(_FACTS),
    "clock?": Maybe(_CLOCK),
    "capabilities?": Maybe(Rows({"name": str, "available": bool, "reason?": Maybe(str)})),
}
_HOST = {
    "access?": str,
    "cpus?": Maybe(Rows(int)),
    "address?": Maybe(str),
    "hello?": Maybe(_HELLO),
    "path?": Maybe(dict),
    "notes?": Maybe(Rows(str)),
}
_WORKLOAD = {
    "kind?": str,
    "sender?": Maybe(str),
    "receiver?": Maybe(str),
    "settings?": Maybe(LEVELS),
    "hosts?": Maybe(Rows(str)),
    "variables?": Maybe(dict),
    "own?": Maybe(dict),
    "more_receivers?": Maybe(Rows(str)),
    "script?": Maybe(dict),
    "program?": Maybe(str),
}
_GOAL = {"outcome?": str}
_EXPERIMENT = {
    "question?": str,
    "factors": Rows({"name": str, "levels": Rows(LEVEL), "together?": Maybe(Each(Rows(LEVEL)))}),
    "workload": _WORKLOAD,
    "windows?": Maybe(Each(int)),
    "limits?": Maybe(Each(NUMBER)),
    "outcomes?": Maybe(Rows(str)),
    "explain?": Maybe(Each(Rows(LEVEL))),
    "search?": Maybe({"goal": dict}),
    "bystander?": Maybe(_WORKLOAD),
    "until?": Maybe(dict),
    "noise?": Maybe(dict),
    "knobs?": Maybe(LEVELS),
    "hosts?": Maybe(Each(dict)),
    "notes?": Maybe(Rows(str)),
}
_DESIGN = {
    "kind": str,
    "points": Rows({"id": str, "levels": LEVELS}),
    "trials": Rows({"order": int, "block": int, "replicate": int, "point": str, "plot?": int}),
    "coding?": Maybe(Each(dict)),
    "generators?": Maybe(Rows(str)),
    "resolution?": Maybe(int),
    "aliases?": Maybe(Rows(Rows(str))),
    "slow?": Maybe(Rows(str)),
}
_CALIBRATED = {
    "clock?": Maybe(_CLOCK),
    "control?": Maybe(Each(NUMBER)),
    "write_overhead_ns?": Maybe(Each(Maybe(NUMBER))),
}
HEADER = {
    "name": str,
    "created": str,
    "seed": int,
    "quick": bool,
    "experiment": _EXPERIMENT,
    "design": _DESIGN,
    "hosts": Each(_HOST),
    "doubts": Rows(DOUBT),
    "tool_version?": str,
    "build_hash?": str,
    "finished?": bool,
    "calibration?": Maybe(Each(_CALIBRATED)),
    "preflight?": Maybe(Rows({"check": str, "ok": bool, "text": str})),
    "skipped?": Maybe(Each(str)),
    "paths?": Maybe(dict),
    "until?": Maybe(dict),
    "search?": Maybe({"found?": Maybe(Rows(dict))}),
    "proof?": Maybe({"untestable?": Maybe(Each(Each(str)))}),
}
"""`campaign.json`."""

_SOCKET = Maybe(
    {
        "send_buffer_bytes?": Maybe(int),
        "receive_buffer_bytes?": Maybe(int),
        "nagle?": Maybe(bool),
        "congestion_control?": Maybe(str),
        "segment_bytes?": Maybe(int),
        "busy_poll_ns?": Maybe(int),
        "receive_low_water_bytes?": Maybe(int),
        "differing?": int,
    }
)
_ASKED_CALL = {"call": str, "socket?": _SOCKET, "label?": str, "connection?": int, "protocol?": str}
_ASKED_SCRIPT = {
    "groups": Rows(
        {
            "transactions": Rows(
                {"operations": Rows(_ASKED_CALL), "rate?": Maybe({"iterations": int, "period_ns": int})}
            ),
        }
    )
}
_JOB = {
    "workload?": str,
    "transport?": str,
    "driver?": str,
    "role?": str,
    "direction?": str,
    "connections?": int,
    "message_bytes?": int,
    "answer_bytes?": int,
    "outstanding?": int,
    "burst?": int,
    "batch?": int,
    "multiplexed?": bool,
    "socket?": _SOCKET,
    "arrivals?": Maybe({"operations?": int, "period_ns?": int, "per_connection?": bool}),
    "think_ns?": int,
    "compute_ns?": int,
    "profile_hz?": int,
    "cpu_quota_percent?": Maybe(int),
    "windows?": Maybe(Each(int)),
    "script?": Maybe(_ASKED_SCRIPT),
    "disk?": Maybe(dict),
    "files?": Maybe(dict),
    "watched?": Maybe(Rows({"role": str})),
    "ring?": Maybe({"version?": int, "adaptive?": bool, "block_packets?": int, "block_timeout_ns?": int}),
    "message_sizes?": Maybe(dict),
    "cpus?": Maybe(Rows(int)),
    **dict.fromkeys(("seed?", "retries?", "answer_timeout_ns?"), Maybe(int)),
    **dict.fromkeys(("trial?", "token?", "address?", "interface?", "tls_cipher?"), Maybe(str)),
    **dict.fromkeys(("local_addresses?", "remote_addresses?", "sensors?"), Maybe(Rows(str))),
    **dict.fromkeys(
        ("cork?", "serialised?", "spins?", "storage?", "discards?", "tls_resumption?"), Maybe(bool)
    ),
}
_TIMES = Such(
    {"count": int, "sum_ns": int, "buckets": Rows(int), "counts": Rows(int)},
    lambda times: len(times["buckets"]) == len(times["counts"]) and sum(times["counts"]) == times["count"],
    "a count for each bucket, which add up to the whole",
)
_CALL = {
    "call": str,
    "label?": str,
    "operations": int,
    "bytes": int,
    "samples": int,
    **dict.fromkeys(("failures?", "timeouts?", "would_block?", "lost?", "late?", "duplicates?"), int),
    "least_ns?": Maybe(int),
    "greatest_ns?": Maybe(int),
    "time": _TIMES,
    "sample_time?": Maybe(_TIMES),
    "begin_ns?": Maybe(int),
    "end_ns?": Maybe(int),
}
_SCRIPT = {
    "groups": Rows(
        {
            "name?": str,
            "strands?": int,
            "transactions": Rows(
                {
                    "begin_ns": Maybe(int),
                    "end_ns": Maybe(int),
                    "iterations": int,
                    "missed_iterations?": int,
                    "strands_done": int,
                    "operations": Rows(_CALL),
                    "service_time?": _TIMES,
                    "response_time?": Maybe(_TIMES),
                    "lateness?": Maybe(_TIMES),
                }
            ),
        }
    )
}
_RESULT = {
    "script?": Maybe(_SCRIPT),
    "disk?": Maybe(dict),
    "files?": Maybe(dict),
    "connection_fairness_ppb?": Maybe(int),
    "connections_carrying?": int,
    "connections_lost?": int,
    "agent_cpu_ns?": Maybe(int),
    "bytes?": int,
    "operations?": int,
    "start_ns?": Maybe(int),
    "stopped_ns?": Maybe(int),
}
_PROFILE = {
    "hz": int,
    "event": str,
    **dict.fromkeys(("begin_ns?", "end_ns?"), int),
    **dict.fromkeys(("samples", "idle_samples", "lost", "cost_ns", "symbolise_ns"), int),
    "missing?": Maybe(str),
}
_END = {
    "role": str,
    "job?": Maybe(_JOB),
    "ready?": Maybe(
        {"workers?": int, "connections?": int, "socket?": _SOCKET, "cpu_quota?": Maybe(Each((int, str)))}
    ),
    "result?": Maybe(_RESULT),
    "clock?": Maybe(Each(Maybe(Each(int)))),
    "cpus?": Maybe(Rows(int)),
    "profile?": Maybe(_PROFILE),
    "knobs?": Maybe(Each({"asked?": _KNOB, "obtained?": _KNOB, "why?": Maybe(str)})),
}
_START = Maybe(
    {
        "skew_ns?": Maybe(int),
        "skew_error_ns?": Maybe(int),
        "slack_ns?": Maybe(Each(int)),
        "realtime?": Maybe(Each(bool)),
        "offset_ns?": Maybe(Each(int)),
    }
)
MANIFEST = {
    "trial": str,
    "order": int,
    "attempt": int,
    "block?": int,
    "replicate?": int,
    "point": str,
    "levels": LEVELS,
    "settings?": LEVELS,
    "status": str,
    "reason": Maybe({"what?": str, "where?": Maybe(str), "code?": str, "advice?": Maybe(str)}),
    "started_wall": str,
    "windows": Each(int),
    "start?": _START,
    "hosts": Each(_END),
    "doubts?": Rows(DOUBT),
    "overhead_ns?": Maybe(int),
    "purpose?": str,
    "perturbation?": Maybe(
        {
            "limiter": str,
            "direction": str,
            "setting?": Maybe(str),
            "before?": _KNOB,
            "after?": _KNOB,
            "resource_ratio?": NUMBER,
        }
    ),
    "path?": Maybe(dict),
    "targets?": Maybe(Each(dict)),
    "losses?": Maybe(Rows({"host": str, "code": str, "what": str})),
    "bystander?": Maybe({"settings": LEVELS, "start?": _START, "hosts": Each(_END)}),
    "parts": Each({"sha256": str, "bytes": int, "rows?": int}),
}
"""`manifest.json`."""
