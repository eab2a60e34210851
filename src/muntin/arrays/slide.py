"""`muntin.slide`: sliding windows over arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.table import TABLE
from muntin.arrays.containers import container_of
from muntin.arrays.results import finished, masked, permuted
from muntin.arrays.runner import ArrayRun
from muntin.arrays.spans import Span, spans_by_rows, spans_by_time
from muntin.batches import source_of
from muntin.columns import Column, as_list, read_column, row_count, select
from muntin.durations import in_any_unit, is_unitless
from muntin.errors import InvalidArgumentError
from muntin.kernels.tiers import working_on
from muntin.mappings import table_of_rows
from muntin.showing import Explanation
from muntin.tabular import is_polars, kind_of
from muntin.threads import require_threads
from muntin.types import INT64, Array, column_type, logical_array
from muntin.windows.frames import closed_word

_ONE = "value"


class _Options(TypedDict, total=False):
    """The other options of `slide`, for its overloads; with `return_windows` it returns a tuple."""

    slide: Any
    times: Any
    by: Any
    closed: str
    min_rows: int
    partial: bool
    aggregator: str
    threads: int
    offset: Any


@overload
def slide(values: Array | list[Any], aggregation: Aggregation, *, range: Any, **options: Unpack[_Options]) -> Array: ...


@overload
def slide(
    values: Array | list[Any], aggregation: Mapping[str, Aggregation], *, range: Any, **options: Unpack[_Options]
) -> dict[str, Array]: ...


@overload
def slide(
    values: Any,
    aggregation: Aggregation | Mapping[str, Aggregation],
    *,
    range: Any,
    return_windows: bool = ...,
    **options: Unpack[_Options],
) -> Any: ...


def slide(
    values: Any,
    aggregation: Aggregation | Mapping[str, Aggregation],
    *,
    range: Any,
    slide: Any = None,
    times: Any = None,
    by: Any = None,
    closed: str = "right",
    min_rows: int = 0,
    partial: bool = True,
    aggregator: str = "auto",
    threads: int = 1,
    offset: Any = 0,
    return_windows: bool = False,
) -> Any:
    """Return the aggregate of each sliding window of an array: one row out for each slide.

    Without `times`, `range` and `slide` count rows: each window is the last `range` rows up to a row, one window every
    `slide` rows. With `times` (sorted) they are durations. Without `slide` each row then ends a window, (time - range,
    time], which holds all rows of that time; with `slide`, windows are [start, start + range), start a multiple of
    `slide` (plus `offset`) since the epoch, as in Spark, one every `slide` from the first row to the last, null if no
    row falls into it.

    `values` is one array, or a mapping or table of several columns; `aggregation` is one, or a mapping of names to
    several, which are fused into one pass. NumPy, Arrow, pandas and polars return their own kind; a LazyFrame returns
    polars, a dataset, a reader of batches or a list of rows as mappings Arrow. In NumPy a null is
    NaN, NaT or None, and integers with nulls are a masked array. `partial=False` leaves out windows that begin before
    the first row or end after the last. `aggregator` forces an algorithm, `threads` cuts the array into overlapping
    pieces. `return_windows` also returns the windows' bounds: (result, starts, ends), in rows or in times.

    `by` is one column or several (or one array of keys), and each combination of their values has its own windows:
    there is one row out per row in, in order, which need not be the order of `times`. `closed` says which bounds belong
    to the window that ends with a row: "right", "left", "both" or "neither". Windows with fewer than `min_rows` rows
    are null.

    O(1) combines per row, amortised, whatever the range; O(log range) for exact quantiles. O(n log n) to sort rows with
    keys.

    >>> import numpy as np
    >>> from muntin import agg, slide
    >>> slide(np.array([1.0, 5.0, 2.0, 3.0]), agg.max("v"), range=2).tolist()
    [1.0, 5.0, 5.0, 3.0]
    >>> slide([1, 5, 2], agg.sum("v"), range="1 minute", times=np.array(["2024-01-01T00:00", "2024-01-01T00:00:30",
    ...     "2024-01-01T00:01:10"], "M8[s]")).tolist()
    [1, 6, 7]
    >>> sales = {"day": np.array([1, 1, 2, 3]), "store": np.array([7, 8, 7, 7]), "value": np.array([10, 20, 30, 40])}
    >>> slide(sales, {"sum": agg.sum("value")}, range=2, times="day", by="store")["sum"].tolist()
    [10, 20, 40, 70]
    """
    if not isinstance(min_rows, int) or isinstance(min_rows, bool) or min_rows < 0:
        raise InvalidArgumentError(f"min_rows is {min_rows!r}; it must be an integer, and not negative")
    call = _Call(values, aggregation, range, slide, times, by, closed, partial, aggregator, threads, offset)
    if return_windows and call.is_framed:
        raise InvalidArgumentError("return_windows is for windows without by, that are closed on the right")
    with working_on(row_count(values) if hasattr(values, "__len__") else 1):
        planned = call.planned()
        span = planned.run.span
        raw = planned.run.all(planned.aggregations)
        results = {name: finished(each, lambda: span.ends(planned.run.rows)) for name, each in raw.items()}
    if min_rows > 0:
        first, last = span.rows()
        results = {name: masked(each, last - first >= min_rows) for name, each in results.items()}
    results = {name: permuted(each, planned.places) for name, each in results.items()}
    container = container_of(planned.values)
    out = container.one(results[_ONE]) if isinstance(aggregation, Aggregation) else container.many(results)
    if span.trailing:
        out = container.aligned(out, planned.values)
    return (out, *span.bounds()) if return_windows else out


def explain(
    values: Any,
    aggregation: Aggregation | Mapping[str, Aggregation],
    *,
    range: Any,
    slide: Any = None,
    times: Any = None,
    by: Any = None,
    closed: str = "right",
    partial: bool = True,
    aggregator: str = "auto",
    threads: int = 1,
    offset: Any = 0,
) -> Explanation:
    """Return what `slide` would do with the same arguments: which algorithm runs each aggregation, and why.

    Nothing is aggregated; only the times are read, to find the windows.

    >>> import numpy as np
    >>> from muntin import agg, explain
    >>> text = explain(np.zeros(1000), agg.max("v"), range=100, slide=10)
    >>> print(text.splitlines()[0])
    1000 rows, 100 windows of 100 rows at most, 10 rows apart; a row falls into 10 of them at most
    """
    call = _Call(values, aggregation, range, slide, times, by, closed, partial, aggregator, threads, offset)
    planned = call.planned()
    return Explanation(planned.run.explained(planned.aggregations))


@dataclass(frozen=True)
class _Planned:
    """A call with validated arguments, and its windows."""

    run: ArrayRun
    aggregations: dict[str, Aggregation]
    values: Any
    places: Array | None = None
    """The place of each row's result, if rows were sorted."""


