"""Rows of exchanges as Arrow record batches. A value that its column cannot hold is dropped without its batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from captures.faults import Faults

if TYPE_CHECKING:
    import pyarrow as pa


def record_batch(
    made: pa.Schema, columns: Iterable[Any], numbers: Sequence[int], faults: Faults, what: str
) -> pa.RecordBatch:
    """Return a record batch.

    A value that does not fit its column, such as a sum of wire values that exceeds 64 bits, is reported as an internal
    error. It becomes null; if the column is not nullable, its row is dropped.

    :param made: the schema
    :param columns: for each column of the schema its values or an Arrow array; produced one by one to save memory
    :param numbers: exchange number of each row; empty if rows do not stand for single exchanges
    :param what: the activity named in error reports
    """
    import pyarrow as pa

    lost: set[int] = set()
    arrays = []
    for field, values in zip(made, columns, strict=True):
        if isinstance(values, pa.Array):
            arrays.append(values)
            continue
        try:
            arrays.append(pa.array(values, field.type))
        except Exception:
            held, bad = _held(field, values, numbers, faults, what)
            arrays.append(pa.array(held, field.type))
            if not field.nullable:
                lost |= bad
    if lost:
        kept = pa.array([row for row in range(len(arrays[0])) if row not in lost], pa.int64())
        arrays = [array.take(kept) for array in arrays]
    return pa.record_batch(arrays, schema=made)


def _held(
    field: pa.Field, values: Sequence[Any], numbers: Sequence[int], faults: Faults, what: str
) -> tuple[list[Any], set[int]]:
    """Return the column's values, with null for those that it cannot hold, and the rows of these."""
    import pyarrow as pa

    held, bad = list(values), set[int]()
    for row, value in enumerate(held):
        number = numbers[row] if len(numbers) else 0
        doing = f"{what}, column {field.name}"
        if faults.contained(partial(pa.array, [value], field.type), doing, None, number) is None:
            held[row] = None
            bad.add(row)
    return held, bad
