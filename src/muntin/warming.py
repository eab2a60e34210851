"""`muntin.warm`: compile before the data comes."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from muntin import aggregators
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators import Aggregator
from muntin.aggregators.levels import LevelAggregator
from muntin.arrays.slide import slide
from muntin.durations import BEFORE_TIME
from muntin.errors import InvalidArgumentError, MuntinError, OutOfOrderError, UnsupportedOperationError
from muntin.kernels.folder import CacheInfo, cache_info
from muntin.kernels.tiers import waiting
from muntin.keys.encoding import hashes_of
from muntin.notebooks import Progress
from muntin.plans.assumed import types_of
from muntin.query.plan import Types, resolve
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.streams.driven import DrivenStream
from muntin.streams.rows.tree import LEAF
from muntin.streams.slices.pane_set import by_time_at_once
from muntin.types import NULL, ColumnType

_ROWS = 24
"""Rows of a sample: some before, some in and some after a window."""
_KEYS = 3


Warmed: TypeAlias = Query | Aggregation | Mapping[str, Aggregation] | Aggregator | aggregators.Enforced


def warm(
    what: Warmed, schema: Any = None, *, dtype: Any = "f8", aggregator: type[Aggregator] | str | None = None
) -> CacheInfo:
    """Compile the kernels that a query, aggregations or an aggregator need; return where they are kept.

    Seconds once, then nothing.

    Run it while building an image, or before a service takes its first request. For a query it compiles everything that
    `run`, `stream` (late rows too) and Spark need; `schema` has the column types (an Arrow schema, a mapping of names
    to Arrow types, or a table), and without it likely ones are assumed, as in `explain`. For aggregations over arrays,
    `dtype` is the type of the columns, or a mapping of column names to types.

    An aggregator that is driven by hand stays as it is, and all its methods are compiled for the types of its columns,
    or `dtype` where it has none yet. With `aggregator=`, a class or its name, the aggregations are compiled for windows
    of that class.

    >>> from muntin import Query, agg, warm, window
    >>> warm(agg.max("v")).modules > 0
    True
    >>> warm(agg.max("v"), aggregator="Fiba") == warm(aggregators.Fiba(agg.max("v")))
    True
    >>> query = Query(window.tumbling("1 hour"), {"high": agg.max("v")}, key="k")
    >>> warm(query, {"ts": pa.timestamp("us"), "k": pa.string(), "v": pa.float64()}).modules > 0
    True
    """
    with waiting(), Progress("compiling"):
        if isinstance(what, Query):
            _warm_query(what, schema)
        elif isinstance(what, Aggregator | aggregators.Enforced):
            _warm_window(what, dtype)
        elif aggregator is not None:
            _warm_window(_class_of(aggregator)(what), dtype)
        elif isinstance(what, Aggregation) or (
            isinstance(what, Mapping) and all(isinstance(each, Aggregation) for each in what.values())
        ):
            _warm_arrays(what, dtype)
        else:
            raise InvalidArgumentError(
                f"a query or aggregations, or an aggregator, can be compiled before they are used, not {what!r}"
            )
    return cache_info()


def _warm_arrays(aggregation: Aggregation | Mapping[str, Aggregation], dtype: Any) -> None:
    each = [aggregation] if isinstance(aggregation, Aggregation) else list(aggregation.values())
    names = dict.fromkeys(name for one in each for name in one.columns)
    types = dict(dtype) if isinstance(dtype, Mapping) else dict.fromkeys(names, dtype)
    types |= {one.where: "?" for one in each if one.where is not None}
    columns = {name: np.ones(4, types.get(name, "f8")) for name in (*names, *types)} or {"v": np.ones(4)}
    slide(columns, aggregation, range=3)
    slide(columns, aggregation, range=3, times=np.arange(4))
    slide(columns, aggregation, range=4, slide=2, times=np.array([0, 1, 2, 9]))
    for kind in (aggregators.TwoStacks, aggregators.SubtractOnEvict):
        if kind.needs_invert and not all(one.invertible for one in each):
            continue
        window = kind(aggregation, dtype=dict(types))
        window.bulk_insert(np.arange(4), columns)
        window.evict()
        window.query()


# ---------------------------------------------------------------- aggregators: by driving an empty copy

_CALLS: tuple[tuple[str, ...], ...] = (
    ("extend", "last", "value"),
    ("evict",),
    ("bulk_evict", "second"),
    ("rank", "middle"),
    ("evict_at", "middle"),
    ("update", "late", "value"),
    ("bulk_evict_at", "early"),
    ("bulk_evict", "middle"),
)
"""The methods that some aggregators have, with names of what they are given: see `_Driver`."""


def _class_of(aggregator: type[Aggregator] | str) -> type[Aggregator]:
    kind = getattr(aggregators, aggregator, None) if isinstance(aggregator, str) else aggregator
    if not isinstance(kind, type) or not issubclass(kind, Aggregator):
        raise InvalidArgumentError(f"aggregator is {aggregator!r}; give a class of aggregators, or its name")
    return kind


def _warm_window(window: Aggregator | aggregators.Enforced, dtype: Any) -> None:
    if isinstance(window, aggregators.Enforced):
        _warm_window(window._window, dtype)
        _warm_window(window._judge, dtype)
    elif window._counter is None and not window._plain:
        copy = window._empty_copy()
        kinds = {name: _kind_of(kind, name, dtype) for name, kind in copy._types.items()}
        with contextlib.closing(copy) if hasattr(copy, "close") else contextlib.nullcontext():
            _Driver(copy, kinds).run()


def _kind_of(kind: ColumnType, name: str, dtype: Any) -> pa.DataType:
    """Return the type of a column: its own, or that of `dtype` if it has none yet."""
    if kind == NULL:
        given = dtype.get(name, "f8") if isinstance(dtype, Mapping) else dtype
        return given if isinstance(given, pa.DataType) else pa.from_numpy_dtype(np.dtype(given))
    return kind.logical or pa.from_numpy_dtype(kind.physical)


class _Driver:
    """Calls all that an empty window can do, with rows of some types."""

    def __init__(self, window: Aggregator, kinds: Mapping[str, pa.DataType]) -> None:
        self._window = window
        self._columns = {name: _values(kind, False) for name, kind in kinds.items()}
        steps = np.arange(_ROWS, dtype=np.int64) * 10
        logical = None if window._time_type is None else window._time_type.logical
        times = self._times = steps if logical is None else pa.array(steps).cast(logical).to_numpy()
        row = tuple(column[-1].as_py() for column in self._columns.values())
        self._value = row[0] if len(row) == 1 else row
        half = _ROWS // 2
        self._given = {"second": times[2], "middle": times[half], "late": times[-6], "early": times[[-5, -3]]}
        self._given |= {"value": self._value, "last": times[-1]}

    def run(self) -> None:
        window = self._window
        self._insert(range(0, _ROWS, 2))
        if isinstance(window, LevelAggregator):
            window._asked = False  # the policy may let all rows go, and nothing else would be compiled
            self._call_all()
            window._asked = True
        else:
            self._call_all()
        window.insert(self._times[-1], self._value)
        if isinstance(window, aggregators.Fiba):
            window.nth(0)
            list(window.items())
        if window._binding.fixed:  # for Python objects nothing is compiled
            with contextlib.suppress(UnsupportedOperationError):  # a window in a store has no snapshot
                window._empty_copy()._adopt(Snapshot.decode(window.snapshot()).arrays)

    def _call_all(self) -> None:
        self._insert(range(0, _ROWS, 2))
        self._insert(range(1, _ROWS, 2))
        self._ask()
        for name, *arguments in _CALLS:
            if hasattr(self._window, name) and len(self._window):
                with contextlib.suppress(KeyError):  # the row may have been evicted
                    getattr(self._window, name)(*(self._given[each] for each in arguments))
                self._ask()
        self._window.insert(self._times[-1], self._value)

    def _insert(self, rows: range) -> None:
        taken = {name: column.take(pa.array(rows)) for name, column in self._columns.items()}
        with contextlib.suppress(OutOfOrderError):  # not every aggregator takes late rows
            self._window.bulk_insert(self._times[list(rows)], taken)

    def _ask(self) -> None:
        self._window.query()
        for lo in self._times:
            for hi in self._times[-2:]:
                with contextlib.suppress(UnsupportedOperationError):  # some ranges are not kept
                    self._window.range_query(lo, hi)
        if isinstance(self._window, aggregators.Fiba | aggregators.FlatFat):
            self._window.range_queries(self._times[:2], self._times[-2:])


# ---------------------------------------------------------------- queries: by answering samples


def _warm_query(query: Query, schema: Any) -> None:
    types, _ = types_of(query, schema)
    for sample in _samples(query, types):
        if query.time is not None:
            query.run(sample)
        _stream(query, sample)
        with by_time_at_once():  # as with many keys
            _stream(query, sample)
        _cut(query, sample)


def _stream(query: Query, sample: pa.Table) -> None:
    """Push rows in order, out of order and late, save and restore in between, and let all windows out."""
    stream = query.stream()
    even, odd = (sample.take(pa.array(range(begin, sample.num_rows, 2))) for begin in (0, 1))
    half = len(odd) // 2
    crowd = sample.take(pa.array([sample.num_rows - 1] * (2 * LEAF + 1)))  # rows of a key that fill more than a leaf
    for part in (even[:4], odd[:4], even[4:half], odd[4:half], even[half:], odd[half:], crowd):
        with contextlib.suppress(MuntinError):  # rows in order were promised
            stream.push(part)
    if any(each.is_frame for each in query.windows):
        for points in (sample[:1], sample[-1:], sample[-3:]):
            with contextlib.suppress(MuntinError):  # what is asked for was let go
                stream.ask(points.select([*query.key, *filter(None, [query.time])]))
    saved = stream.snapshot()
    stream.close()
    query.stream(saved).close()


def _cut(query: Query, sample: pa.Table) -> None:
    """Hash keys, cut rows into slices, and put these together in another stream, as the tasks of Spark do."""
    if query.key:
        hashes_of([sample[name] for name in query.key], sample.num_rows)
    here, there = (DrivenStream(query, sample.schema) for _ in range(2))
    here.take(sample)
    for mine, other in zip(here.slices or (), there.slices or (), strict=True):
        other.take_partials(mine.give_partials(), BEFORE_TIME)


def _samples(query: Query, types: Types) -> Iterator[pa.Table]:
    """Make rows whose times are close together and far apart, with nulls and without."""
    reaches = {each.reach for each in resolve(query, types).windows.values()}
    steps = {max(1, reach * sixths // 6) for reach in reaches for sixths in (1, 4, 9)}  # 4: a row joins sessions
    for step in sorted(steps):
        for nulls in (False, True):
            yield _sample(query, types, step, nulls)


def _sample(query: Query, types: Types, step: int, nulls: bool) -> pa.Table:
    columns: dict[str, Any] = {}
    for name, kind in types.columns.items():
        columns[name] = _values(kind.logical or pa.from_numpy_dtype(kind.physical), nulls)
    columns |= {name: _values(kind, False, _KEYS) for name, kind in types.keys.items()}
    if query.time is not None:
        logical = types.time.logical or pa.int64()
        columns[query.time] = pa.array(np.arange(_ROWS, dtype=np.int64) * step, pa.int64()).cast(logical, safe=False)
    return pa.table(columns)


def _values(kind: pa.DataType, nulls: bool, different: int = _ROWS) -> pa.Array:
    """Return values of a type: few different ones for keys, with a null where asked for."""
    numbers = [i * different // _ROWS for i in range(_ROWS)]  # neighbours have one key
    values = [None if nulls and i == 1 else _value(kind, n) for i, n in enumerate(numbers)]
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a type of objects, for which nothing is compiled
        return pa.nulls(_ROWS, kind)


def _value(kind: pa.DataType, number: int) -> Any:
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(number)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return str(number).encode()
    if pa.types.is_decimal(kind):
        return decimal.Decimal(number)
    if pa.types.is_date(kind):
        return datetime.date(1970, 1, 1 + number)
    if pa.types.is_dictionary(kind):
        return _value(kind.value_type, number)
    return number
