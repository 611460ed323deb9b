"""Columns of Python values as Arrow arrays, by way of their buffers.

`pyarrow.array` does the same, and imports pandas at its first call to ask whether the values are a series: half a second of the
first trial's CPU time for nothing. Only the types that the parts of a trial have are known here (`schema.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

_CODES = {pa.int32(): "i", pa.int64(): "q"}
"""Type codes of the standard library's arrays, which refuse what does not fit."""


def table(columns: dict[str, list[Any]], schema: pa.Schema) -> pa.Table:
    """The columns as a table of that schema.

    Raises TypeError or AttributeError where a value is not of its column's type, also where one is missing that may not be;
    OverflowError where one does not fit.
    """
    return pa.Table.from_arrays([_column(columns[field.name], field) for field in schema], schema=schema)


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if not field.nullable:
        return _whole(values, field.type)
    # A bit for each value, the lowest first.
    present = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        present[index >> 3] |= (value is not None) << (index & 7)
    if not pa.types.is_string(field.type):
        raise TypeError(f"{field.name}: only texts may be missing")
    whole = _whole(["" if value is None else value for value in values], field.type)
    return pa.Array.from_buffers(field.type, len(values), [pa.py_buffer(present), *whole.buffers()[1:]])


def _whole(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if code := _CODES.get(kind):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))])
    if pa.types.is_string(kind):
        texts = [value.encode("utf-8") for value in values]
        buffers = [None, _offsets(texts), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(kind, len(values), buffers)
    if pa.types.is_list(kind):
        code = _CODES.get(kind.value_type)
        if code and all(isinstance(value, array) and value.typecode == code for value in values):
            packed = pa.py_buffer(b"".join(values))
            items = pa.Array.from_buffers(kind.value_type, sum(map(len, values)), [None, packed])
        else:
            items = _whole(list(chain.from_iterable(values)), kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [None, _offsets(values)], children=[items])
    raise TypeError(f"no array of {kind} is made here")


def _offsets(values: Sequence[Any]) -> pa.Buffer:
    """Where each value begins among the items of all, and where the last one ends."""
    return pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))
