"""Personalities of Filebench: a file in the Workload Model Language in, `iodyno.loads.files.core` out."""

from iodyno.loads.files.wml.reading import is_personality, parse_personality, read_personality

__all__ = ["is_personality", "parse_personality", "read_personality"]
