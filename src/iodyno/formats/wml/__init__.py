"""Personalities of Filebench: a file in the Workload Model Language in, `iodyno.core.personality` out."""

from iodyno.formats.wml.reading import is_personality, parse_personality, read_personality

__all__ = ["is_personality", "parse_personality", "read_personality"]
