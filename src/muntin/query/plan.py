"""A resolved query: what to answer, once the column types are known.

This is the one place where the types of a query are resolved. It needs a schema, no row, and creates no stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.arrays.results import arrow_types, require_combinable
from muntin.columns import missing, pick, type_of_values, wide
from muntin.durations import BEFORE_TIME, fitting, in_unit_of, less
from muntin.errors import ColumnTypeError
from muntin.keys.encoding import require_key_type
from muntin.layouts import plain_type
from muntin.query.changes import require_change_type
from muntin.query.query import Query
from muntin.query.timing import likely_time
from muntin.types import INT64, NULL, ColumnType, column_type
from muntin.windows.base import AT, ROW_BOUNDS, TIME_BOUNDS, VALUE_BOUNDS, Window

CLOCK_TYPE = column_type(pa.timestamp("us"))
"""The time type of rows that get the clock's time."""
_ORDER = {name: place for place, name in enumerate((*TIME_BOUNDS, *ROW_BOUNDS, *VALUE_BOUNDS, AT))}


@dataclass(frozen=True)
class Types:
    """The types of the columns that a query reads."""

    columns: Mapping[str, ColumnType]
    """The types of the columns that aggregates and windows read."""
    keys: Mapping[str, pa.DataType]
    time: ColumnType

    @classmethod
    def of(cls, query: Query, schema: pa.Schema) -> Types:
        """Return the types of a query's columns in a schema; reject missing columns.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling("1 hour"), {"high": agg.max("v")}, key="k")
        >>> types = Types.of(query, pa.schema({"ts": pa.timestamp("s"), "k": pa.string(), "v": pa.int8()}))
        >>> str(types.columns["v"]), str(types.keys["k"]), str(types.time)
        ('int8', 'string', 'timestamp[s]')
        """
        require_time_column(query, schema.names)
        kinds = dict(zip(schema.names, schema.types, strict=True))
        columns = {name: type_of_values(pick(kinds, name, schema.names)) for name in query.reads}
        keys = {name: wide(plain_type(pick(kinds, name, schema.names))) for name in query.key}
        for kind in keys.values():
            require_key_type(kind)
        if query.changes is not None:
            require_change_type(pick(kinds, query.changes, schema.names), query.changes)
        if query.time is None:
            return cls(columns, keys, CLOCK_TYPE)
        time = type_of_values(pick(kinds, query.time, schema.names))
        # No rows have no types: an empty table may leave that of the times open.
        return cls(columns, keys, likely_time(query) if time == NULL else time_type(time, query.time))


def require_time_column(query: Query, names: Sequence[Any]) -> None:
    """Reject columns that lack the time column."""
    if query.time is not None and query.time not in names:
        raise missing(query.time, list(names), default_time(query))


def default_time(query: Query) -> str:
    """Return a hint for errors if no time column was named."""
    unnamed = query.time == Query.time
    return f". {query.time!r} is the default: give Query(..., time=) the name of the time column" if unnamed else ""


def time_type(kind: ColumnType, name: str) -> ColumnType:
    """Return the type in which times are computed; reject a column of other values."""
    if kind.family not in ("integer", "temporal"):
        raise ColumnTypeError(f"the time column {name!r} holds {kind}; it must hold integers, dates or timestamps")
    return INT64 if kind.family == "integer" else kind


