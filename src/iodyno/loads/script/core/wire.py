"""A script for one end, as its agent takes it (`agent/core/src/script.rs`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.core.errors import ExperimentError
from iodyno.loads.script.core.flowops import OPENING, OPTIONS, takes_messages
from iodyno.loads.script.core.mirror import CALL, mirrored
from iodyno.loads.script.core.remotes import remotes_of
from iodyno.loads.script.core.values import Flowop, Group, Script, Transaction, Uniform, Value, Variable

_PROTOCOLS = {"ssl": "tls"}
_SECOND_NS = 10**9
_CHANGES = {"connect": 1, "accept": 1, "disconnect": -1}
"""By how much a flowop changes the number of open connections."""

_OF_ASSOCIATIONS = {
    "sctp_nodelay": "nodelay",
    "sctp_rto_initial": "rto_initial_ms",
    "sctp_rto_min": "rto_min_ms",
    "sctp_rto_max": "rto_max_ms",
    "sctp_sack_delay": "sack_delay_ms",
    "sctp_sack_frequency": "sack_frequency",
    "sctp_max_burst_size": "max_burst",
    "sctp_max_fragment_size": "max_fragment_bytes",
    "sctp_hb_interval": "hb_interval_ms",
    "sctp_path_mtu": "path_mtu_bytes",
    "sctp_in_streams": "in_streams",
    "sctp_out_streams": "out_streams",
}
_OF_MESSAGES = {"sctp_stream_id": "stream", "sctp_unordered": "unordered"}
"""Options of SCTP, with the agent's names for them."""

Json = dict[str, Any]


def threads_of(script: Script) -> int:
    """Threads in all groups. Raises ExperimentError where a variable has no value."""
    return sum(_number(group.threads) for group in script.groups)


def script_json(script: Script, role: str, receivers: Sequence[str] = (), host: str = "") -> Json:
    """Return the script of the end with this role: the one that sends follows the script, another one mirrors it.

    `receivers`: all hosts that receive, where there are several; `host`: which of them this end is. It does nothing where
    the sender has to do with another. Raises ExperimentError where a variable has no value, or a flowop uses a
    connection that nothing opens.
    """
    side = script if role == "send" else mirrored(script)
    remotes = remotes_of(script, receivers)
    own = receivers.index(host) if role != "send" and host in receivers else None
    return {
        "groups": [
            _group(group, name, within, own)
            for group, name, within in zip(side.groups, names_of(side), remotes, strict=True)
        ]
    }


def names_of(script: Script) -> list[str]:
    """Names of the groups; those that have the same get a number."""
    given = Counter(group.name for group in script.groups)
    seen: Counter[str] = Counter()
    names = []
    for group in script.groups:
        seen[group.name] += 1
        names.append(group.name if given[group.name] == 1 else f"{group.name} {seen[group.name]}")
    return names


def _group(group: Group, name: str, remotes: Sequence[Sequence[int]], own: int | None) -> Json:
    protocols = _protocols(group, name)
    return {
        "name": name,
        "threads": _number(group.threads),
        "transactions": [
            _transaction(transaction, protocols, within, own)
            for transaction, within in zip(group.transactions, remotes, strict=True)
        ],
    }


def _protocols(group: Group, name: str) -> Mapping[Value, str]:
    """Return the protocol of each connection of a thread. Raises ExperimentError for one that is used where none is open."""
    opened: dict[Value, str] = {}
    for flowop in group.flowops():
        connection = flowop.connection
        if flowop.kind in OPENING:
            protocol = str(flowop.options.get("protocol", "tcp"))
            opened[connection] = _PROTOCOLS.get(protocol, protocol)
        elif (takes_messages(flowop.kind) or flowop.kind == "disconnect") and connection not in opened:
            named = f"conn={connection}" if connection else "a connection without a name (no conn=)"
            raise ExperimentError(
                f"{flowop.kind} uses {named}, which nothing before it opens",
                where=f"{name}, line {flowop.line}",
                advice="open it with connect or accept, with the same conn=",
            )
    for connection in opened:
        _refuse_what_is_closed(group, name, connection)
    return opened


def _refuse_what_is_closed(group: Group, name: str, connection: Value) -> None:
    """Raises ExperimentError where none of the connections of a number is open any more when one is used, for certain.

    Of several of one number the last is used and closed. What may fail says nothing for certain, and a transaction that
    lasts for some time is made once at least.
    """
    if any("canfail" in flowop.options for flowop in group.flowops() if flowop.connection == connection):
        return
    is_open = 0
    for transaction in group.transactions:
        uses = [
            f for f in transaction.flowops if f.connection == connection and f.kind not in ("think", "nop")
        ]
        changes = [_CHANGES.get(flowop.kind, 0) for flowop in uses]
        iterations = transaction.iterations if isinstance(transaction.iterations, int) else 1
        # The fewest are open in the first iteration, or in the last one where each leaves fewer.
        before = is_open + min(0, sum(changes)) * (iterations - 1)
        for flowop, change in zip(uses, changes, strict=True):
            if flowop.kind not in OPENING and before < 1:
                named = f"conn={connection}" if connection else "a connection without a name (no conn=)"
                raise ExperimentError(
                    f"{flowop.kind} uses {named}, which is closed by then",
                    where=f"{name}, line {flowop.line}",
                    advice="open it again before, or disconnect it later",
                )
            before += change
        if transaction.duration_ns is not None and sum(changes) != 0:
            # How many iterations there are is not known, and so neither what they leave.
            return
        is_open += sum(changes) * iterations


