"""Ratios of paired measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and greatest of ours / theirs over pairs measured one after the other."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)
