"""`muntin.latest`: the latest revision of each window that a stream has emitted.

A window is identified by its key, its `window_id` and its bounds. For windows by rows these are row numbers, which stay
when late rows change the times of the first and the last row; if a window is emitted before it is full its last row
changes too, and only the first counts. Windows of rows of equal time may share all of that: they are matched across
revisions in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import InvalidArgumentError
from muntin.keys.table import KeyTable
from muntin.tabular import kind_of, whole
from muntin.types import Array
from muntin.windows.base import AT, ROW_BOUNDS, TIME_BOUNDS, VALUE_BOUNDS

REQUIRED = ("window", "window_id", "revision", "retracted")


def latest(answers: Any) -> Any:
    """Return the latest revision of each window, without retracted windows.

    `answers` are those of one query, from `run`, `stream` or `spark`, all pushes concatenated in the order of emission:
    Arrow, pandas (with its index), polars, a list of rows as mappings, or a batch Spark DataFrame. Returns the same
    kind (a DataFrame for a LazyFrame, Arrow for a list), with rows in order. O(n log n).

    On Spark rows have no order. If windows of rows of equal time share their bounds, each gets the answer of the
    greatest revision among them: for frames that is their own, since they hold the same rows.

    >>> import muntin
    >>> from muntin import Query, agg, window
    >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t", allowed_lateness=9).stream()
    >>> answers = pa.concat_tables([stream.push({"t": [1, 14]}), stream.push({"t": [2]}), stream.close()])
    >>> answers["n"].to_pylist(), muntin.latest(answers)["n"].to_pylist()
    ([1, 2, 1], [2, 1])
    """
    if hasattr(answers, "isStreaming") and hasattr(answers, "sparkSession"):
        from muntin.spark.latest import latest_of_frame

        return latest_of_frame(answers)
    answers = whole(answers, REQUIRED)
    kind = kind_of(answers)
    names = kind.names(answers)
    keys = key_columns(names)
    read = kind.read(answers, [*keys, *REQUIRED])
    # Without a row pandas tells no types, and there is nothing to choose from.
    return kind.take(answers, _places(read, keys) if read.num_rows else np.empty(0, np.int64))


def key_columns(names: list[Any]) -> list[str]:
    """Return the key columns of answers: those before `window`; reject tables that are not answers."""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        shown = ", ".join(map(repr, names)) or "none"
        raise InvalidArgumentError(
            f"there is no column {missing[0]!r}; give the answers of a query with all their columns, not {shown}"
        )
    return names[: names.index("window")]


def bound_columns(names: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the fields of `window` that identify windows: by rows, by values and by time.

    The first of each is set if a window is of that sort.

    >>> bound_columns(["start", "end", "from_row", "to_row"])
    {'rows': ('from_row', 'to_row'), 'times': ('start', 'end')}
    """
    sorts = {"rows": ROW_BOUNDS, "values": VALUE_BOUNDS, "times": (*TIME_BOUNDS, AT)}
    found = {sort: tuple(name for name in bounds if name in names) for sort, bounds in sorts.items()}
    return {sort: bounds for sort, bounds in found.items() if bounds}


def _places(answers: pa.Table, keys: list[str]) -> Array:
    """Return the rows, ascending, with the latest revision of each window that is not retracted."""
    order, begins = emissions(answers, keys)
    last = np.append(begins[1:], True)[: len(order)]
    there = ~_retracted(answers)
    return np.sort(order[last & there[order]])


def emissions(answers: pa.Table, keys: list[str]) -> tuple[Array, Array]:
    """Return the rows of answers by window and revision, and where each window begins. O(n log n)."""
    return _by_window(identities(answers, keys), answers["revision"].to_numpy(), _retracted(answers))


def _by_window(identity: Array, revision: Array, retracted: Array) -> tuple[Array, Array]:
    # Stable: keeps the order of emission. Of windows that look alike those that are retracted are the last ones.
    order = np.lexsort((retracted, revision, identity))
    ordinal = _ordinals(identity[order], revision[order])
    whole = np.lexsort((revision[order], ordinal, identity[order]))
    order, ordinal = order[whole], ordinal[whole]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (identity[order[1:]] != identity[order[:-1]]) | (ordinal[1:] != ordinal[:-1])
    return order, begins


