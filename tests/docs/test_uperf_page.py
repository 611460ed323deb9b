"""The tables of docs/guides/uperf.md are those of the code."""

from __future__ import annotations

import os
from pathlib import Path

from iodyno.loads.script.core.flowops import FLOWOPS, OPTIONS
from iodyno.loads.script.core.values import PROTOCOLS

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "uperf.md"
BEGIN = "## Every flowop\n"


def tables() -> str:
    flowops = "".join(
        f"- `{f.name}` (`{f.mirror}`): {f.help}{f' {_sentence(f.note)}' if f.note else ''}\n"
        for f in FLOWOPS.values()
    )
    options = "".join(
        f"- `{o.name}` ({o.kind}{'' if o.meaning in ('same', 'other') else f', {o.meaning}'}):"
        f" {o.help}{f' {_sentence(o.note)}' if o.note else ''}\n"
        for o in OPTIONS.values()
        if not o.name.startswith("sctp_") or o.meaning != "same"
    )
    sctp = ", ".join(
        f"`{o.name}`" for o in OPTIONS.values() if o.name.startswith("sctp_") and o.meaning == "same"
    )
    protocols = "".join(f"- `{name}`: {text}\n" for name, text in PROTOCOLS.items())
    return (
        f"{BEGIN}\nIn brackets what the other end does.\n\n{flowops}\n"
        "## Every option\n\n`ignored`: taken, without a meaning; `unsupported`: a trial with it fails, with the reason.\n\n"
        f"{options}\n"
        f"Of SCTP, in kernels that have it, as in uperf: {sctp}. An association is made for each `connect`, and a message goes\n"
        "out whole. All `accept`s get as many streams as the one that asks for most.\n\n"
        f"## Every protocol\n\n{protocols}"
    )


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, _ = page.partition(BEGIN)
    if os.environ.get("IODYNO_UPDATE"):
        PAGE.write_text(head + tables(), encoding="utf-8")
        return
    assert page == head + tables()
