"""The tables of docs/guides/filebench.md are those of the code."""

from __future__ import annotations

import os
from pathlib import Path

from iodyno.loads.files.core import attributes
from iodyno.loads.files.core.attributes import FLOWOPS, NO_EFFECT, OLDER_FLOWOPS, STATEMENTS

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "filebench.md"
BEGIN = "## Every flowop\n"


def tables() -> str:
    older = {now: before for before, now in OLDER_FLOWOPS.items()}
    flowops = "".join(
        f"- `{name}`{f', `{older[name]}`' if name in older else ''}: {kind.help}"
        f"{f' (needs {chr(44).join(kind.needs)})' if kind.needs else ''}\n"
        for name, kind in FLOWOPS.items()
    )
    statements = "".join(f"- `{name}`: {done}\n" for name, done in STATEMENTS.items() if done != NO_EFFECT)
    idle = ", ".join(f"`{name}`" for name, done in STATEMENTS.items() if done == NO_EFFECT)
    holders = {
        "flowop": attributes.FLOWOP,
        "file": attributes.FILE,
        "fileset": attributes.FILESET,
        "process": attributes.PROCESS,
        "thread": attributes.THREAD,
        "`randvar`": attributes.RANDVAR,
        "`cvar`": attributes.CUSTOM,
    }
    owned = "".join(
        f"- {holder}: {', '.join(f'`{name}`' for name in names)}\n" for holder, names in holders.items()
    )
    return (
        f"{BEGIN}\nAll of them are carried out.\n\n{flowops}\n## Every attribute\n\n{owned}\n"
        f"## Every statement\n\n{statements}- {idle}: {NO_EFFECT}\n- `foreach`: refused: levels of a factor\n"
    )


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, _ = page.partition(BEGIN)
    if os.environ.get("IODYNO_UPDATE"):
        PAGE.write_text(head + tables(), encoding="utf-8")
        return
    assert page == head + tables()
