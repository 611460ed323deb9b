"""The table of docs/guides/studies.md is of the files in studies/.

`IODYNO_UPDATE=1 pytest tests/docs/test_studies_page.py` writes it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iodyno.analysis.fitting.usl import LOADS_LEAST
from iodyno.analysis.wall import CLIENTS
from iodyno.core.experiment import Experiment
from iodyno.designs import plan
from iodyno.designs.duration import estimate
from iodyno.formats.experiment_file import read_experiment

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "studies.md"
BEGIN = "## The files\n"
HOSTS = {"IODYNO_CLIENT": "user@sender", "IODYNO_SERVER": "user@receiver"}
_SHAPED = ("link_rate", "link_delay", "link_queue", "link_frames")
_WITH_CLANG = {"reflector", "xdp"}


def table() -> str:
    rows = []
    for file in sorted((ROOT / "studies").glob("*.yaml")):
        experiment = read_experiment(file, quick=True, environment=HOSTS)
        design = plan(experiment)
        spec = experiment.search
        minutes = (
            len(design.points) * spec.duration_ns if spec else estimate(experiment, design).total_ns
        ) / 60e9
        time = f"{minutes:.0f} min" if minutes >= 1.5 else f"{60 * minutes:.0f} s"
        time += " at most" if spec else ""
        rows.append(
            f"| [{file.stem}](../../studies/{file.name}) | {experiment.question.strip()} | {needs(experiment)} | {time} |\n"
        )
    return f"{BEGIN}\n| study | question | needs | `--quick` |\n| --- | --- | --- | --- |\n{''.join(rows)}"


def needs(experiment: Experiment) -> str:
    """What the file says that it takes, beside an agent."""
    accesses = {host.access for host in experiment.hosts.values()}
    levels = {factor.name: {str(level) for level in factor.levels} for factor in experiment.factors}
    for factor in experiment.factors:
        for name, together in factor.together.items():
            levels.setdefault(name, set()).update(map(str, together))
    settings = {name: {str(value)} for name, value in experiment.workload.settings.items()}
    asked = {**levels, **settings}
    clang = bool(_WITH_CLANG & {word for words in asked.values() for word in words})
    found = []
    if "ssh" in accesses:
        found.append("two machines with ssh")
    elif "netns" in accesses:
        firm = any("." in name for name in levels) or set(_SHAPED) & set(asked) or "volume" in asked
        firm = (
            firm
            or bool(experiment.tunables)
            or "path" in asked
            or clang
            or any(name.endswith("_quota") for name in asked)
        )
        found.append("root" if firm else "root; without it loopback")
    if clang:
        found.append("an agent built with clang")
    if "sandbox" in asked.get("path", ()):
        found.append("for four levels `runsc` and [a guest](paths.md)")
    if volumes := asked.get("volume"):
        found.append("volumes that the machine can have: " + ", ".join(sorted(volumes)))
    return "; ".join(found) or "nothing"


def test_the_table_is_of_the_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head = page.partition(BEGIN)[0]
    if os.environ.get("IODYNO_UPDATE"):
        PAGE.write_text(head + table(), encoding="utf-8")
        return
    assert page == head + table()


@pytest.mark.parametrize("file", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda file: file.stem)
def test_a_study_that_asks_for_a_wall_has_what_a_wall_needs(file: Path) -> None:
    """In its quick form, too: with one trial of each load nobody knows how rates vary, and no wall is told."""
    experiment = read_experiment(file, quick=True, environment=HOSTS)
    asks = "how many clients on" in experiment.question
    assert asks == (file.stem in ("lock-manager", "shaped-link"))
    if asks:
        loads = next(factor for factor in experiment.factors if factor.name == CLIENTS)
        assert experiment.design.replicates >= 2
        assert len(loads.levels) >= LOADS_LEAST
