"""The lists of docs/guides/fio.md are those of the code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from iodyno.loads.disk.fio.options import CARRIED, REFUSED, WITHOUT_EFFECT

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "fio.md"
BEGIN = "## Every option\n"


def tables() -> str:
    return (
        f"{BEGIN}\nCarried out: {named(CARRIED)}.\n\n"
        f"Refused, and why, or what to do instead:\n\n{by_reason(REFUSED)}\n"
        f"Named, and without effect:\n\n{by_reason(WITHOUT_EFFECT)}"
    )


def by_reason(options: Mapping[str, str]) -> str:
    return "".join(
        f"- {named(name for name, why in options.items() if why == reason)}: {reason}\n"
        for reason in dict.fromkeys(options.values())
    )


def named(options: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in options)


def test_the_lists_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, _ = page.partition(BEGIN)
    if os.environ.get("IODYNO_UPDATE"):
        PAGE.write_text(head + tables(), encoding="utf-8")
        return
    assert page == head + tables()
