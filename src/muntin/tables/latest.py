"""`muntin.latest`: the last word on each window, of all that a stream has emitted.

A window is told from others by its key, its `window_id` and its bounds. Of windows by rows these are row numbers, which
stay when late rows change the times of the first and the last row; where a window is emitted before it is full its last
row changes, too, and the first alone counts. Windows of rows of equal time may share all that: the first of them in one
revision is the first of them in the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import InvalidArgumentError
from muntin.keys.table import KeyTable
from muntin.tabular import kind_of
from muntin.types import Array
from muntin.windows.base import AT, ROW_BOUNDS, TIME_BOUNDS, VALUE_BOUNDS

REQUIRED = ("window", "window_id", "revision", "retracted")


def latest(answers: Any) -> Any:
    """Return the latest revision of each window, without retracted windows.

    `answers` are those of one query, from `run`, `stream` or `spark`, all pushes concatenated in the order of emission:
    Arrow, pandas (with its index) or polars, or a batch Spark DataFrame. Returns the same kind, with rows in order.
    O(n log n).

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
    kind = kind_of(answers)
    names = kind.names(answers)
    keys = key_columns(names)
    read = kind.read(answers, [*keys, *REQUIRED])
    return kind.take(answers, _places(read, keys))


def key_columns(names: list[Any]) -> list[str]:
    """Return the key columns of answers: those before the window; refuse what are no answers."""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        shown = ", ".join(map(repr, names)) or "none"
        raise InvalidArgumentError(
            f"there is no column {missing[0]!r}; give the answers of a query with all their columns, not {shown}"
        )
    return names[: names.index("window")]


def bound_columns(names: list[str]) -> dict[str, tuple[str, ...]]:
    """Return, of the fields of `window`, those that tell windows apart: by rows, by values and by time.

    The first of each says whether a window is of that sort.

    >>> bound_columns(["start", "end", "from_row", "to_row"])
    {'rows': ('from_row', 'to_row'), 'times': ('start', 'end')}
    """
    sorts = {"rows": ROW_BOUNDS, "values": VALUE_BOUNDS, "times": (*TIME_BOUNDS, AT)}
    found = {sort: tuple(name for name in bounds if name in names) for sort, bounds in sorts.items()}
    return {sort: bounds for sort, bounds in found.items() if bounds}


def _places(answers: pa.Table, keys: list[str]) -> Array:
    """Return which rows are the last word on a window that is not retracted, ascending."""
    order, begins = emissions(answers, keys)
    last = np.append(begins[1:], True)[: len(order)]
    there = ~answers["retracted"].to_numpy(zero_copy_only=False)
    return np.sort(order[last & there[order]])


def emissions(answers: pa.Table, keys: list[str]) -> tuple[Array, Array]:
    """Return the rows of answers window by window, those of a window by revision, and where a window begins.

    O(n log n).
    """
    revision = answers["revision"].to_numpy()
    identity = identities(answers, keys)
    order = np.lexsort((revision, identity))  # stable: in the order of emission
    ordinal = _ordinals(identity[order], revision[order])
    whole = np.lexsort((revision[order], ordinal, identity[order]))
    order, ordinal = order[whole], ordinal[whole]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (identity[order[1:]] != identity[order[:-1]]) | (ordinal[1:] != ordinal[:-1])
    return order, begins


def _ordinals(identity: Array, revision: Array) -> Array:
    """Return for sorted rows how many of the same identity and revision come before each."""
    begins = np.ones(len(identity), np.bool_)
    begins[1:] = (identity[1:] != identity[:-1]) | (revision[1:] != revision[:-1])
    rows = np.arange(len(identity))
    return rows - np.maximum.accumulate(np.where(begins, rows, 0))


def identities(answers: pa.Table, keys: list[str]) -> Array:
    """Return a number for each row of answers, equal where key, `window_id` and the bounds that count are equal.

    Expected O(bytes of the rows).
    """
    windows = answers["window"].combine_chunks()
    if isinstance(windows, pa.ChunkedArray):  # an old pyarrow combines no chunks into no array
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
    """Return the row numbers that windows end with, null where these are no part of what tells windows apart.

    They are, for all windows of a definition, if some that begin with the same row were emitted with different ones for
    the first time: trailing windows. Else they only tell how full a window was.
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
    """Return where windows by time begin, null where late rows may move that: then the end alone tells them apart.

    They may, for all windows of a definition, if a revision is there without the one before, and none is retracted:
    those of policies. A stream that began on a history revises windows that it has never emitted, too.
    """
    revision = answers["revision"].to_numpy()
    identity = _numbers([*others, *bounds], len(revision))
    known = np.bincount(np.unique(np.stack((identity, revision), axis=1), axis=0)[:, 0])
    last = np.zeros(len(known), np.int64)
    np.maximum.at(last, identity, revision)
    ids = answers["window_id"].to_numpy()
    retracted = answers["retracted"].to_numpy(zero_copy_only=False)
    moved = np.isin(ids, ids[(known <= last)[identity]]) & ~np.isin(ids, ids[retracted])
    return pc.if_else(pa.array(moved), None, bounds[0])


def _numbers(columns: list[pa.Array], rows: int) -> Array:
    return KeyTable([column.type for column in columns]).numbers(columns, rows)
