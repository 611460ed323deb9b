"""Made call stacks of a transmitting and of a receiving host, in which larger messages take fewer calls."""

from __future__ import annotations

from made_campaign import Call

ENTRY = (
    "libc.so.6:clone3", "iodyno-agent:run_worker", "libc.so.6:write",
    "kernel:entry_SYSCALL_64_after_hwframe", "kernel:do_syscall_64", "kernel:ksys_write",
    "kernel:vfs_write", "kernel:sock_write_iter",
)  # fmt: skip
SEND = (*ENTRY, "kernel:tcp_sendmsg", "kernel:tcp_sendmsg_locked")
XMIT = (*SEND, "kernel:tcp_write_xmit", "kernel:__tcp_transmit_skb")
SOFTIRQ = ("kernel:asm_sysvec_call_function_single", "kernel:handle_softirqs", "kernel:net_rx_action")
COPY = (*SEND, "kernel:_copy_from_iter")
ACK = (*SOFTIRQ, "kernel:tcp_v4_rcv", "kernel:tcp_ack")


def sender(copy: float = 100.0, calls: float = 10.0, ack: float = 20.0) -> tuple[Call, ...]:
    """What the sender does for a KiB, in nanoseconds: copying, entering the kernel, handling acknowledgements."""
    return (
        Call(COPY, copy),
        Call(ENTRY[:5], calls),
        Call((*SEND, "kernel:lock_sock_nested"), calls / 2),
        Call(ENTRY[:3], calls / 2, mode="user"),
        Call((*XMIT, "veth:veth_xmit"), 15.0),
        Call(XMIT, 25.0),
        Call(ACK, 0.7 * ack, owner="app"),
        Call(ACK, 0.3 * ack, owner="idle"),
        # Recursion: a function that calls itself is counted once.
        Call((*SOFTIRQ, "kernel:__netif_receive_skb", "kernel:ip_rcv", "kernel:__netif_receive_skb"), 8.0),
        Call(("kernel:ret_from_fork", "kernel:kthread", "kernel:worker_thread"), 4.0, owner="other"),
    )


def receiver() -> tuple[Call, ...]:
    """What the receiver does."""
    return (
        Call(
            ("iodyno-agent:run_worker", "kernel:do_syscall_64", "kernel:tcp_recvmsg", "kernel:_copy_to_iter"),
            120,
        ),
        Call((*SOFTIRQ, "kernel:tcp_v4_rcv"), 60, owner="other"),
        Call(("iodyno-agent:run_worker",), 10, mode="user"),
    )


def cost(calls: tuple[Call, ...]) -> float:
    """Nanoseconds per KiB of all calls."""
    return sum(call.weight for call in calls)
