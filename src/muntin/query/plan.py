"""A query resolved: what is to be answered, once the types of the columns are known.

This is the one place where the types of a query are decided. It needs a schema, no row, and makes no stream.
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
from muntin.durations import fitting, in_unit_of
from muntin.errors import ColumnTypeError
from muntin.keys.encoding import require_key_type
from muntin.layouts import plain_type
from muntin.query.query import Query
from muntin.types import INT64, ColumnType, column_type
from muntin.windows.base import AT, ROW_BOUNDS, TIME_BOUNDS, VALUE_BOUNDS, Window
from muntin.windows.buffered import Terms

CLOCK_TYPE = column_type(pa.timestamp("us"))
"""The type of the times of rows that get the clock's."""
_ORDER = {name: place for place, name in enumerate((*TIME_BOUNDS, *ROW_BOUNDS, *VALUE_BOUNDS, AT))}


@dataclass(frozen=True)
class Types:
    """The types of the columns that a query reads."""

    columns: Mapping[str, ColumnType]
    """Of the columns that aggregates and windows read."""
    keys: Mapping[str, pa.DataType]
    time: ColumnType

    @classmethod
    def of(cls, query: Query, schema: pa.Schema) -> Types:
        """Return the types that a schema gives the columns of a query; refuse a column that is not there.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling("1 hour"), {"high": agg.max("v")}, key="k")
        >>> types = Types.of(query, pa.schema({"ts": pa.timestamp("s"), "k": pa.string(), "v": pa.int8()}))
        >>> str(types.columns["v"]), str(types.keys["k"]), str(types.time)
        ('int8', 'string', 'timestamp[s]')
        """
        require_time_column(query, schema.names)
        kinds = dict(zip(schema.names, schema.types, strict=True))
        columns = {name: type_of_values(pick(kinds, name, schema.names)) for name in query.columns}
        keys = {name: wide(plain_type(pick(kinds, name, schema.names))) for name in query.key}
        for kind in keys.values():
            require_key_type(kind)
        if query.time is None:
            return cls(columns, keys, CLOCK_TYPE)
        return cls(columns, keys, time_type(type_of_values(pick(kinds, query.time, schema.names)), query.time))


def require_time_column(query: Query, names: Sequence[Any]) -> None:
    """Refuse columns without that of the times."""
    if query.time is not None and query.time not in names:
        raise missing(query.time, list(names), default_time(query))


def default_time(query: Query) -> str:
    """Say that no time column was named, if so, for errors about it."""
    unnamed = query.time == Query.time
    return f". {query.time!r} is the default: give Query(..., time=) the name of the time column" if unnamed else ""


def time_type(kind: ColumnType, name: str) -> ColumnType:
    """Return the type in which times are computed; refuse a column that holds no times."""
    if kind.family not in ("integer", "temporal"):
        raise ColumnTypeError(f"the time column {name!r} holds {kind}; it must hold integers, dates or timestamps")
    return INT64 if kind.family == "integer" else kind


@dataclass(frozen=True)
class Plan:
    """What a strategy is to answer, with everything resolved that the types of the columns decide."""

    windows: Mapping[int, Window]
    """The definitions by their window_id, resolved."""
    aggregates: Mapping[str, Aggregation]
    types: Mapping[str, ColumnType]
    """The types of the columns that aggregates and windows read. They never change."""
    time_type: ColumnType
    key_types: Mapping[str, pa.DataType] = field(default_factory=dict)
    lateness: int = 0
    """For how long after it was due a window may change, in the unit of the times."""
    partial: bool = False
    emit_empty: bool = False
    early: bool = False
    """Whether windows are emitted before they are due, too."""
    ordered: bool = False
    """Whether it was promised that rows come in the order of their times."""
    merge: str = "auto"
    """What merges slices into windows (see mergers.py)."""

    @property
    def terms(self) -> Terms:
        """What each window must know of the query."""
        return Terms(self.time_type, self.types, self.lateness, self.emit_empty)

    def bind(self, aggregates: Mapping[str, Aggregation], *, gaps: bool = False) -> Binding:
        """Return aggregates fused over the columns: nothing is known of the rows, so that any may be null or NaN.

        `gaps`: windows can be empty.
        """
        return bind(aggregates, self.types, time=self.time_type, gaps=gaps)

    @cached_property
    def answer_schema(self) -> pa.Schema:
        """The columns of all answers, whatever the rows.

        The type of an aggregate is null where only its results tell it: those of a user's own function may be anything.
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
        """Return the struct of a window's bounds: where windows differ in the type of one, it is a float."""
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
    """Return what a query asks of columns of these types. No row is read. O(windows and aggregates).

    `windows` are those that are still answered, where a stream has removed some. In a `finite` table nothing is late,
    so that the allowed lateness need not fit the unit of its times.

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
    )