@dataclass(frozen=True)
class _Call:
    """The arguments of `slide` that determine the windows."""

    values: Any
    aggregation: Aggregation | Mapping[str, Aggregation]
    range: Any
    slide: Any
    times: Any
    by: Any
    closed: str
    partial: bool
    aggregator: str
    threads: int
    offset: Any

    @property
    def is_framed(self) -> bool:
        """Whether windows are found per key, or are not closed on the right."""
        return self.by is not None or self.closed != "right"

    def planned(self) -> _Planned:
        """Validate the arguments, and find the windows."""
        given = self.aggregation
        aggregations = dict(given) if isinstance(given, Mapping) else {_ONE: given}
        _validate(aggregations, self.aggregator, self.threads)
        if not isinstance(self.partial, bool | np.bool_):
            raise InvalidArgumentError(f"partial is {self.partial!r}; it is True or False")
        closed_word(self.closed, "slide")
        in_any_unit(self.offset, "offset")
        values = self._held(aggregations)
        rows = row_count(values)
        readable = values.to_arrow() if is_polars(values) else values
        columns = _read(readable, aggregations, rows)
        if self.offset and (self.times is None or self.slide is None):
            raise InvalidArgumentError(
                f"offset is {self.offset!r}; only windows by time that have a slide can be shifted"
            )
        places = None
        if self.is_framed:
            columns, span, places = self._framed(readable, columns, rows)
        else:
            times = self._times(readable, rows)
            span = (
                spans_by_rows(rows, self.range, self.slide, self.partial)
                if times is None
                else spans_by_time(times, self.range, self.slide, self.offset, self.partial)
            )
        run = ArrayRun(columns, rows, span, _snake_case(self.aggregator), self.threads)
        return _Planned(run, aggregations, values, places)

    def _held(self, aggregations: Mapping[str, Aggregation]) -> Any:
        """Return the values in memory: of a table in batches the columns that are read, of rows as mappings a table."""
        found = source_of(self.values)
        if found is not None:
            given = ([self.times], self.by if isinstance(self.by, list | tuple) else [self.by])
            named = [each for option in given for each in option if isinstance(each, str)]
            needed = list(dict.fromkeys([*_columns_of(aggregations), *named]))
            return found.whole(needed or found.schema.names[:1])  # rows alone are counted by any column
        values = self.values if hasattr(self.values, "__len__") else as_list(self.values, "values")
        return table_of_rows(values) if _are_rows(values) else values

    def _times(self, values: Any, rows: int) -> Column | None:
        if self.times is None:
            return None
        times = select(values, (self.times,))[self.times] if isinstance(self.times, str) else self.times
        return _time_column(times, rows, self.range)

    def _framed(
        self, values: Any, columns: Mapping[str, Column], rows: int
    ) -> tuple[dict[str, Column], Span, Array | None]:
        from muntin.arrays.framed import framed  # needs keys and Arrow functions, which few calls use

        option = "by" if self.by is not None else "closed"
        if self.slide is not None or not self.partial:
            wrong = "slide" if self.slide is not None else "partial=False"
            raise InvalidArgumentError(
                f"{option} is {getattr(self, option)!r}: there is one window for each row then; leave {wrong} out"
            )
        times = self._times(values, rows)
        keys = [] if self.by is None else _keys(values, self.by, rows)
        if times is not None and self.by is None:
            spans_by_time(times, self.range, None, 0, True)  # rejects unsorted times
        return framed(columns, rows, keys, times, self.range, self.closed, self.threads)


