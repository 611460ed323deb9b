"""The rules of the house that can be counted."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from iodyno.session.locate import program_path

ROOT = Path(__file__).parents[2]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_the_root_has_at_most_15_entries() -> None:
    entries = {path.relative_to(ROOT).parts[0] for path in tracked()}
    visible = sorted(entry for entry in entries if not entry.startswith("."))
    assert len(visible) <= 15, visible


def test_no_file_is_a_drawer() -> None:
    sources = tracked("*.py", "*.rs")
    assert sources
    long = [f"{p.relative_to(ROOT)}: {n}" for p in sources if (n := len(p.read_text().splitlines())) > 600]
    assert not long
    banned = re.compile(r"^(utils?|helpers?|common|misc|manager)$")
    assert not [p for p in sources if banned.match(p.stem)]


def test_unsafe_code_lives_in_sys_only() -> None:
    entries = tracked(
        "agent/*/src/main.rs", "agent/*/src/lib.rs", "tools/*/src/main.rs", "tools/*/src/lib.rs"
    )
    crates = {path.relative_to(ROOT).parts[1] for path in entries}
    assert {"core", "load", "sense", "cli", "heat"} <= crates
    for path in entries:
        if "sys" not in path.relative_to(ROOT).parts:
            assert "#![forbid(unsafe_code)]" in path.read_text(), path


def test_the_pure_crate_stays_pure() -> None:
    forbidden = re.compile(r"\bstd::(time|thread|fs|net|process|io)\b|\blibc\b|\bprintln!")
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked("agent/core/src/*.rs")
        for match in forbidden.finditer(path.read_text())
    ]
    assert not found
    assert "libc" not in (ROOT / "agent/core/Cargo.toml").read_text()


def test_every_rust_test_program_is_run_by_make() -> None:
    """Programs are named there, so that those that look at the whole machine run by themselves."""
    folders = {
        path.parent.relative_to(ROOT)
        for path in tracked("agent/*/tests/*/main.rs", "tools/*/tests/*/main.rs")
    }
    programs = {folder.name for folder in folders} | {
        path.stem
        for path in tracked("agent/*/tests/*.rs", "tools/*/tests/*.rs")
        if path.parent.name == "tests"
    }
    named = re.findall(
        r"^RUST_\w+ := --(?:lib|bins) \$\(patsubst %,--test %,(.*)\)$",
        (ROOT / "Makefile").read_text(),
        re.MULTILINE,
    )
    assert len(named) == 2
    assert sorted(name for line in named for name in line.split()) == sorted(programs)


def test_a_variable_of_make_has_one_value() -> None:
    """A second one, further down, is what every rule sees: wheels were once built for a folder."""
    names = re.findall(r"^(\w+) [:?]?= ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(names) > 20
    assert sorted(names) == sorted(set(names))


def test_the_agents_documentation_holds_no_example_that_is_not_run() -> None:
    """`make test` runs no doc tests, of which there are none: each crate would be compiled once more to find that out."""
    fences = re.compile(r"^\s*//[/!] ```(.*)$", re.MULTILINE)
    opened = {
        mark for path in tracked("agent/*.rs", "tools/*.rs") for mark in fences.findall(path.read_text())[::2]
    }
    assert opened == {"text"}


def test_load_and_sensors_do_not_know_each_other() -> None:
    for crate, other in (("load", "sense"), ("sense", "load")):
        manifest = (ROOT / "agent" / crate / "Cargo.toml").read_text()
        assert f"iodyno-{other}" not in manifest


def test_the_agent_was_built_from_these_sources() -> None:
    built = (program_path().parent / "BUILD").stat().st_mtime
    sources = tracked("agent/*/src/*.rs", "tools/*/src/*.rs")
    newer = [str(p.relative_to(ROOT)) for p in sources if p.stat().st_mtime > built]
    assert not newer, f"run `make build`; changed since: {newer}"


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_core_knows_only_the_standard_library_no_clock_and_no_chance() -> None:
    impure = {"os", "time", "random", "secrets", "socket", "subprocess", "asyncio", "datetime", "pathlib"}
    of_core = re.compile(r"iodyno\.(core|loads\.\w+\.core|loads\.base\.(kinds|workloads))\b")
    base = (f"src/iodyno/loads/base/{name}.py" for name in ("core", "kinds", "workloads"))
    for path in tracked("src/iodyno/core/*.py", "src/iodyno/loads/*/core/*.py", *base):
        for name in imported(path):
            top = name.split(".")[0]
            assert of_core.match(name) or top in sys.stdlib_module_names, f"{path.name}: {name}"
            assert top not in impure, f"{path.name}: {name}"


def test_no_file_outside_loads_tells_kinds_of_load_apart() -> None:
    """What belongs to one kind is asked of it (`iodyno.loads.base`)."""
    asks = re.compile(
        r"\bworkload\.(hosts|program|script)\b|\bworkload\.kind (==|!=|in) [^W]|\bon_disks\b|\bis_exchange\b"
    )
    others = [p for p in tracked("src/iodyno/*.py") if "loads" not in p.relative_to(ROOT).parts]
    found = {str(p.relative_to(ROOT)) for p in others if asks.search(p.read_text(encoding="utf-8"))}
    assert found <= {"src/iodyno/formats/connection_points.py"}
