"""What is true of every row of a trial's parts, in SQL: a file may be what its manifest says and yet hold what no agent sent."""

from __future__ import annotations

from collections.abc import Mapping

from iodyno.store.engine import name
from iodyno.store.schema import PARTS

BUCKETS = 4608
"""Of the layout of histograms."""
_MAY_BE_NULL = frozenset({("sensors", "missing"), ("metrics", "missing"), ("metrics", "value")})
_MAY_BE_NEGATIVE = frozenset({("metrics", "before_ns"), ("metrics", "after_ns")})
_OF_A_CPU = "(starts_with(metric, 'exact.') OR metric IN ('softirqs.count', 'softnet.processed'))"
"""Metrics that the analysis takes apart by CPU."""
_MORE: Mapping[tuple[str, str], str] = {
    ("records", "end_ns"): "end_ns > begin_ns",
    ("histograms", "buckets"): f"(list_min(buckets) < 0 OR list_max(buckets) >= {BUCKETS}) IS NOT TRUE",
    ("histograms", "counts"): "len(counts) = len(buckets) AND (list_min(counts) < 0) IS NOT TRUE"
    " AND coalesce(list_sum(counts), 0) = count",
    ("series", "label"): f"(NOT {_OF_A_CPU} OR regexp_full_match(label, 'cpu=[0-9]{{1,6}}(,.*)?'))",
}


def condition(part: str, *, named: bool = False) -> str:
    """True of every row of a part; for any other the query ends with an error. Where columns are to be `named` in it the engine
    needs half as long again to plan the query.
    """
    holds = {column: _holds(part, column, kind) for column, kind in PARTS[part].items()}
    said = "'a row that cannot be'"
    if named:
        wrong = (f"CASE WHEN ({true}) IS NOT TRUE THEN '{column}' END" for column, true in holds.items())
        said += f" || ': ' || concat_ws(', ', {', '.join(wrong)})"
    return f"CASE WHEN {' AND '.join(holds.values())} THEN true ELSE error({said})::BOOLEAN END"


def _holds(part: str, column: str, kind: str) -> str:
    quoted = name(column)
    true = [] if (part, column) in _MAY_BE_NULL else [f"{quoted} IS NOT NULL"]
    if kind in ("INTEGER", "BIGINT") and (part, column) not in _MAY_BE_NEGATIVE:
        true.append(f"{quoted} >= 0")
    if kind.endswith("[]"):
        true.append(f"list_count({quoted}) = len({quoted})")
    if more := _MORE.get((part, column)):
        true.append(more)
    return " AND ".join(true) or "true"
