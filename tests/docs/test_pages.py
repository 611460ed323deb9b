"""The blocks of the documentation are executed, and what commands they show exists.

A block marked `sh` runs under `bash -e`, one marked `python` in one interpreter per page, all blocks of a page in
one empty folder that has the project's `studies` and `docs`. Blocks without a mark are output, grammar, or need another
machine and are not run: of the commands in them, command and options are looked up, and those of the README that look
at a campaign are given one. `make docs` starts each command anew; elsewhere they are forks of one process
(`command_server.py`).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from itertools import product
from pathlib import Path

import click
import command_server
import pytest
from made_campaign import Layout, Truth, make_campaign
from places import iodyno

from iodyno.cli.main import COMMANDS
from iodyno.formats.experiment_file import read_experiment

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = re.compile(r"https://(?:raw\.githubusercontent|github)\.com/iodyno/iodyno/(?:(?:blob|tree)/)?main/")
FENCE = re.compile(r"^```(?P<mark>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(m["mark"], m["body"]) for m in FENCE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [p for p in PAGES if any(blocks(p))], ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    for folder in ("studies", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    at_once = command_server.folder() if not os.environ.get("IODYNO_FULL") else None
    first = [at_once, Path(sys.executable).parent] if at_once else [Path(sys.executable).parent]
    environment = {**os.environ, "PATH": ":".join([*map(str, first), os.environ["PATH"]])}
    for mark, body in blocks(page):
        if mark == "sh":
            command = ["bash", "-e", "-o", "pipefail", "-c", body]
        elif mark == "python":
            command = [str(at_once / "script")] if at_once else [sys.executable, "-c"]
            command.append(body)
        else:
            continue
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        if ran.returncode == 5 and "the generator fell behind" in ran.stderr:
            return  # A busy machine kept it from its CPU, which is said; what follows needs the numbers.
        assert ran.returncode == 0, f"{page.name}, block\n{body}\n{ran.stdout}{ran.stderr}"


def targets(page: Path) -> list[str]:
    """What the links and pictures of the page name; a file of ours in the repository by its path in the checkout."""
    found = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    return [OURS.sub(f"{ROOT}/", target) for target in found]


def test_the_pages_name_only_files_that_exist() -> None:
    missing = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in targets(page)
        if not target.startswith(("http:", "https:")) and not (page.parent / target).exists()
    ]
    assert not missing


def test_the_links_of_the_readme_resolve_where_an_index_shows_it() -> None:
    """An index of packages has no files beside it."""
    found = targets(ROOT / "README.md")
    assert sum(target.startswith(f"{ROOT}/") for target in found) > 4
    assert [target for target in found if not target.startswith(("https:", f"{ROOT}/"))] == []


def test_the_messages_of_the_program_name_only_pages_that_exist() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "agent").rglob("src/**/*.rs")]
    named = {
        (str(source.relative_to(ROOT)), page.rstrip("."))
        for source in sources
        for page in re.findall(r"\bdocs/[\w/.-]+", source.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert not [f"{source}: {page}" for source, page in sorted(named) if not (ROOT / page).exists()]


def command_lines() -> list[tuple[str, str]]:
    """(page, line) of every `iodyno ...` in the blocks of the pages; a line that a backslash continues is one."""
    return [
        (page.name, line.strip())
        for page in PAGES
        for _, body in blocks(page)
        for line in re.sub(r"\\\n\s*", " ", body).splitlines()
        if re.match(r"\s*iodyno [a-z]", line)
    ]


def mistake(line: str) -> str:
    """What is wrong with the command, its sub-commands and the names of its options; empty where nothing is."""
    words = iter(shlex.split(line, comments=True)[1:])
    command: click.Command | None = None
    entries = {entry.name: entry for entry in COMMANDS}
    for word in words:
        if word in ("|", ">", "&&", ";", "&", "2>"):
            break
        if command is None:
            if word not in entries:
                return f"no command {word}"
            module, _, attribute = entries[word].place.partition(":")
            command = getattr(import_module(module), attribute)
        elif isinstance(command, click.Group) and not word.startswith("-"):
            below = command.get_command(click.Context(command), word)
            if below is None:
                return f"no {word} of {command.name}"
            command = below
        elif re.match(r"--?[a-zA-Z]", word):
            option = word.partition("=")[0]
            known = {name: p for p in command.params for name in (*p.opts, *p.secondary_opts)}
            if option not in known and option != "--help":
                return f"no option {option}"
            parameter = known.get(option)
            if isinstance(parameter, click.Option) and not parameter.is_flag and "=" not in word:
                next(words, "")
    return ""


def test_every_command_that_a_page_shows_exists_with_its_options() -> None:
    lines = command_lines()
    assert len(lines) > 80
    assert [f"{page}: {line}: {wrong}" for page, line in lines if (wrong := mistake(line))] == []
    assert mistake("iodyno tcp --conections 4") == "no option --conections"
    assert mistake("iodyno tpc") == "no command tpc"


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two campaigns, CAMPAIGN and AFTER, of the points that the study of the README has; BEFORE is the first."""
    folder = tmp_path_factory.mktemp("campaigns")
    study = read_experiment(ROOT / "studies" / "tcp-transmit.yaml", quick=True)
    levels = {factor.name: list(factor.levels) for factor in study.factors}
    points = [(dict(zip(levels, each, strict=True)), Truth()) for each in product(*levels.values())]
    factors = [{"name": name, "levels": each, "together": {}} for name, each in levels.items()]
    layout = Layout(replicates=2, intervals=2, outcomes=[str(outcome) for outcome in study.outcomes])
    for seed, name in enumerate(("CAMPAIGN", "AFTER")):
        make_campaign(folder / name, points, factors=factors, layout=layout, seed=seed)
    (folder / "BEFORE").symlink_to("CAMPAIGN")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        line
        for page, line in command_lines()
        if page == "README.md" and {"CAMPAIGN", "BEFORE"} & {*line.split()}
    ],
    ids=lambda line: "-".join(re.findall("[a-z]+", line)[1:3]),
)
def test_a_command_of_the_readme_that_looks_at_a_campaign_has_an_answer(line: str, campaigns: Path) -> None:
    shown = iodyno(*shlex.split(line, comments=True)[1:], cwd=campaigns)
    assert shown.returncode == 0, shown.stderr
