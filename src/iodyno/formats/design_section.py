"""The section `design` of an experiment file: which keys it has, what they hold, and to which kind of design each belongs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import Field

from iodyno.core import effect
from iodyno.core.design import DESIGN_KINDS, DIRECTIONS
from iodyno.core.design_options import OPTIONS_OF
from iodyno.core.experiment import DesignSpec
from iodyno.core.factor import Factor
from iodyno.core.invalid import found, invalid
from iodyno.core.workload import Level, Parameter
from iodyno.formats import design_points
from iodyno.formats import section_values as values
from iodyno.formats.mistakes import Path, unknown

Note = Callable[[Path, str], None]

AXIAL = ("faced", "inscribed", "circumscribed")
MODELS = ("main", "interactions", "quadratic")
_ROMAN = {"III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "X": 10}


def _resolution(written: Any) -> int:
    number = _ROMAN.get(written.strip().upper(), written) if isinstance(written, str) else written
    if isinstance(number, bool) or not re.fullmatch(r"[1-9]\d?", str(number)) or not 3 <= int(number) <= 16:
        raise ValueError(invalid(written, "a resolution of 3 (III) or more, 16 at most"))
    return int(number)


def _texts(written: Any) -> tuple[str, ...]:
    """A list of words, or one of them alone."""
    entries = [written] if isinstance(written, str) else written
    if not isinstance(entries, list) or not entries or len(entries) > 200:
        raise ValueError(invalid(written, "a list of texts"))
    for entry in entries:
        if not isinstance(entry, str) or not entry.strip() or len(entry) > 200:
            raise ValueError(
                f"invalid value: {found(entry)} in the list; expected a text of 200 characters at most"
            )
    return tuple(entry.strip() for entry in entries)


def _base(written: Any) -> dict[str, Any]:
    if not isinstance(written, dict):
        raise ValueError(invalid(written, "factors with one level each"))
    return written


def _rows(written: Any) -> str:
    if not isinstance(written, str) or not written.strip():
        raise ValueError(invalid(written, "the text of a design file"))
    return written


_TEXTS = values.Reads(
    _texts,
    {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
)
_RESOLUTION = values.Reads(
    _resolution, {"anyOf": [{"type": "integer", "minimum": 3, "maximum": 16}, {"enum": list(_ROMAN)}]}
)


def _about(option: str) -> str:
    known = OPTIONS_OF[option]
    others = [kind for kind in DESIGN_KINDS if kind not in known.kinds]
    kinds = (
        f"Not of: {', '.join(others)}."
        if len(others) < len(known.kinds)
        else f"Of: {', '.join(known.kinds)}."
    )
    return f"{known.help} {kinds}" if others else known.help


class DesignSection(values.Section):
    """Which points are visited, how often and in which order."""

    kind: Annotated[Any, values.one_word_of(DESIGN_KINDS)] = Field(
        "full_factorial", description=" ".join(f"{k}: {t}" for k, t in DESIGN_KINDS.items())
    )
    replicates: Annotated[Any, values.quantity_within("count", low=1, high=1000)] = Field(
        3, description="How often each point is visited."
    )
    blocks: Annotated[Any, values.switch()] = Field(
        True, description="Whether every point is visited once before any is visited again."
    )
    seed: Annotated[Any, values.quantity_within("count", low=0, high=2**63 - 1)] = Field(
        1, description="Seed of the random order."
    )
    resolution: Annotated[Any, _RESOLUTION] = Field(None, description=_about("resolution"))
    runs: Annotated[Any, values.quantity_within("count", low=1, high=99_999)] = Field(
        None, description=_about("runs")
    )
    generators: Annotated[Any, _TEXTS] = Field((), description=_about("generators"))
    clear: Annotated[Any, _TEXTS] = Field((), description=_about("clear"))
    split: Annotated[Any, values.quantity_within("count", low=1, high=4096)] = Field(
        1, description=_about("split")
    )
    confound: Annotated[Any, _TEXTS] = Field((), description=_about("confound"))
    centre_points: Annotated[Any, values.quantity_within("count", low=0, high=1000)] = Field(
        None, description=_about("centre_points")
    )
    slow: Annotated[Any, _TEXTS] = Field((), description=_about("slow"))
    log: Annotated[Any, _TEXTS] = Field((), description=_about("log"))
    axial: Annotated[Any, values.one_word_of(AXIAL)] = Field("faced", description=_about("axial"))
    model: Annotated[Any, _TEXTS] = Field(("interactions",), description=_about("model"))
    augment: Annotated[Any, values.LINE] = Field(None, description=_about("augment"))
    along: Annotated[Any, values.LINE] = Field(None, description=_about("along"))
    direction: Annotated[Any, values.one_word_of(DIRECTIONS)] = Field("up", description=_about("direction"))
    base: Annotated[Any, values.Reads(_base, {"type": "object"})] = Field(None, description=_about("base"))
    file: Annotated[Any, values.LINE] = Field(None, description=_about("file"))
    rows: Annotated[Any, values.Reads(_rows, {"type": "string"})] = Field(None, description=_about("rows"))


def belonging(section: Any, kind: str) -> Any:
    """The section without the options that do not belong to a kind of design."""
    kept = {
        name: getattr(section, name)
        for name in section.model_fields_set
        if name not in OPTIONS_OF or kind in OPTIONS_OF[name].kinds
    }
    return DesignSection.model_construct(set(kept), **kept)


def check(section: Any, factors: Mapping[str, Factor], note: Note, path: Path) -> None:
    """Check the keys together and beside the factors; note those that do not fit."""
    for name in sorted(section.model_fields_set):
        option = OPTIONS_OF.get(name)
        if option is not None and section.kind not in option.kinds:
            text = f"can only be used with {', '.join(option.kinds)}, not with {section.kind}"
            note((*path, name), text)
    names = list(factors)
    for key in ("slow", "log"):
        for name in getattr(section, key):
            if name not in factors:
                note((*path, key), unknown(name, names, "factor"))
    if section.along is not None and section.along not in factors:
        note((*path, "along"), unknown(section.along, names, "factor"))
    for key in ("clear", "confound"):
        for written in getattr(section, key):
            try:
                effect.parse(written, names)
            except ValueError as problem:
                note((*path, key), str(problem))
    if section.kind == "csv" and section.file is None and section.rows is None:
        note(path, "missing key file: expected the file of the design, beside the experiment file")
    if section.file is not None and section.rows is not None:
        note((*path, "rows"), "file cannot be used with rows")


def spec_of(
    section: Any,
    factors: Mapping[str, Factor],
    parameters: Mapping[str, Parameter],
    folder: FilePath,
    note: Note,
    path: Path,
) -> DesignSpec:
    """The design as a value. Files that it names are read; what cannot be is noted."""
    held = {
        name: getattr(section, name)
        for name in section.model_fields_set
        if name in DesignSpec.__dataclass_fields__ and name != "base"
    }
    if section.kind == "csv":
        held.setdefault("replicates", 1)  # the file says every trial
    if section.base is not None:
        held["base"] = _levels(section.base, factors, parameters, note, (*path, "base"))
    for key in ("file", "augment"):
        named = getattr(section, key)
        if named is not None:
            rows, mistake = design_points.text_of(folder / named)
            if mistake:
                note((*path, key), mistake)
            held["rows"] = rows
    if section.augment is not None:
        held["file"] = section.augment
    return DesignSpec(**held)


def _levels(
    written: Mapping[str, Any],
    factors: Mapping[str, Factor],
    parameters: Mapping[str, Parameter],
    note: Note,
    path: Path,
) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for name, entry in written.items():
        if name not in factors:
            note((*path, name), unknown(name, list(factors), "factor"))
            continue
        try:
            levels[name] = values.value_of(parameters[name]).read(entry)
        except ValueError as problem:
            note((*path, name), str(problem))
    return levels
