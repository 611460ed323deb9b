"""One reading of an experiment file: what its keys hold, and the mistakes that are noted on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from iodyno.core.invalid import invalid
from iodyno.formats import section_values as values
from iodyno.formats import yaml_document
from iodyno.formats.mistakes import Mistake, Path, dotted, unknown_key


class Reading:
    """The document, its mistakes so far, and the names of its hosts: what each section's reader is given."""

    def __init__(
        self, top: yaml_document.Node, mistakes: list[Mistake], folder: FilePath = FilePath()
    ) -> None:
        self.top = top
        self.folder = folder
        self.plain = top.plain()
        self.mistakes = list(mistakes)
        self.suspect = {mistake.path for mistake in mistakes}
        hosts = self.plain.get("hosts") if isinstance(self.plain, dict) else None
        self.host_names: list[str] = list(hosts) if isinstance(hosts, dict) else []
        self.groups: dict[str, tuple[str, ...]] = {}
        self.listed: dict[str, dict[str, Any]] = {}

    def section(self, section: Any, written: Any, path: Path) -> Any:
        """The section read; None when it is wrong, with its mistakes noted."""
        if written is None and path and not self.has(path):
            written = {}
        if not isinstance(written, (dict, list) if issubclass(section, values.FactorSection) else dict):
            allowed = ", ".join(section.model_fields)
            self.note(path, invalid(written, f"a mapping with the keys {allowed}"))
            return None
        try:
            return section.model_validate(written)
        except ValidationError as problem:
            for detail in problem.errors(include_url=False):
                self.note_detail(section, written, path, detail)
            return None

    def note_detail(self, section: Any, written: Any, path: Path, detail: ErrorDetails) -> None:
        """Notes one of pydantic's errors in our words, at the place in the file that it is about."""
        steps = list(detail["loc"])
        if isinstance(written, list) and steps and steps[0] == "levels":
            steps = steps[1:]
        place = (*path, *steps)
        kind, value = detail["type"], detail["input"]
        if kind == "value_error":
            self.note(place, str(detail["ctx"]["error"]))
        elif kind in ("extra_forbidden", "missing"):
            fields = _section_at(section, list(detail["loc"][:-1])).model_fields
            key = str(place[-1])
            if kind == "missing":
                self.note_missing(place[:-1], key, str(fields[key].description))
            else:
                self.note(place, unknown_key(key, fields))
        elif kind == "too_short":
            self.note(place, f"invalid value: an empty list; expected at least one {_entry(place)}")
        elif kind == "too_long":
            most = f"{detail['ctx']['max_length']} {_entry(place)}s at most"
            self.note(place, f"invalid value: a list of {len(value)}; expected {most}")
        elif kind == "list_type":
            self.note(place, invalid(value, "a list"))
        else:
            self.note(place, invalid(value, "a mapping"))

    def note_missing(self, path: Path, key: str, needed: str) -> None:
        """Notes that a mapping lacks a key that it cannot do without."""
        self.note(path, f"missing key {key}: expected {needed[:1].lower()}{needed[1:].rstrip('.')}")

    def mapping(self, written: Any, path: Path, allowed: str) -> bool:
        """Tell whether the value is a mapping; note it when it is not."""
        if not isinstance(written, dict):
            self.note(path, invalid(written, allowed))
        return isinstance(written, dict)

    def no_duplicates(self, entries: Sequence[Any], path: Path, show: Any) -> None:
        """Notes every value that stands in the list a second time."""
        seen: dict[Any, int] = {}
        for index, value in enumerate(entries):
            if isinstance(value, (list, dict)):
                continue
            if value in seen:
                self.note(
                    (*path, index),
                    f"duplicate value {show(value)}, first as number {seen[value] + 1}",
                )
            seen.setdefault(value, index)

    def note(self, path: Path, text: str) -> None:
        """Notes a mistake, unless one about the same place makes it meaningless."""
        written = dotted(path)
        if written not in self.suspect:
            self.mistakes.append(Mistake(self.top.line_of(path), written, text))

    def value(self, path: Path) -> Any:
        """Return the value that the file holds at a path of keys; None when there is nothing."""
        value = self.plain
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def has(self, path: Path) -> bool:
        """Tell whether the key is in the file."""
        parent = self.value(path[:-1])
        return isinstance(parent, dict) and path[-1] in parent


def _entry(place: Path) -> str:
    """Name of an entry of the list there."""
    return "goal" if place[-1] == "goals" else "level"


def _section_at(section: Any, steps: list[str | int]) -> Any:
    """The section to which a path below `section` leads."""
    for step in steps:
        annotation = section.model_fields[step].annotation if step in section.model_fields else None
        if isinstance(annotation, type) and issubclass(annotation, values.Section):
            section = annotation
    return section
