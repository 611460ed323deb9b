"""An experiment file's text with another value of a key: what the command line asks for, or a design file that is kept in it."""

from __future__ import annotations

from typing import Any

from iodyno.formats import yaml_document
from iodyno.formats.experiment_text import experiment_text


def with_key(text: str, key: str, value: Any) -> str:
    """The text in which a key at the top has this value, in one line such as `design: {kind: csv}`.

    Lines after it keep their numbers where the section had more than one. Raises NotYamlError.
    """
    written = experiment_text({key: value}).rstrip("\n")
    top, _ = yaml_document.read(text, {})
    lines = text.split("\n")
    if not isinstance(top.value, dict):
        return text
    starts = sorted(top.key_lines.values())
    if key not in top.key_lines:
        if lines and lines[-1] == "":
            lines.pop()
        return "\n".join([*lines, written, ""])
    begin = top.key_lines[key]
    if starts.count(begin) > 1 or not lines[begin - 1].startswith(("design", '"design', "'design")):
        return experiment_text({**top.plain(), key: value})
    end = next((line for line in starts if line > begin), len(lines) + 1)
    # Comments and empty lines before the next key are about that key.
    while end - 1 > begin and (not lines[end - 2].strip() or lines[end - 2].startswith("#")):
        end -= 1
    return "\n".join([*lines[: begin - 1], written, *[""] * (end - begin - 1), *lines[end - 1 :]])
