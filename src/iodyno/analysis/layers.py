"""Layers that the time of a call stack belongs to: that of its innermost function which has one.

Names are those of Linux 5.10 to 6.12 (net/, drivers/, kernel/sched/, arch/x86, arch/arm64, lib/iov_iter.c), by how they begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from iodyno.analysis.stacks import HARDIRQ, SOFTIRQ, Function, Integers, StackTable

USER, REST = "user code", "rest of the kernel"
NAMES: Mapping[str, tuple[str, ...]] = {
    "copy": (
        *(
            "_copy_",
            "__copy_",
            "copy_",
            "copyin",
            "copyout",
            "rep_movs",
            "memcpy",
            "__memcpy",
            "csum_and_copy",
            "csum_partial",
        ),
        *("skb_copy_", "__skb_datagram_iter", "simple_copy_to_iter", "clear_page", "__arch_copy"),
    ),
    "TCP send": (
        *(
            "tcp_sendmsg",
            "tcp_write_xmit",
            "__tcp_transmit_skb",
            "__tcp_push",
            "tcp_push",
            "tcp_stream_alloc",
            "tcp_send_",
        ),
        *(
            "__tcp_send_",
            "tcp_tso",
            "tcp_tsq",
            "tcp_xmit",
            "tcp_wmem",
            "sk_stream_",
            "inet_sendmsg",
            "sock_sendmsg",
        ),
        *(
            "ip_queue_xmit",
            "__ip_queue_xmit",
            "ip_output",
            "ip_finish_output",
            "__ip_finish_output",
            "ip_local_out",
            "ip6_xmit",
        ),
    ),
    "TCP receive": (
        *(
            "tcp_recvmsg",
            "tcp_v4_",
            "tcp_v6_",
            "tcp_rcv_",
            "tcp_ack",
            "tcp_data_",
            "tcp_clean_rtx",
            "tcp_queue_rcv",
            "tcp_event",
        ),
        *(
            "tcp_cleanup_rbuf",
            "__tcp_cleanup_rbuf",
            "tcp_prequeue",
            "tcp_gro",
            "inet_recvmsg",
            "sock_recvmsg",
            "ip_rcv",
            "ip6_rcv",
        ),
        *("ip_local_deliver", "ip_protocol_deliver", "ip_sublist_rcv", "tcp_check_space", "tcp_try_"),
    ),
    "driver": (
        *(
            "dev_hard_start_xmit",
            "__dev_queue_xmit",
            "dev_queue_xmit",
            "sch_direct_xmit",
            "__qdisc_run",
            "validate_xmit",
            "xmit_one",
        ),
        *(
            "veth_",
            "loopback_xmit",
            "tun_",
            "tap_",
            "virtnet_",
            "vhost_",
            "ixgbe_",
            "i40e_",
            "ice_",
            "mlx4_",
            "mlx5",
            "ena_",
        ),
        *(
            "__netif_rx",
            "netif_rx",
            "__netif_receive_skb",
            "netif_receive_skb",
            "process_backlog",
            "__napi_poll",
            "napi_",
            "net_rx_action",
        ),
        *("enqueue_to_backlog", "net_tx_action", "blk_", "nvme_", "loop_", "virtio_", "dev_gro_"),
    ),
    "scheduler": (
        *(
            "schedule",
            "__schedule",
            "preempt_schedule",
            "try_to_wake_up",
            "ttwu_",
            "wake_up",
            "__wake_up",
            "autoremove_wake",
        ),
        *(
            "default_wake_function",
            "finish_task_switch",
            "__switch_to",
            "context_switch",
            "pick_next_",
            "enqueue_task",
            "dequeue_task",
        ),
        *(
            "enqueue_entity",
            "dequeue_entity",
            "update_curr",
            "update_load_avg",
            "select_task_rq",
            "select_idle",
            "futex_",
            "do_idle",
        ),
        *(
            "sock_def_readable",
            "sk_stream_write_space",
            "wait_woken",
            "load_balance",
            "newidle_balance",
            "resched_",
        ),
    ),
    "interrupt": (
        *(
            *HARDIRQ,
            *SOFTIRQ,
            "irqentry_",
            "irq_exit",
            "__irq_exit",
            "hrtimer_interrupt",
            "hrtimer_run",
            "__hrtimer_run",
        ),
        *(
            "tick_",
            "update_process_times",
            "handle_irq",
            "handle_edge_irq",
            "lapic_",
            "clockevents_",
            "ktime_get",
            "run_timer_softirq",
        ),
    ),
    "system call entry": (
        *(
            "entry_SYSCALL",
            "do_syscall_64",
            "x64_sys_call",
            "syscall_",
            "el0t_64_sync",
            "el0_svc",
            "__fget_light",
            "__fdget",
        ),
        *("fdget", "security_", "apparmor_", "entry_SYSRETQ"),
    ),
}
"""Prefixes of the names of a layer's functions. What is in two, as `sk_stream_write_space`, is in the one of the longest."""
LAYERS = (*NAMES, REST, USER)


def layer_of(function: Function) -> str | None:
    """The layer of a function; None: its caller's.

    >>> layer_of(Function("tcp_sendmsg_locked", "kernel")), layer_of(Function("sk_stream_write_space", "kernel"))
    ('TCP send', 'scheduler')
    >>> layer_of(Function("__list_add_valid", "kernel")), layer_of(Function("memcpy", "libc.so.6", "user"))
    (None, 'user code')
    """
    if function.space == "user":
        return USER
    found = [
        (len(begin), layer)
        for layer, names in NAMES.items()
        for begin in names
        if function.name.startswith(begin)
    ]
    return max(found)[1] if found else None


@cache
def _code_of(function: Function) -> int:
    layer = layer_of(function)
    return -1 if layer is None else LAYERS.index(layer)


def layers_of(table: StackTable, rows: Integers) -> Integers:
    """The layer of each of these rows, as its place in `LAYERS`."""
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    lengths = table.starts[rows + 1] - table.starts[rows]
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(rows)), lengths)
    places = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    called, each = np.unique(
        table.frames[np.repeat(table.starts[rows], lengths) + places], return_inverse=True
    )
    codes = np.asarray([_code_of(table.functions[function]) for function in called.tolist()], dtype=np.int64)
    code = codes[each]
    innermost = np.full(len(rows), -1, dtype=np.int64)
    np.maximum.at(innermost, row[code >= 0], places[code >= 0])
    found = np.where(innermost >= 0, code[ends - lengths + np.maximum(innermost, 0)], -1)
    # User code that called the kernel has only that, where no function of it has a layer.
    in_kernel = table.mode[rows] == 1
    unknown = (found < 0) | (in_kernel & (found == LAYERS.index(USER)))
    return np.where(unknown, LAYERS.index(REST), found)
