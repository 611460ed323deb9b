"""Pods of Kubernetes that a label selector finds, by the user's own kubectl."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from iodyno.core.errors import AccessError
from iodyno.hosts.access import end_at_once

_TIMEOUT_S = 30.0
"""Chosen: kubectl's own first answer from a distant cluster takes seconds."""


def command(options: Mapping[str, Any]) -> list[str]:
    """Return the command that prints the names of the pods that run, one a line."""
    return [
        "kubectl",
        *([f"--context={options['context']}"] if "context" in options else []),
        *([f"--namespace={options['namespace']}"] if "namespace" in options else []),
        *("get", "pods", f"--selector={options['selector']}", "--field-selector=status.phase=Running"),
        *("--output=name", f"--request-timeout={_TIMEOUT_S:g}s"),
    ]


async def running(options: Mapping[str, Any], wanted: int, where: str) -> list[str]:
    """The first `wanted` of them by name. Raises AccessError where there are fewer, or kubectl does not tell."""
    words = command(options)
    try:
        asked = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise AccessError(
            "there is no command `kubectl` on this machine", where=where, advice="install it"
        ) from None
    try:
        async with asyncio.timeout(2 * _TIMEOUT_S):
            said, complaint = await asked.communicate()
    except TimeoutError:
        raise AccessError(
            "kubectl does not answer", where=where, advice=f"make `{' '.join(words)}` work"
        ) from None
    finally:
        if asked.returncode is None:
            await end_at_once(asked)
    if asked.returncode:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise AccessError(
            f"kubectl finds no pods: {last[0]}", where=where, advice=f"make `{' '.join(words)}` work"
        )
    pods = sorted(said.decode(errors="replace").split())
    if len(pods) < wanted:
        raise AccessError(
            f"the selector {options['selector']} finds {len(pods)} pods that run, and {wanted} are asked for",
            where=where,
            advice="start more of them, or lower `count`",
        )
    return pods[:wanted]
