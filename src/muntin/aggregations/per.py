"""An aggregation for each value of a second column, beside all others: `agg.per`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.define import Factory, define
from muntin.aggregations.groups import Grouping
from muntin.errors import DefinitionError
from muntin.kernels.source import Function
from muntin.types import ColumnType, is_whole

MOST = 10_000
"""How many distinct values a state may have, where nobody says."""


def _groups(
    inner: Aggregation,
    most: int,
    types: tuple[ColumnType, ...],
    columns: tuple[str, ...],
    time: ColumnType | None,
) -> Grouping:
    return _grouping(inner, most, types, columns, time)


@lru_cache(maxsize=256)
def _grouping(
    inner: Aggregation,
    most: int,
    types: tuple[ColumnType, ...],
    columns: tuple[str, ...],
    time: ColumnType | None,
) -> Grouping:
    """Return the same object for the same groups, so that two answers from them share one state."""
    return Grouping(inner, columns[0], types[0], dict(zip(columns[1:], types[1:], strict=True)), time, most)


def _answer_type(groups: Grouping) -> ColumnType:
    return groups.type


@define(state="object", result=_answer_type, derived={"groups": _groups}, nulls=True)
class _per:
    def lift(value, *, groups):
        return groups.row(value, (), 0)

    def combine(a, b, *, groups):
        return groups.combine(a, b)

    def neutral(*, groups):
        return groups.none()

    def lower(s, *, groups, top):
        return groups.lower(s, top)


def per(
    column: str, inner: Aggregation, *, top: int | None = None, most: int = MOST, where: str | None = None
) -> Aggregation:
    """An aggregation for each value of a second column: `per("product", agg.sum("amount"), top=3)`.

    The answer is a list of structs {value, result}: without `top` of all values, in their order; with `top` of those
    with the greatest results, greatest first, equal results by value. Null is a value of its own, as in GROUP BY, and
    comes first; all NaNs are one value, greater than any number, and so are 0.0 and -0.0. A result is what the inner
    aggregation gives for the rows of its value: null if all of these are null, and nulls come last among results.
    Null for no rows.

    `inner` is any aggregation, a list of values or another `per` too, but none that asks where its window ends. Its
    `where` decides which rows it takes, that of `per` which rows there are. A state has at most `most` values; more are
    an error. O(1) combines per row and value, amortised, compiled where the inner ones are; O(values) per answer.

    >>> from muntin import slide, agg
    >>> sales = {"product": ["tea", "jam", "tea"], "amount": [2, 3, 4]}
    >>> slide(sales, agg.per("product", agg.sum("amount"), top=1), range=3).tolist()[-1]
    [{'value': 'tea', 'result': 6}]
    """
    _require(column, inner, top, most)
    factory = _factory(len(inner.reads), _asks_for_time(inner), inner.commutative, inner.kind == "holistic")
    return factory(column, *inner.reads, top=top, inner=inner, most=most, where=where)


def _require(column: Any, inner: Any, top: Any, most: Any) -> None:
    if not isinstance(column, str):
        raise DefinitionError(f"per: the column is named by a string, not by {column!r}")
    if not isinstance(inner, Aggregation):
        raise DefinitionError(f"per: give an aggregation for each value, such as agg.sum('amount'); got {inner!r}")
    for name, value in (("top", top), ("most", most)):
        if not (name == "top" and value is None) and (not is_whole(value) or value < 1):
            raise DefinitionError(f"per: {name} is {value!r}; it must be an integer, at least 1")
    if any("end" in each.functions["lower"].keywords for each in _definitions(inner) if "lower" in each.functions):
        raise DefinitionError(f"per: {inner!r} asks where its window ends, which no group knows; take agg.mean")


def _definitions(inner: Aggregation) -> Any:
    return inner.factory.definitions.values()


def _asks_for_time(inner: Aggregation) -> bool:
    return any("time" in each.functions["lift"].keywords for each in _definitions(inner) if "lift" in each.functions)


@lru_cache(maxsize=256)
def _factory(columns: int, timed: bool, commutative: bool, holistic: bool) -> Factory:
    """Return the definition for an inner aggregation of this many columns, with its facts."""
    cells = [f"c{i}" for i in range(columns)]
    keywords = "time, groups" if timed else "groups"
    text = (
        f"def lift({', '.join(['value', *cells])}, *, {keywords}):\n"
        f"    return groups.row(value, ({''.join(f'{cell}, ' for cell in cells)}), {'int(time)' if timed else '0'})"
    )
    chosen = replace(
        _per.first,
        name="per",
        functions={**_per.first.functions, "lift": Function("lift", text, {})},
        commutative=commutative,
        kind="holistic" if holistic else "algebraic",
    )
    return Factory("per", {"any": chosen}, per.__doc__ or "")
