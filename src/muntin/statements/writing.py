"""Queries as statements: what `Query.to_sql` writes.

What is written is read back and compared: a query that SQL would understand otherwise is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.durations import is_unitless
from muntin.errors import InvalidArgumentError, SqlError, UnsupportedOperationError
from muntin.query.computing import expression_facts
from muntin.query.query import Query
from muntin.statements.expressed import Expressed
from muntin.statements.functions import NOT_OVER, SWAPPED, WRITTEN
from muntin.statements.grammar import KEYWORDS
from muntin.statements.intervals import in_words, quoted, written
from muntin.statements.sql import require_dialect, sql
from muntin.types import column_type
from muntin.windows import Measure, Window
from muntin.windows.shapes import CUMULATIVE, Gap, Periodic

if TYPE_CHECKING:
    from muntin.windows.frames import FrameBounds

_FINEST = column_type(pa.timestamp("ns"))
_FINEST_OF = {"spark": 1_000, "flink": 1_000_000}
"""The least unit of times in each engine, in nanoseconds."""
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def to_sql(query: Query, table: str, dialect: str | None) -> str:
    """Return a statement that asks for what a query asks for. O(windows and aggregates)."""
    require_dialect(dialect)
    if not isinstance(table, str) or not table:
        raise InvalidArgumentError(f"table is {table!r}; give the name of a table")
    _require_words(query)
    writer = _Writer(query, table, dialect)
    statement = writer.framed() if all(each.is_frame for each in query.windows) else writer.grouped()
    _require_same(query, statement, dialect)
    return statement


def name(word: str) -> str:
    """Return a name as it stands in SQL, in backticks where it must.

    >>> name("watts"), name("end"), name("a`b")
    ('watts', '`end`', '`a``b`')
    """
    if _PLAIN.fullmatch(word) and word.upper() not in KEYWORDS:
        return word
    return "`" + word.replace("`", "``") + "`"


def _require_words(query: Query) -> None:
    if query.time is None:
        raise UnsupportedOperationError("time is None, the clock's time, and to_sql writes the name of a time column")
    if query.changes is not None:
        raise UnsupportedOperationError(f"changes is {query.changes!r}, and SQL has no word for it: leave it out")
    for option in ("emit_empty", "partial"):
        if getattr(query, option):
            raise UnsupportedOperationError(f"{option} is True, and SQL has no word for it: leave it out")


def _require_same(query: Query, statement: str, dialect: str | None) -> None:
    """Reject a query if the statement that it would be means another one, and show that."""
    try:
        found = sql(statement, dialect=dialect)
    except SqlError as error:
        raise UnsupportedOperationError(f"SQL cannot say this: {statement!r} would be {error}") from error
    if _asked(found) != _asked(query):
        raise UnsupportedOperationError(f"SQL cannot say this: {statement!r} would be {found!r}")
    for ours, theirs in zip(query.windows, found.windows, strict=True):
        if _resolved(ours) != _resolved(theirs):
            raise UnsupportedOperationError(f"SQL has no words for {ours!r}; it has them for {theirs!r}")
    if len(query.windows) > 1 and query.windows.names != found.windows.names:
        raise UnsupportedOperationError(f"SQL cannot say this: {statement!r} would be {found!r}")


def _asked(query: Query) -> tuple[Any, ...]:
    """Return what a statement asks for besides windows."""
    facts = expression_facts(query)
    computed = {name: facts[f"column {name}"] for name in query.computed}
    return query.key, query.time, query.aggregates, computed, facts.get("where")


def _resolved(window: Window) -> Window:
    return window.resolve(_FINEST)


class _Writer:
    """Writes one query."""

    def __init__(self, query: Query, table: str, dialect: str | None) -> None:
        self.query, self.dialect = query, dialect
        self.table = ".".join(name(part) for part in table.split("."))
        self.time = name(cast("str", query.time))
        self.keys = [name(each) for each in query.key]
        self.expressed = Expressed(query, table, dialect)
        where = self.expressed.where
        self.where = "" if where is None else f"\nWHERE {where}"

    # ------------------------------------------------------------ GROUP BY

    def grouped(self) -> str:
        """Return a statement with GROUP BY: a table function of Flink, or a function of Spark."""
        if len(self.query.windows) > 1:
            raise UnsupportedOperationError(
                f"the query has {len(self.query.windows)} windows, and a GROUP BY has one: write a query for each"
            )
        window = self.query.windows[0]
        if self.dialect == "spark":
            source, bounds, groups = self.expressed.source(self.table), ["window"], [self._spark_window(window)]
        elif self.expressed.in_subquery:  # which no table function takes
            source, bounds, groups = self.expressed.source(self.table), [], [self._group_window(window)]
        else:
            source, bounds = f"TABLE({self._table_function(window)})", ["window_start", "window_end"]
            groups = bounds
        if self.dialect == "spark" and isinstance(_resolved(window).time_shape, Gap):
            bounds = ["session_window"]
        items = [*self.keys, *bounds, *(f"{self._call(made)} AS {name(alias)}" for alias, made in self._aggregates)]
        return f"SELECT {', '.join(items)}\nFROM {source}{self.where}\nGROUP BY {', '.join([*self.keys, *groups])}"

    @property
    def _aggregates(self) -> list[tuple[str, Aggregation]]:
        return list(self.query.aggregates.items())

    def _table_function(self, window: Window) -> str:
        shape = self._shape(window)
        source = f"TABLE {self.table}"
        if isinstance(shape, Gap):
            partition = f" PARTITION BY ({', '.join(self.keys)})" if self.keys else ""
            return f"SESSION({source}{partition}, DESCRIPTOR({self.time}), {self._length(window, shape.gap)})"
        if shape.branch == CUMULATIVE:
            word, lengths = "CUMULATE", [shape.every, shape.length]
        elif shape.every == shape.length:
            word, lengths = "TUMBLE", [shape.length]
        else:
            word, lengths = "HOP", [shape.every, shape.length]
        lengths += [shape.offset] if shape.offset else []
        arguments = ", ".join(self._length(window, each) for each in lengths)
        return f"{word}({source}, DESCRIPTOR({self.time}), {arguments})"

    def _group_window(self, window: Window) -> str:
        """Return a function of Flink that GROUP BY takes."""
        shape = self._shape(window)
        if isinstance(shape, Gap):
            return f"SESSION({self.time}, {self._length(window, shape.gap)})"
        if shape.branch == CUMULATIVE or (shape.offset and self.dialect == "flink"):
            raise UnsupportedOperationError(f"a table function has no subquery, and no other has words for {window!r}")
        word, lengths = (
            ("TUMBLE", [shape.length]) if shape.every == shape.length else ("HOP", [shape.every, shape.length])
        )
        lengths += [shape.offset] if shape.offset else []
        return f"{word}({self.time}, {', '.join(self._length(window, each) for each in lengths)})"

    def _spark_window(self, window: Window) -> str:
        shape = self._shape(window)
        if isinstance(shape, Gap):
            return f"session_window({self.time}, {self._text(window, shape.gap)})"
        if shape.branch == CUMULATIVE:
            raise UnsupportedOperationError(f"Spark has no words for {window!r}; Flink has")
        lengths = [shape.length]
        if shape.offset or shape.every != shape.length:
            lengths += [shape.every]
        lengths += [shape.offset] if shape.offset else []
        return f"window({self.time}, {', '.join(self._text(window, each) for each in lengths)})"

    def _shape(self, window: Window) -> Periodic | Gap:
        shape = _resolved(window).time_shape
        if not isinstance(shape, Periodic | Gap):
            raise UnsupportedOperationError(f"SQL has no words for {window!r}")
        return shape

    def _duration(self, window: Window, span: int) -> Any:
        """Return a length of a window in words, or as the integer that its lengths are."""
        unitless = {is_unitless(each) for each in window.durations if each != 0}
        if len(unitless) > 1:
            raise UnsupportedOperationError(f"{window!r} has lengths with and without a unit; give all of them one")
        if unitless == {True}:
            if self.dialect == "flink" or (self.dialect == "spark" and not window.is_frame):
                raise UnsupportedOperationError(f"{self.dialect.title()}'s windows have units, and {window!r} has none")
            return span
        if self.dialect is not None and span % _FINEST_OF[self.dialect]:
            raise UnsupportedOperationError(f"{window!r} is finer than the times of {self.dialect.title()} are")
        return in_words(span)

    def _length(self, window: Window, span: int) -> str:
        return written(self._duration(window, span), self.dialect)

    def _text(self, window: Window, span: int) -> str:
        return quoted(self._duration(window, span))

    # ------------------------------------------------------------ OVER

    def framed(self) -> str:
        """Return a statement with OVER: one window in its place, several in the clause WINDOW."""
        names, windows = self.query.windows.names, list(self.query.windows)
        for _, made in self._aggregates:
            if self.dialect == "spark" and made.name in NOT_OVER:
                raise UnsupportedOperationError(f"Spark has no function for {made!r} that goes with OVER")
        items = [
            name(each) for each in (cast("str", self.query.time), *self.query.key) if each not in self.query.computed
        ]
        source = f"{self.expressed.source(self.table)}{self.where}"
        if len(windows) == 1:
            over = self._over(windows[0])
            items += [f"{self._call(made)} OVER {over} AS {name(alias)}" for alias, made in self._aggregates]
            return f"SELECT {', '.join(items)}\nFROM {source}"
        if self.dialect == "flink":
            raise UnsupportedOperationError(f"the query has {len(windows)} windows, and an OVER of Flink has one")
        for each in names:
            items += [
                f"{self._call(made)} OVER {name(each)} AS {name(f'{alias}_{each}')}" for alias, made in self._aggregates
            ]
        clause = ",\n       ".join(
            f"{name(each)} AS {self._over(window)}" for each, window in zip(names, windows, strict=True)
        )
        return f"SELECT {', '.join(items)}\nFROM {source}\nWINDOW {clause}"

    def _over(self, window: Window) -> str:
        partition = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        return f"({partition}ORDER BY {self.time} {self._between(window)})"

    def _between(self, window: Window) -> str:
        resolved = _resolved(window)
        frame, shape = cast("FrameBounds", resolved), resolved.frame_shape
        by_rows = window.measure is Measure.ROWS
        if shape is not None and shape.is_endless:
            peers = "" if frame.closed == "right" else self._exclude(window, frame)
            return f"RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW{peers}"
        low, high = (frame.held[0], frame.held[1] - 1) if by_rows else (frame.low, frame.high)
        if self.dialect == "flink" and high != 0:
            raise UnsupportedOperationError(f"an OVER of Flink ends with the current row, and {window!r} does not")
        start, end = (self._bound(window, each, by_rows=by_rows) for each in (low, high))
        exclude = "" if by_rows or frame.closed == "both" else self._exclude(window, frame)
        return f"{'ROWS' if by_rows else 'RANGE'} BETWEEN {start} AND {end}{exclude}"

    def _exclude(self, window: Window, frame: FrameBounds) -> str:
        """Return what leaves out the rows of a row's own time, where that is what a frame does not hold."""
        without_peers = (frame.closed == "left" and frame.high == 0) or (frame.closed == "right" and frame.low == 0)
        if not without_peers:
            raise UnsupportedOperationError(f"SQL's RANGE holds both of its bounds, and {window!r} does not hold both")
        if self.dialect is not None:
            raise UnsupportedOperationError(f"{self.dialect.title()} has no EXCLUDE GROUP, which {window!r} would be")
        return " EXCLUDE GROUP"

    def _bound(self, window: Window, at: int, *, by_rows: bool) -> str:
        if at == 0:
            return "CURRENT ROW"
        length = str(abs(at)) if by_rows else self._length(window, abs(at))
        return f"{length} {'PRECEDING' if at < 0 else 'FOLLOWING'}"

    # ------------------------------------------------------------ aggregates

    def _call(self, made: Aggregation) -> str:
        """Return the call of an aggregation, with FILTER."""
        where = "" if made.where is None else f" FILTER (WHERE {self.expressed.column(made.where)})"
        return f"{self._function(made)}{where}"

    def _function(self, made: Aggregation) -> str:
        columns = [self.expressed.column(each) for each in made.columns]
        if made.name in ("count_rows", "count_values", "count_distinct") and not made.skip_nan:
            words = {"count_rows": "*", "count_values": "{}", "count_distinct": "DISTINCT {}"}[made.name]
            return f"count({words.format(*columns)})"
        if any(isinstance(value, Aggregation) for _, value in made.parameters):
            raise UnsupportedOperationError(f"SQL has no words for {made!r}, an aggregation of aggregations")
        if self.dialect is None:
            function = "count" if made.name == "count_values" else made.name
            parameters = [f"{each} => {_literal(value)}" for each, value in made.parameters]
            parameters += ["skip_nan => TRUE"] if made.skip_nan else []
            return f"{function}({', '.join([*columns, *parameters])})"
        known = WRITTEN[self.dialect]
        if made.name not in known or made.skip_nan:
            raise UnsupportedOperationError(f"{self.dialect.title()} has no function for {made!r}")
        function = known[made.name]
        parameters = [_literal(value) for _, value in made.parameters]
        return f"{function}({', '.join([*(columns[::-1] if function in SWAPPED else columns), *parameters])})"


def _literal(value: Any) -> str:
    """Return a parameter as SQL; reject what has no literal."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int | float | np.integer):
        return repr(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, tuple):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    raise UnsupportedOperationError(f"SQL has no words for the parameter {value!r}")