def _ordinals(identity: Array, revision: Array) -> Array:
    """Return for each sorted row how many of the same identity and revision precede it."""
    begins = np.ones(len(identity), np.bool_)
    begins[1:] = (identity[1:] != identity[:-1]) | (revision[1:] != revision[:-1])
    rows = np.arange(len(identity))
    return rows - np.maximum.accumulate(np.where(begins, rows, 0))


def identities(answers: pa.Table, keys: list[str]) -> Array:
    """Return a number per row of answers, equal if key, `window_id` and the identifying bounds are equal.

    Expected O(bytes of the rows).
    """
    windows = answers["window"].combine_chunks()
    if isinstance(windows, pa.ChunkedArray):  # old pyarrow versions cannot combine zero chunks
        windows = pa.array([], answers.schema.field("window").type)
    if not pa.types.is_struct(windows.type):
        raise InvalidArgumentError(f"the column 'window' holds {windows.type}; it is a struct of start and end")
    columns = [answers[name].combine_chunks() for name in (*keys, "window_id")]
    free = pa.array(np.ones(len(windows), np.bool_))
    for bounds in bound_columns([field.name for field in windows.type]).values():
        mine = pc.and_(free, pc.is_valid(windows.field(bounds[0]))) if bounds[0] not in TIME_BOUNDS else free
        wanted = [pc.if_else(mine, windows.field(name), None) for name in bounds]
        if bounds == ROW_BOUNDS:
            wanted[1] = _last_rows(answers, columns, *wanted)
        if bounds[:1] == TIME_BOUNDS[:1]:
            wanted[0] = _starts(answers, columns, wanted)
        columns += wanted
        free = pc.and_(free, pc.invert(mine))
    return _numbers(columns, len(windows))


def _last_rows(answers: pa.Table, others: list[pa.Array], from_row: pa.Array, to_row: pa.Array) -> pa.Array:
    """Return the last row numbers of windows, null if they are not part of the identity.

    They are, for all windows of a definition, if windows with the same first row had different last rows in their first
    emission: trailing windows. Otherwise they only show how full a window was.
    """
    new = np.flatnonzero(answers["revision"].to_numpy() == 0)
    begin, both = (
        _numbers([column.take(pa.array(new)) for column in columns], len(new))
        for columns in ([*others, from_row], [*others, from_row, to_row])
    )
    ends = np.unique(np.stack((begin, both), axis=1), axis=0)[:, 0]
    several = np.isin(begin, ends[1:][ends[1:] == ends[:-1]])
    ids = answers["window_id"].to_numpy()
    trailing = np.isin(ids, ids[new[several]])
    return pc.if_else(pa.array(trailing), to_row, None)


def _starts(answers: pa.Table, others: list[pa.Array], bounds: list[pa.Array]) -> pa.Array:
    """Return the starts of windows by time, null if late rows may move them: then only the end identifies them.

    They may, for all windows of a definition, if a revision comes without or before the previous one, and none is
    retracted: windows of policies. A stream that started from a history also revises windows that it never emitted.
    """
    revision = answers["revision"].to_numpy()
    order, begins = _by_window(_numbers([*others, *bounds], len(revision)), revision, _retracted(answers))
    expected = np.where(begins, 0, np.roll(revision[order], 1) + 1)
    in_turn = (revision[order] == expected) & (begins | (order > np.roll(order, 1)))
    ids = answers["window_id"].to_numpy()
    moved = np.isin(ids, ids[order[~in_turn]]) & ~np.isin(ids, ids[_retracted(answers)])
    return pc.if_else(pa.array(moved), None, bounds[0])


def _retracted(answers: pa.Table) -> Array:
    return np.asarray(answers["retracted"].to_numpy(zero_copy_only=False), np.bool_)


def _numbers(columns: list[pa.Array], rows: int) -> Array:
    return KeyTable([column.type for column in columns]).numbers(columns, rows)
