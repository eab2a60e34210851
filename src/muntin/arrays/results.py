"""Results of aggregations as Arrow arrays."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Result, bind, plain_algebra
from muntin.errors import ColumnTypeError
from muntin.types import Array, ColumnType, logical_array

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
    if result.names:
        arrays = [
            logical_array(np.ascontiguousarray(values[name]), valid, kind)
            for name, kind in zip(result.names, result.types, strict=True)
        ]
        mask = None if valid is None else pa.array(~valid)
        return pa.StructArray.from_arrays(arrays, list(result.names), mask=mask)
    if result.length is not None:
        flat = logical_array(values.reshape(-1), None, result.types[0])
        mask = None if valid is None else pa.array(~valid)
        return pa.FixedSizeListArray.from_arrays(flat, result.length, mask=mask)
    return logical_array(values, valid, result.types[0])


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
    if result.ending is not None:
        return result.ending.type.logical
    if result.names:
        return pa.struct([(name, kind.logical) for name, kind in zip(result.names, result.types, strict=True)])
    logical = result.types[0].logical
    if result.length is not None:
        return pa.list_(logical, result.length)
    return _example_type(aggregation, kinds) if logical is None else logical


def require_combinable(aggregates: Mapping[str, Aggregation], types: Mapping[str, ColumnType]) -> None:
    """Reject an aggregation that cannot combine its structs, lists or maps; tried with two examples."""
    for name, each in aggregates.items():
        kinds = tuple(types[column] for column in each.columns)
        nested = [i for i, kind in enumerate(kinds) if kind.logical is not None and pa.types.is_nested(kind.logical)]
        if not nested:
            continue
        algebra = plain_algebra(each, kinds)
        try:
            state = algebra.combine(*(algebra.lift(*(_example(kind.logical, n) for kind in kinds), 0) for n in (1, 2)))
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


def _example_type(aggregation: Aggregation, kinds: tuple[ColumnType, ...]) -> pa.DataType:
    examples = [[_example(kind.logical, number) for kind in kinds] for number in (1, 2)]
    algebra = plain_algebra(aggregation, kinds)
    try:
        state = algebra.combine(*(algebra.lift(*each, 0) for each in examples))
        answer = pa.array([algebra.lower(state)])
    except Exception:  # noqa: BLE001  # a user's function may do anything with a made-up value
        return pa.null()
    names = {pa.scalar(example).type: kind.logical for example, kind in zip(examples[0], kinds, strict=True)}
    return _renamed(answer.type, names)


def _example(logical: pa.DataType, number: int) -> Any:
    if pa.types.is_string(logical) or pa.types.is_large_string(logical):
        return "ab"[number - 1]
    if pa.types.is_decimal(logical):
        return decimal.Decimal(number)
    if pa.types.is_struct(logical):
        return {field.name: _example(field.type, number) for field in logical}
    if pa.types.is_map(logical):
        return [(_example(logical.key_type, number), _example(logical.item_type, number))]
    if pa.types.is_list(logical) or pa.types.is_large_list(logical):
        return [_example(logical.value_type, number)]
    try:
        return pa.scalar(number).cast(logical).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _renamed(found: pa.DataType, names: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return a type with the columns' own types in place of the example's."""
    if found in names:
        return names[found]
    if pa.types.is_decimal(found):
        return pa.decimal256(76, 38)  # such as a mean, which may have any number of digits
    if pa.types.is_list(found):
        return pa.list_(_renamed(found.value_type, names))
    return found
