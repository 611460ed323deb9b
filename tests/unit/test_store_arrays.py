"""Columns become the arrays that Arrow's own conversion makes of them, without pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iodyno.store.arrays import table
from iodyno.store.schema import PARTS

_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=5),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
}


def _values(field: pa.Field) -> st.SearchStrategy[Any]:
    if pa.types.is_list(field.type):
        return st.lists(_VALUES[field.type.value_type], max_size=4)
    values = _VALUES[field.type]
    return st.none() | values if field.nullable else values


@st.composite
def _columns(draw: st.DrawFn, schema: pa.Schema) -> dict[str, list[Any]]:
    rows = draw(st.integers(0, 20))
    return {field.name: draw(st.lists(_values(field), min_size=rows, max_size=rows)) for field in schema}


@given(data=st.data(), part=st.sampled_from(sorted(PARTS)))
def test_a_part_is_what_arrow_makes_of_it(data: st.DataObject, part: str) -> None:
    columns = data.draw(_columns(PARTS[part]))
    made = table(columns, PARTS[part])
    made.validate(full=True)
    assert made.equals(pa.table(columns, schema=PARTS[part]))


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (pa.int32(), 2**31, OverflowError),
        (pa.int64(), 2**63, OverflowError),
        (pa.int64(), None, TypeError),
        (pa.int64(), 1.5, TypeError),
        (pa.string(), 7, AttributeError),
        (pa.string(), None, AttributeError),
        (pa.float64(), 1.0, TypeError),
    ],
)
def test_what_does_not_fit_its_column_is_refused(
    kind: pa.DataType, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        table({"column": [value]}, pa.schema([pa.field("column", kind, nullable=False)]))


def test_pandas_is_not_imported() -> None:
    program = (
        "import sys\n"
        "from iodyno.store.arrays import table\n"
        "from iodyno.store.schema import PARTS\n"
        "row = {field.name: 'name' if str(field.type) == 'string' else 1 for field in PARTS['sensors']}\n"
        "assert table({name: [value] for name, value in row.items()}, PARTS['sensors']).num_rows == 1\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
