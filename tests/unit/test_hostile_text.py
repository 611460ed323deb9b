"""Text of a campaign, a file or a host that would steer the terminal it is read on: it is shown, and not obeyed."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import command_server
import pytest
from made_calls import sender
from made_campaign import Call, Layout, Truth, make_campaign
from rich.cells import cell_len

from iodyno.cli.main import run
from iodyno.report.table import Cell, Column, Table
from iodyno.report.text_table import fitted, plain
from iodyno.store.writer import write_document

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b8m\r\x08\x00\x7f\u202e\u2066"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FACTORS = [
    {"name": "connections", "levels": [1, 4], "together": {}},
    {"name": f"name{EVIL}", "levels": [f"a{EVIL}", f"b{EVIL}"], "together": {}},
]


def hostile(folder: Path, rate: float = 1e9) -> Path:
    """A campaign with `EVIL` in every text that may be anything."""
    calls = {"client": (*sender(), Call((f"kernel:f{EVIL}",), 9.0)), "server": (Call((f"m{EVIL}:g",), 9.0),)}
    points = [
        ({"connections": number, f"name{EVIL}": f"{letter}{EVIL}"}, Truth(rate, calls=calls))
        for number, letter in ((1, "a"), (4, "b"))
    ]
    hello = json.loads(json.dumps(Layout().hello))
    hello["host"] |= dict.fromkeys(("hostname", "kernel", "boot_id", "cpu_model"), f"x{EVIL}")
    hello["capabilities"] = [{"name": f"sensor.x{EVIL}", "available": False, "reason": f"why{EVIL}"}]
    made = make_campaign(
        folder,
        points,
        factors=FACTORS,
        layout=Layout(hello=hello, replicates=2),
        question=f"Is it?{EVIL}",
        experiment_text=f"name: made # {EVIL}\n",
    )
    warning = {"code": "sensor_missing", "text": f"because{EVIL}", "where": f"host client{EVIL}"}
    changed(made / "campaign.json", name=f"made{EVIL}", warnings=[warning], tool_version=f"1{EVIL}")
    reason = {"code": f"lost{EVIL}", "what": f"it ended{EVIL}", "where": f"server{EVIL}", "advice": EVIL}
    trials = sorted((made / "trials").iterdir())
    changed(trials[0] / "manifest.json", warnings=[warning])
    changed(trials[1] / "manifest.json", status="failed", reason=reason)
    return made


def changed(file: Path, **content: Any) -> None:
    write_document(file, json.loads(file.read_text()) | content)


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("hostile")
    broken = folder / f"broken{EVIL.replace(chr(0), '')}"
    broken.mkdir()
    (broken / "campaign.json").write_text(json.dumps({"schema_version": EVIL}))
    (folder / "hostile.yaml").write_text(f'name: "{EVIL[1:3]}"\nquest\u202eion: x\n')
    return {
        "c": str(hostile(folder / "c")),
        "d": str(hostile(folder / "d", 1.2e9)),
        "broken": str(broken),
        "yaml": str(folder / "hostile.yaml"),
        "link": "\x1b[31mred\udcc2\udc9b8m",
    }


COMMANDS = {
    "report {c}": 0,
    "report {c} --format csv": 0,
    "report {c} --json": 0,
    "report {broken}": 6,
    "report {link}": 6,
    "compare {c} {d}": 0,
    "compare {c} --points p01 p02": 0,
    "compare {c} {d} --json": 0,
    "profile {c} --point p01": 0,
    "profile {c} --point p01 --json": 0,
    "profile {c} --point p01 --format folded": 0,
    "heatmap {c}": 0,
    "watch {c} --once": 0,
    "model fit {c} --format csv": 2,
    "model cost {c}": 0,
    "check {yaml}": 2,
    "plan {yaml}": 2,
    "{link}": 2,
    "report --{link}": 2,
}


def on_terminal(words: list[str]) -> tuple[str, int]:
    """What the command writes to a terminal, which ends its lines with CR and LF."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        environment = os.environ | {"TERM": "dumb", "COLUMNS": "100", "NO_COLOR": "1"}
        command = [*command_server.iodyno(), *map(os.fsencode, words)]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        written = b""
        try:
            while data := screen.read(65536):
                written += data
        except OSError:  # EIO: nobody has the terminal any more
            pass
        return written.decode(errors="surrogateescape").replace("\r\n", "\n"), process.wait()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_nothing_of_a_campaign_or_a_file_steers_the_terminal(
    campaigns: dict[str, str], command: str, terminal: bool
) -> None:
    words = [word.format(**campaigns) for word in command.split()]
    if terminal:
        text, code = on_terminal(words)
    else:
        said = subprocess.run(
            [*command_server.iodyno(), *map(os.fsencode, words)], capture_output=True, timeout=600
        )
        text, code = (said.stdout + said.stderr).decode(errors="surrogateescape"), said.returncode
    if command.endswith(("--json", "folded")) and command.startswith("profile") and not terminal:
        return  # For a program: names are as they are.
    assert not (found := OBEYED.search(text)), text[found.start() - 80 : found.start() + 40]
    # Heat maps have a space for each, click and messages about words Python's own escapes.
    assert "\\u" in text or "\\x1b" in text or command == "heatmap {c}"
    assert code == COMMANDS[command], text


def test_what_is_no_text_for_a_terminal_comes_back_from_json(campaigns: dict[str, str]) -> None:
    said = subprocess.run(
        [*command_server.iodyno(), "report", campaigns["c"], "--json"], capture_output=True, timeout=600
    )
    assert json.loads(said.stdout)["name"] == f"made{EVIL}"


def test_errors_are_shown_so_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "\x1b[31mred"]) == 6
    assert "\\u001b[31mred" in (err := capsys.readouterr().err) and "\x1b" not in err


def test_columns_are_as_wide_as_what_is_shown() -> None:
    cells = [("\x1b[2Jx", "1"), ("a\tb\nc", "2"), ("plain", "3")]
    table = Table(
        "t", (Column("name", group="\x9bg"), Column("n")), tuple(tuple(map(Cell, row)) for row in cells)
    )
    for text in (plain(table), fitted(table, 60)):
        rows = text.splitlines()[-3:]
        assert [row[-1] for row in rows] == ["1", "2", "3"]
        assert len({cell_len(row) for row in rows}) == 1
