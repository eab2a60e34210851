"""Results of aggregations as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Result, bind, plain_algebra
from muntin.aggregations.examples import example, example_type
from muntin.errors import ColumnTypeError
from muntin.types import Array, ColumnType

Raw = tuple[Array, Array | None, Result]
"""Physical values, a mask of those not null (None: all), and their type."""


def finished(raw: Raw, ends: Array | Callable[[], Array] | None = None) -> Raw:
    """Return a result, completed with the ends of the windows if it depends on them. O(n).

    `ends` are in the unit of the times, or return them where that takes time; None if windows have none.
    """
    values, valid, result = raw
    if result.ending is None:
        return raw
    ends = ends() if callable(ends) else ends
    return result.ending.answers(values, ends), valid, Result((result.ending.type,))


def to_arrow(raw: Raw, ends: Array | None = None) -> pa.Array:
    """Return a result as an Arrow array; `ends` are the ends of the windows, if any."""
    values, valid, result = finished(raw, ends)
    return result.array(values, valid)


def permuted(raw: Raw, places: Array | None) -> Raw:
    """Return a result with the rows at these places; unchanged if None. O(rows)."""
    values, valid, result = raw
    return raw if places is None else (values[places], None if valid is None else valid[places], result)


def masked(raw: Raw, kept: Array) -> Raw:
    """Return a result that is null except for the rows kept. O(rows)."""
    values, valid, result = raw
    return values, kept if valid is None else valid & kept, result


def arrow_types(
    aggregates: Mapping[str, Aggregation], types: Mapping[str, ColumnType], time: ColumnType
) -> dict[str, pa.DataType]:
    """Return the Arrow type of each aggregate's results, whatever the rows, even if all are null.

    If the result may be any Python object, an example determines the type, or null.

    >>> from muntin import agg
    >>> from muntin.types import INT64, column_type
    >>> kinds = {"v": column_type(pa.int32())}
    >>> arrow_types({"n": agg.count(), "all": agg.collect("v")}, kinds, INT64)
    {'n': DataType(int64), 'all': ListType(list<item: int32>)}
    """
    return {name: _arrow_type(each, types, time) for name, each in aggregates.items()}


def _arrow_type(aggregation: Aggregation, types: Mapping[str, ColumnType], time: ColumnType) -> pa.DataType:
    kinds = tuple(types[column] for column in aggregation.columns)
    (result,) = bind({"it": aggregation}, types, time=time).results
    return result.logical or example_type(aggregation, kinds)


def require_combinable(aggregates: Mapping[str, Aggregation], types: Mapping[str, ColumnType]) -> None:
    """Reject an aggregation that cannot combine its structs, lists or maps; tried with two examples."""
    for name, each in aggregates.items():
        kinds = tuple(types[column] for column in each.columns)
        nested = [i for i, kind in enumerate(kinds) if kind.logical is not None and pa.types.is_nested(kind.logical)]
        if not nested:
            continue
        algebra = plain_algebra(each, kinds)
        try:
            state = algebra.combine(*(algebra.lift(*(example(kind.logical, n) for kind in kinds), 0) for n in (1, 2)))
            if bind({name: each}, types).results[0].types[0].logical is None and _has_map(kinds[nested[0]].logical):
                pa.array([algebra.lower(state)])
        except (TypeError, pa.ArrowException) as error:
            found = nested[0]
            instead = "a field of the struct" if pa.types.is_struct(kinds[found].logical) else "one of its values"
            raise ColumnTypeError(
                f"{name} is {each}, and the column {each.columns[found]!r} holds {kinds[found]}: {error}; "
                f"take {instead}"
            ) from error


def _has_map(kind: pa.DataType) -> bool:
    """Return whether values hold maps, whose type Arrow does not infer from values."""
    return pa.types.is_map(kind) or any(_has_map(kind.field(i).type) for i in range(kind.num_fields))
