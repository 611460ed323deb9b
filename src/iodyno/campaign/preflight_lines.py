"""Lines of the preflight: what was checked, whether it is so, and what to try when it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Line = dict[str, Any]
Check = tuple[Line, str]
"""A line, and what to try when it is not ok."""


def line(check: str, ok: bool, text: str, advice: str = "") -> Check:
    """A line, and what to try when it is not ok."""
    return {"check": check, "ok": ok, "text": text}, advice


def congestion_line(
    host: str, asked: Iterable[str], have: Sequence[str], option: str = "congestion_control"
) -> tuple[Line, str]:
    """Check that a host has the congestion controls that it is asked for, by this option."""
    wanted = sorted(asked)
    absent = [name for name in wanted if name not in have]
    return line(
        "congestion_control",
        not absent,
        f"host {host}: `{option}` asks for {', '.join(wanted)}, it has {', '.join(have) or 'none that it tells of'}",
        f"load it there as root: modprobe tcp_{absent[0]}" if absent else "",
    )


def or_unknown(count: int | None) -> str:
    """A count that a host may not know."""
    return "an unknown number" if count is None else str(count)


def mib(count: int | None) -> str:
    """Bytes in whole MiB."""
    return "unknown MiB" if count is None else f"{count >> 20} MiB"
