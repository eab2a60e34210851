"""`muntin.slide`: sliding windows over arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.table import TABLE
from muntin.arrays.containers import container_of
from muntin.arrays.results import finished
from muntin.arrays.runner import ArrayRun
from muntin.arrays.spans import spans_by_rows, spans_by_time
from muntin.columns import Column, read_column, row_count, select
from muntin.errors import InvalidArgumentError

_ONE = "value"


def slide(
    values: Any,
    aggregation: Aggregation | Mapping[str, Aggregation],
    *,
    range: Any,
    slide: Any = None,
    times: Any = None,
    partial: bool = True,
    aggregator: str = "auto",
    threads: int = 1,
    offset: Any = 0,
    return_windows: bool = False,
) -> Any:
    """Aggregate sliding windows of an array: one row out for each slide.

    Without `times`, `range` and `slide` count rows: each window is the `range` rows that end with a row, one window
    every `slide` rows. With `times` (sorted) they are durations. Without a slide each row then ends a window,
    (time - range, time], to which all rows of that time belong; with one, the windows are [start, start + range), start
    a multiple of `slide` (plus `offset`) since the epoch, as in Spark, one for every slide from the first row to the
    last, null where no row falls into it.

    `values` is one array, or a mapping or table of several columns; `aggregation` is one, or a mapping of names to
    several, which are fused into one pass. NumPy, Arrow and pandas come out as they went in. In NumPy a null is NaN,
    NaT or None, and integers that hold one are a masked array. `partial=False` leaves out the windows that begin before
    the first row or end after the last. `aggregator` forces an algorithm, `threads` cuts the array into overlapping
    pieces. `return_windows` also returns the windows' bounds: (result, starts, ends), in rows or in times.

    O(1) combines a row, amortised, whatever the range; O(log range) for exact quantiles.

    >>> import numpy as np
    >>> from muntin import agg, slide
    >>> slide(np.array([1.0, 5.0, 2.0, 3.0]), agg.max("v"), range=2).tolist()
    [1.0, 5.0, 5.0, 3.0]
    >>> slide([1, 5, 2], agg.sum("v"), range="1 minute", times=np.array(["2024-01-01T00:00", "2024-01-01T00:00:30",
    ...     "2024-01-01T00:01:10"], "M8[s]")).tolist()
    [1, 6, 7]
    """
    run, aggregations, values = _planned(values, aggregation, range, slide, times, partial, aggregator, threads, offset)
    results = {name: finished(each, run.span.ends) for name, each in run.all(aggregations).items()}
    container = container_of(values)
    out = container.one(results[_ONE]) if isinstance(aggregation, Aggregation) else container.many(results)
    if run.span.trailing:
        out = container.aligned(out, values)
    return (out, *run.span.bounds()) if return_windows else out


def explain(
    values: Any,
    aggregation: Aggregation | Mapping[str, Aggregation],
    *,
    range: Any,
    slide: Any = None,
    times: Any = None,
    partial: bool = True,
    aggregator: str = "auto",
    threads: int = 1,
    offset: Any = 0,
) -> str:
    """Say what `slide` would do with the same arguments: which algorithm runs each aggregation, and why.

    Nothing is aggregated; the times are looked at, to find the windows.

    >>> import numpy as np
    >>> from muntin import agg, explain
    >>> text = explain(np.zeros(1000), agg.max("v"), range=100, slide=10)
    >>> print(text.splitlines()[0])
    1000 rows, 100 windows of 100 rows at most, 10 rows apart; a row falls into 10 of them at most
    """
    run, aggregations, _ = _planned(values, aggregation, range, slide, times, partial, aggregator, threads, offset)
    return run.explained(aggregations)


def _planned(
    values: Any,
    aggregation: Aggregation | Mapping[str, Aggregation],
    range: Any,
    slide: Any,
    times: Any,
    partial: bool,
    aggregator: str,
    threads: int,
    offset: Any,
) -> tuple[ArrayRun, dict[str, Aggregation], Any]:
    """Check the arguments of a call, and find its windows."""
    aggregations = dict(aggregation) if isinstance(aggregation, Mapping) else {_ONE: aggregation}
    _validate(aggregations, aggregator, threads)
    if not hasattr(values, "__len__"):
        values = list(values)
    rows = row_count(values)
    columns = _read(values, aggregations, rows)
    if offset and (times is None or slide is None):
        raise InvalidArgumentError(f"offset is {offset!r}; only windows by time that have a slide can be shifted")
    if isinstance(times, str):
        times = select(values, (times,))[times]
    span = (
        spans_by_rows(rows, range, slide, partial)
        if times is None
        else spans_by_time(_time_column(times, rows), range, slide, offset, partial)
    )
    return ArrayRun(columns, rows, span, _snake_case(aggregator), threads), aggregations, values


def _validate(aggregations: Mapping[str, Aggregation], aggregator: str, threads: int) -> None:
    for name, each in aggregations.items():
        if not isinstance(each, Aggregation):
            raise InvalidArgumentError(f"an aggregation is needed, such as agg.max('v'); {name!r} is {each!r}")
    if not aggregations:
        raise InvalidArgumentError("at least one aggregation is needed")
    if _snake_case(aggregator) not in ("auto", *TABLE):
        raise InvalidArgumentError(f"there is no aggregator {aggregator!r}; there are auto, {', '.join(TABLE)}")
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InvalidArgumentError(f"threads is {threads!r}; it must be a positive integer")


def _snake_case(name: str) -> str:
    """Return the name of an aggregator's class as `slide` has it: TwoStacks is two_stacks."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower()


def _read(values: Any, aggregations: Mapping[str, Aggregation], rows: int) -> dict[str, Column]:
    names = tuple(dict.fromkeys(c for each in aggregations.values() for c in each.reads))
    columns = select(values, names)
    for name, column in columns.items():
        if len(column.values) != rows:
            raise InvalidArgumentError(f"column {name!r} has {len(column.values)} rows, where others have {rows}")
    return columns


def _time_column(times: Any, rows: int) -> Column:
    column = read_column(times, "times", find_nat=False)
    if len(column.values) != rows:
        raise InvalidArgumentError(f"there are {len(column.values)} times for {rows} rows")
    return column