@dataclass(frozen=True)
class Plan:
    """What a strategy answers, resolved by the column types."""

    windows: Mapping[int, Window]
    """The resolved definitions by window_id."""
    aggregates: Mapping[str, Aggregation]
    types: Mapping[str, ColumnType]
    """The types of the columns that aggregates and windows read. They never change."""
    time_type: ColumnType
    key_types: Mapping[str, pa.DataType] = field(default_factory=dict)
    lateness: int = 0
    """How long after it is due a window may change, in the unit of the times."""
    partial: bool = False
    emit_empty: bool = False
    early: bool = False
    """Whether windows are also emitted before they are due."""
    adopted: tuple[int, int] = (BEFORE_TIME, 0)
    """The watermark at which this query went on with the state of another one, and how late rows came to that."""
    ordered: bool = False
    """Whether rows are promised to arrive in time order."""
    changes: bool = False
    """Whether rows may be taken back."""
    merge: str = "auto"
    """What merges slices into windows (see mergers.py)."""

    def settled(self, watermark: int, waits: int = 0) -> int:
        """Return the time by which windows must have been due to be final: the one rule by which late rows are judged.

        A window that was final before a query with a longer lateness went on with it stays final: its rows are gone.
        Windows may also wait for longer than the lateness, by themselves.

        >>> plan = Plan({}, {}, {}, INT64, lateness=10, adopted=(100, 2))
        >>> plan.settled(103), plan.settled(120)
        (98, 110)
        """
        until, before = self.adopted
        return max(less(watermark, max(self.lateness, waits)), less(until, max(before, waits)))

    def bind(self, aggregates: Mapping[str, Aggregation], *, gaps: bool = False) -> Binding:
        """Return the aggregates fused over the columns: rows are unknown, so any value may be null or NaN.

        With `gaps` windows can be empty.
        """
        return bind(aggregates, self.types, time=self.time_type, gaps=gaps)

    @cached_property
    def answer_schema(self) -> pa.Schema:
        """The columns of all answers, whatever the rows.

        The type of an aggregate is null if only its results determine it: a user function may return anything.
        """
        return pa.schema(
            {
                **self.key_types,
                "window": self._window_type(),
                "window_id": pa.int64(),
                **arrow_types(self.aggregates, self.types, self.time_type),
                "revision": pa.int64(),
                "retracted": pa.bool_(),
            }
        )

    def _window_type(self) -> pa.StructType:
        """Return the struct of a window's bounds: a bound whose type differs between windows is a float."""
        bounds: dict[str, pa.DataType] = dict.fromkeys(TIME_BOUNDS, self.time_type.logical)
        if any(window.tells_at for window in self.windows.values()):
            bounds[AT] = self.time_type.logical
        for window in self.windows.values():
            for name, kind in window.bounds(self.types).items():
                bounds[name] = kind if bounds.get(name, kind) == kind else pa.float64()
        return pa.struct(sorted(bounds.items(), key=lambda bound: _ORDER.get(bound[0], len(_ORDER))))


def _lateness(query: Query, time: ColumnType) -> int:
    given = query.allowed_lateness
    return fitting(in_unit_of(given, time, "allowed_lateness"), given, "allowed_lateness")


def resolve(
    query: Query, types: Types | pa.Schema, windows: Mapping[int, Window] | None = None, *, finite: bool = False
) -> Plan:
    """Return the plan of a query over columns of these types. Reads no row. O(windows and aggregates).

    `windows` are the remaining ones, if a stream has removed some. In a `finite` table nothing is late, so the allowed
    lateness need not fit the unit of its times.

    >>> from muntin import Query, agg, window
    >>> query = Query(window.tumbling("1 hour"), {"high": agg.max("v")}, key="k")
    >>> plan = resolve(query, pa.schema({"ts": pa.timestamp("s"), "k": pa.string(), "v": pa.int8()}))
    >>> plan.windows[0], plan.answer_schema.names, str(plan.answer_schema.field("high").type)
    (window.tumbling(3600), ['k', 'window', 'window_id', 'high', 'revision', 'retracted'], 'int8')
    """
    known = Types.of(query, types) if isinstance(types, pa.Schema) else types
    require_combinable(query.aggregates, known.columns)
    time = known.time
    definitions = dict(enumerate(query.windows)) if windows is None else windows
    return Plan(
        windows={i: each.resolve(time) for i, each in definitions.items()},
        aggregates=query.aggregates,
        types=known.columns,
        time_type=time,
        key_types=known.keys,
        lateness=0 if finite else _lateness(query, time),
        partial=query.partial,
        emit_empty=query.emit_empty,
        early=query.emit_early is not None,
        ordered=query.ordered,
        changes=query.changes is not None,
    )