def _keys(values: Any, by: Any, rows: int) -> list[pa.ChunkedArray]:
    """Return the key columns, given by name or as one array."""
    names = [by] if isinstance(by, str) else by
    table = isinstance(values, Mapping) or hasattr(values, "columns")
    if table and isinstance(names, list | tuple) and names and all(isinstance(each, str) for each in names):
        found = kind_of(values).read(values, names)
        keys = [found[name] for name in names]
    else:
        column = read_column(by, "by")
        keys = [pa.chunked_array([logical_array(column.values, column.valid, column.type)])]
    for key in keys:
        if len(key) != rows:
            raise InvalidArgumentError(f"there are {len(key)} keys for {rows} rows")
    return keys


def _validate(aggregations: Mapping[str, Aggregation], aggregator: str, threads: int) -> None:
    for name, each in aggregations.items():
        if not isinstance(each, Aggregation):
            raise InvalidArgumentError(f"an aggregation is needed, such as agg.max('v'); {name!r} is {each!r}")
    if not aggregations:
        raise InvalidArgumentError("at least one aggregation is needed")
    if _snake_case(aggregator) not in ("auto", *TABLE):
        raise InvalidArgumentError(f"there is no aggregator {aggregator!r}; there are auto, {', '.join(TABLE)}")
    require_threads(threads)


def _snake_case(name: str) -> str:
    """Return the name of an aggregator's class as `slide` takes it: TwoStacks is two_stacks."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower()


def _columns_of(aggregations: Mapping[str, Aggregation]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c for each in aggregations.values() for c in each.reads))


def _are_rows(values: Any) -> bool:
    """Say whether values are a list of rows: mappings of columns to values, where an array is one of values."""
    return isinstance(values, list | tuple) and bool(values) and isinstance(values[0], Mapping)


def _read(values: Any, aggregations: Mapping[str, Aggregation], rows: int) -> dict[str, Column]:
    columns = select(values, _columns_of(aggregations))
    for name, column in columns.items():
        if len(column.values) != rows:
            raise InvalidArgumentError(f"column {name!r} has {len(column.values)} rows, where others have {rows}")
    return columns


def _time_column(times: Any, rows: int, width: Any) -> Column:
    column = read_column(times, "times", find_nat=False)
    if not rows and column.type.family not in ("integer", "temporal"):  # no times have no type, or that of floats
        column = Column(column.values, None, INT64 if is_unitless(width) else column_type(pa.timestamp("us")))
    if len(column.values) != rows:
        raise InvalidArgumentError(f"there are {len(column.values)} times for {rows} rows")
    return column
