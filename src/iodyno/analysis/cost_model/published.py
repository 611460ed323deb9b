"""A model out of a published table of coefficients: a line a term, with the ends of a factor's range beside its own line.

```
term,coefficient,low,high
intercept,6.76,,
read [%],-0.32,0,100
protocol,1.23,fc,nfs
iops,4.20,1000/s,4000/s
iops:protocol,0.74,,
```
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from iodyno.analysis.cost_model.coding import FactorScale
from iodyno.analysis.cost_model.data import factor_of, head_of
from iodyno.analysis.cost_model.model import CostModel, published_model
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.formats.given_file import read_table

COLUMNS = ("term", "coefficient", "low", "high")
ROWS_MOST = 1000
"""Terms (chosen: more than any table in print)."""


def read_published(
    path: Path, *, outcome: str, unit: str, standard_error: float, residual_df: int
) -> CostModel:
    """The table in `path`, of an orthogonal two-level design on the -1/+1 scale. `standard_error`: of each coefficient, in
    `unit`; `residual_df`: degrees of freedom that it has.

    Raises StoreError for a file that cannot be read, and ExperimentError with file and line.
    """
    if not (math.isfinite(standard_error) and standard_error >= 0) or residual_df < 1:
        raise ExperimentError(
            f"found a standard error of {standard_error:g} and {residual_df} degrees of freedom",
            where=str(path),
            advice="an error of 0 or more, and 1 or more degrees of freedom",
        )
    try:
        lines = read_table(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"the file cannot be read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            advice="a CSV file in UTF-8",
        ) from error
    rows = [
        (f"{path}:{number}", [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(lines), start=1)
        if any(cell.strip() for cell in row)
    ]
    if not rows or tuple(rows[0][1]) != COLUMNS:
        found = ",".join(rows[0][1]) if rows else "nothing"
        raise ExperimentError(
            invalid(found, ",".join(COLUMNS)),
            where=rows[0][0] if rows else str(path),
            advice="a line of these names, then a line a term",
        )
    if len(rows) > ROWS_MOST:
        raise ExperimentError(
            f"invalid value: {len(rows)} lines; expected {ROWS_MOST} at most", where=str(path)
        )
    factors: list[FactorScale] = []
    coefficients: dict[str, float] = {}
    for where, row in rows[1:]:
        if len(row) != len(COLUMNS):
            raise ExperimentError(
                f"invalid value: {counted(len(row), 'cell')}; expected {len(COLUMNS)}", where=where
            )
        name, given = head_of(row[0])
        if name in coefficients:
            raise ExperimentError(f"the term {name} stands there twice", where=where)
        coefficients[name] = _number(row[1], where)
        if row[2] or row[3]:
            factors.append(_factor(name, given, row[2:], where))
        elif name != "intercept" and ":" not in name:
            raise ExperimentError(
                f"{name} has no range", where=where, advice="its levels at -1 and +1 as low and high"
            )
    return published_model(
        factors,
        coefficients,
        standard_error=standard_error,
        residual_df=residual_df,
        outcome=outcome,
        unit=unit,
        source=str(path),
    )


def _number(cell: str, where: str) -> float:
    try:
        found = float(cell)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ExperimentError(
            f"invalid value: {cell!r} as a coefficient; expected a finite number", where=where
        )
    return found


def _factor(name: str, given: str, ends: list[str], where: str) -> FactorScale:
    if ":" in name or name == "intercept":
        raise ExperimentError(f"{name} has a range, which only a factor has", where=where)
    scale, levels = factor_of(name, given, [(where, end) for end in ends])
    if levels[0] == levels[1]:
        raise ExperimentError(f"both ends of {name} are {ends[0]}", where=where)
    if scale.numeric and levels[0] > levels[1]:  # type: ignore[operator]
        raise ExperimentError(f"the low end of {name} is above the high one", where=where)
    return FactorScale(scale.name, scale.kind, (levels[0], levels[1]), scale.unit)
