"""The experiment file: YAML in, `iodyno.core.experiment.Experiment` out, or one error with every mistake.

>>> experiment = parse_experiment('''
... name: cost
... hosts: {client: {access: local}, server: {access: local}}
... workload: {kind: stream, sender: client, receiver: server}
... factors: {size: [1KiB, 64KiB]}
... ''')
>>> experiment.factors[0].levels, experiment.windows.measured_ns
((1024, 65536), 10000000000)
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iodyno.core.design_options import OPTIONS_OF
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment, SensorLevel
from iodyno.formats import design_text, yaml_document
from iodyno.formats.experiment_schema import experiment_schema
from iodyno.formats.experiment_sections import ExperimentReading
from iodyno.formats.experiment_text import experiment_text
from iodyno.formats.given_file import read_given
from iodyno.formats.mistakes import error, nearest_of
from iodyno.loads.base.formats import load_named

__all__ = [
    "experiment_schema",
    "experiment_text",
    "line_of",
    "parse_experiment",
    "read_experiment",
    "with_design",
    "with_sensors",
]


def _nearest_file(file: pathlib.Path) -> str:
    """`; did you mean ...?` with the experiment file nearest to one that is not there: beside it, or among the studies."""
    folders = [file.parent, pathlib.Path("studies")]
    if not file.parent.is_dir():
        by_name = {each.name: each for each in file.parent.parent.glob("*/")}
        near = nearest_of(file.parent.name, by_name)
        folders[:1] = [by_name[near]] if near else []
    there = [path for folder in folders for path in folder.glob("*.yaml") if path != file]
    by_stem = {path.stem: path for path in reversed(there)}
    near = nearest_of(file.stem, by_stem)
    return f"; did you mean {by_stem[near]}?" if near else ""


def read_experiment(
    path: str | os.PathLike[str],
    *,
    quick: bool = False,
    environment: Mapping[str, str] | None = None,
    design: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment in the file, or in stdin where that is `-`; with `quick`, in its quick form.

    `environment` (default: that of the process) gives the values of `${NAME}`. `design`: keys that replace those of its
    section `design`, also in the text that is kept. Raises ExperimentError.
    """
    file = pathlib.Path(path)
    advice = "name an experiment file, such as study:tcp-transmit (`iodyno studies`), or make one with `iodyno init`"
    try:
        if str(path) == "-":
            raw = sys.stdin.buffer.read(yaml_document.MAX_BYTES + 1)
        else:
            raw = read_given(path, yaml_document.MAX_BYTES)
    except OSError as problem:
        why = f"cannot be read: {problem.strerror}{_nearest_file(file)}"
        raise ExperimentError(why, where=str(path), advice=advice) from None
    text: str | bytes = raw
    if design:
        try:
            text = with_design(yaml_document.decode(raw), design, file=str(path), environment=environment)
        except yaml_document.NotYamlError as problem:
            raise error(str(path), [problem.mistake]) from None
    return parse_experiment(text, file=str(path), quick=quick, environment=environment)


def parse_experiment(
    text: str | bytes,
    *,
    file: str = "experiment.yaml",
    quick: bool = False,
    environment: Mapping[str, str] | None = None,
    folder: pathlib.Path | None = None,
) -> Experiment:
    """The experiment in the text, which errors call `file`. See `read_experiment`. `folder`: where the files lie that it names;
    without it, beside `file`.
    """
    try:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
        decoded = yaml_document.decode(raw)
        top, mistakes = yaml_document.read(decoded, os.environ if environment is None else environment)
    except yaml_document.NotYamlError as problem:
        raise error(file, [problem.mistake]) from None
    reading = ExperimentReading(top, mistakes, folder or pathlib.Path(file).parent)
    experiment = reading.experiment(decoded, quick=quick)
    if experiment is None or reading.mistakes:
        raise error(file, reading.mistakes, "`iodyno schema` prints every key with what it may hold")
    if reading.listed:
        # With the hosts themselves, so that a campaign goes on with them when the inventory has changed.
        reading.plain["hosts"] = {**reading.plain["hosts"], **reading.listed}
        decoded = experiment_text(reading.plain)
        experiment = replace(experiment, text=decoded)
    load = load_named(experiment.workload.kind)
    if (whole := load.whole(experiment.workload, reading.plain["workload"])) is not None:
        # With what it names, so that the campaign is complete in its folder.
        decoded = experiment_text({**reading.plain, "workload": whole})
        experiment = replace(experiment, text=decoded)
    written = reading.plain.get("design") or {}
    if experiment.design.rows is None or "rows" in written:
        return experiment
    # With the points themselves, so that the campaign is complete in its folder.
    kept = {key: value for key, value in written.items() if key not in ("file", "augment")}
    return replace(experiment, text=_with_design(decoded, {**kept, "rows": experiment.design.rows}))


def with_design(
    text: str, options: Mapping[str, Any], *, file: str, environment: Mapping[str, str] | None = None
) -> str:
    """The text of an experiment file with these keys in its section `design`, beside those that are there.

    Keys that do not belong to the kind of design asked for fall away. Raises ExperimentError.
    """
    try:
        top, _ = yaml_document.read(text, os.environ if environment is None else environment)
    except yaml_document.NotYamlError as problem:
        raise error(file, [problem.mistake]) from None
    plain = top.plain()
    design = plain.get("design") if isinstance(plain, dict) else None
    kept = dict(design) if isinstance(design, dict) else {}
    kind = options.get("kind", kept.get("kind", "full_factorial"))
    if kind != kept.get("kind", "full_factorial"):
        kept = {
            key: value
            for key, value in kept.items()
            if (key not in OPTIONS_OF or kind in OPTIONS_OF[key].kinds)
            and (key != "replicates" or kind != "csv")  # which says every trial
        }
    return _with_design(text, {**kept, **options})


def with_sensors(experiment: Experiment, level: SensorLevel | None) -> Experiment:
    """The experiment with so many sensors instead of the file's, also in its text; None: as it is."""
    if level is None:
        return experiment
    text = design_text.with_key(experiment.text, "sensors", level)
    profile_hz = 0 if level == "off" else experiment.profile_hz
    return replace(experiment, sensors=level, profile_hz=profile_hz, text=text)


def line_of(text: str, path: str) -> int:
    """The line of a key such as `design.runs` in the text of an experiment file, counted from 1; 1 where it is not."""
    try:
        top, _ = yaml_document.read(text, {})
    except yaml_document.NotYamlError:
        return 1
    section, _, rest = path.partition(".")
    return top.line_of((section, rest) if rest else (section,))


def _with_design(text: str, design: Mapping[str, Any]) -> str:
    return design_text.with_key(text, "design", dict(design))
