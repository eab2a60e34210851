"""Types of answers that may be any Python object, found by lifting examples."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import plain_algebra
from muntin.types import ColumnType


def example_type(aggregation: Aggregation, kinds: tuple[ColumnType, ...]) -> pa.DataType:
    """Return the Arrow type of answers that may be any Python object, by an example; null where none can be made."""
    examples = [[example(kind.logical, number) for kind in kinds] for number in (1, 2)]
    algebra = plain_algebra(aggregation, kinds)
    try:
        state = algebra.combine(*(algebra.lift(*each, 0) for each in examples))
        answer = pa.array([algebra.lower(state)])
    except Exception:  # noqa: BLE001  # a user's function may do anything with a made-up value
        return pa.null()
    names = {pa.scalar(example).type: kind.logical for example, kind in zip(examples[0], kinds, strict=True)}
    return _renamed(answer.type, names)


def example(logical: pa.DataType, number: int) -> Any:
    """Return the first or the second example of a value of a type; None where there is none."""
    if pa.types.is_string(logical) or pa.types.is_large_string(logical):
        return "ab"[number - 1]
    if pa.types.is_decimal(logical):
        return decimal.Decimal(number)
    if pa.types.is_struct(logical):
        return {field.name: example(field.type, number) for field in logical}
    if pa.types.is_map(logical):
        return [(example(logical.key_type, number), example(logical.item_type, number))]
    if pa.types.is_list(logical) or pa.types.is_large_list(logical):
        return [example(logical.value_type, number)]
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