def _transaction(
    transaction: Transaction, protocols: Mapping[Value, str], remotes: Sequence[int], own: int | None
) -> Json:
    until: Json = {"kind": "iterations", "iterations": _number(transaction.iterations or 1)}
    if transaction.duration_ns is not None:
        until = {"kind": "duration", "duration_ns": _number(transaction.duration_ns)}
    rate = None
    if transaction.rate is not None:
        rate = {"iterations": _number(transaction.rate), "period_ns": _SECOND_NS}
    flowops = transaction.flowops or (Flowop("nop", {}, transaction.line),)
    labels = _labels(transaction)
    operations = [
        _placed(_flowop(flowop, label, protocols), flowop, remote, own)
        for flowop, label, remote in zip(flowops, labels, remotes or (0,), strict=True)
    ]
    return {"until": until, "rate": rate, "operations": operations}


def _placed(written: Json, flowop: Flowop, remote: int, own: int | None) -> Json:
    """The flowop with the other end that it is about. A receiving end knows the sender alone: what is between that and
    another receiver is nothing to it.
    """
    if flowop.kind in ("think", "nop"):
        return written
    if own is None:
        return {**written, "remote": remote} if remote else written
    return written if remote == own else {"call": "nop", "label": written["label"], "remote": 1}


def _labels(transaction: Transaction) -> list[str]:
    """A name for each flowop: its kind, with a number where there are several of it."""
    kinds = [flowop.kind for flowop in transaction.flowops] or ["nop"]
    seen: Counter[str] = Counter()
    labels = []
    for kind in kinds:
        seen[kind] += 1
        labels.append(f"{kind} {seen[kind]}" if kinds.count(kind) > 1 else kind)
    return labels


def _flowop(flowop: Flowop, label: str, protocols: Mapping[Value, str]) -> Json:
    """Every key that differs from what the agent takes where nothing is said."""
    # The other end is the job's; its name in the script is for people, and may be a variable that nobody sets.
    options = {name: _given(value) for name, value in flowop.options.items() if name != "remotehost"}
    _refuse_unsupported(flowop, label)
    written: Json = {"call": flowop.kind, "label": label}
    if connection := options.get("conn"):
        written["connection"] = connection
    if (protocol := protocols.get(flowop.connection, "tcp")) != "tcp" and flowop.kind not in ("think", "nop"):
        written["protocol"] = protocol
    if takes_messages(flowop.kind):
        # Without one, whole files are sent, and the end that reads them is told how long they are.
        if "size" in options:
            written["size"] = _size(options["size"])
        if CALL in options:
            written["call_bytes"] = options[CALL]
    written |= {
        key: options[name]
        for key, name in (
            ("count", "count"),
            ("repeat", "repeat"),
            ("timeout_ns", "timeout"),
            ("duration_ns", "duration"),
            ("directory", "dir"),
            ("files", "nfiles"),
        )
        if name in options
    }
    if flowop.kind == "think":
        written["think"] = "busy" if options.get("busy") else "idle"
    for key, name in (("can_fail", "canfail"), ("non_blocking", "non_blocking")):
        if name in options:
            written[key] = True
    if flowop.kind in OPENING:
        written["socket"] = _socket(options)
    if protocol == "sctp":
        if asked := _sctp(options, flowop.kind in OPENING):
            written["sctp"] = asked
        if (batch := options.get("batch_size", 1)) > 1:
            written["repeat"] = int(written.get("repeat", 1)) * batch
    return written


def _refuse_unsupported(flowop: Flowop, label: str) -> None:
    for name in flowop.options:
        option = OPTIONS.get(name)
        if option is not None and option.meaning == "unsupported":
            raise ExperimentError(
                f"{label} has {name}, which is not carried out: {option.note}",
                where=f"line {flowop.line}" if flowop.line else "the script",
                advice=f"leave {name} out",
            )


def _sctp(options: Mapping[str, Any], opens: bool) -> Json:
    """Return the options of SCTP for an association that comes up or for a message."""
    names = _OF_ASSOCIATIONS if opens else _OF_MESSAGES
    return {
        key: True if OPTIONS[name].kind == "flag" else options[name]
        for name, key in names.items()
        if name in options
    }


def _socket(options: Mapping[str, Any]) -> Json:
    """Options of the connection's socket; null: the kernel's own."""
    return {
        "send_buffer_bytes": options.get("wndsz") or None,
        "receive_buffer_bytes": options.get("wndsz") or None,
        "nagle": False if options.get("tcp_nodelay") else None,
        "congestion_control": options.get("cc"),
    }


def _size(size: Any) -> Json:
    if isinstance(size, Uniform):
        return {"law": "uniform", "least_bytes": size.low_bytes, "greatest_bytes": size.high_bytes}
    return {"law": "fixed", "bytes": size}


def _given(value: Value) -> Any:
    if isinstance(value, Variable):
        raise ExperimentError(
            f"the variable ${value.name} has no value",
            where=f"line {value.line} of the profile" if value.line else "the script",
            advice=f"write `{value.name}:` into `workload` or `factors`, or set it with --set {value.name}=...",
        )
    return value


def _number(amount: Value) -> int:
    return int(_given(amount))
