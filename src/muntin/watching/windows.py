"""Emitted windows: their latest values, and those before late rows revised them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import InvalidArgumentError
from muntin.tables.latest import emissions, key_columns
from muntin.types import Array, is_number
from muntin.watching.axis import Axis
from muntin.watching.keyed import Keys

_MOST_PARTS = 64
_OWN_KEYS: list[str] = []
"""Answers of one key need no key columns to identify them."""
_ARRIVAL, _KEY = "muntin arrival", "muntin key"
"""Columns added to answers, with names that no query file and no user would choose."""


@dataclass(frozen=True)
class Drawn:
    """The windows of one definition and one key, by end: one entry per window not retracted."""

    starts: Array
    ends: Array
    values: dict[str, Array]
    """The latest values of each aggregate; NaN if there is none."""
    revisions: Array
    arrivals: Array
    """When the latest revision of each arrived, in seconds of the clock."""
    earlier: list[str]
    """The earlier values of the first aggregate, by revision; empty if there were none."""

    @property
    def overlap(self) -> bool:
        """Whether windows overlap."""
        return bool((self.starts[1:] < self.ends[:-1]).any())


class Windows:
    """All answers of a query so far. Adding is O(rows); reading a key is O(n log n) in its windows in view."""

    def __init__(self) -> None:
        self.axis: Axis | None = None
        self.keys = Keys(())
        self.ids: list[int] = []
        self.aggregates: list[str] = []
        """The numeric aggregates."""
        self.count = self.revised = self.retracted = 0
        self.span: tuple[int, int] | None = None
        """From the least start to the greatest end."""
        self._parts: list[pa.Table] = []

    def add(self, answers: pa.Table, arrival: float) -> None:
        """Add answers in order of emission; `arrival` is their time, in seconds of the clock."""
        if not answers.num_rows:
            return
        keys = key_columns(answers.column_names)
        if self.axis is None:
            self._learn(answers.schema, keys)
        if tuple(keys) != self.keys.names:
            raise InvalidArgumentError(
                f"answers by {', '.join(keys) or 'no key'} came, and before those by "
                f"{', '.join(self.keys.names) or 'no key'}; give the answers of one query"
            )
        self.count += answers.num_rows
        self.revised += pc.sum(pc.greater(answers["revision"], 0)).as_py()
        self.retracted += pc.sum(answers["retracted"]).as_py()
        self.ids = sorted({*self.ids, *pc.unique(answers["window_id"]).to_pylist()})
        self._widen(answers)
        numbers = self.keys.numbers(answers)
        wanted = answers.select(["window", "window_id", *self.aggregates, "revision", "retracted"])
        for name in self.aggregates:
            at = wanted.column_names.index(name)
            wanted = wanted.set_column(at, name, wanted[name].cast(pa.float64(), safe=False))
        wanted = wanted.append_column(_KEY, pa.array(numbers))
        self._parts.append(wanted.append_column(_ARRIVAL, pa.array(np.full(len(numbers), arrival))))
        if len(self._parts) > _MOST_PARTS:
            self._parts = [pa.concat_tables(self._parts).combine_chunks()]

    def _learn(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self.axis = Axis.of(schema.field("window").type.field("start").type, "window")
        self.keys = Keys(keys)
        names = schema.names[schema.names.index("window_id") + 1 : schema.names.index("revision")]
        self.aggregates = [name for name in names if is_number(schema.field(name).type)]

    def _widen(self, answers: pa.Table) -> None:
        assert self.axis is not None
        bounds = [pc.drop_null(pc.struct_field(answers["window"], name)) for name in ("start", "end")]
        if len(bounds[0]):
            least, most = int(self.axis.ticks(bounds[0]).min()), int(self.axis.ticks(bounds[1]).max())
            self.span = (least, most) if self.span is None else (min(least, self.span[0]), max(most, self.span[1]))

    def look(self, window_id: int, key: int, aggregates: Sequence[str], lo: int, hi: int) -> Drawn:
        """Return the windows of one definition and key that touch the times [lo, hi], and the last ones before.

        A line enters the view from the last ones before.
        """
        assert self.axis is not None
        table = pa.concat_tables([_of(part, window_id, key) for part in self._parts])
        starts, ends = (self.axis.ticks(_bound(table, name)) for name in ("start", "end"))
        least = ends[ends < lo].max(initial=np.iinfo(np.int64).min)
        table = table.filter(pa.array((ends >= least) & (starts <= hi)))
        order, begins = emissions(table, _OWN_KEYS)
        place = np.cumsum(begins) - 1
        last = np.flatnonzero(np.append(begins[1:], True)[: len(order)])
        standing = last[~table["retracted"].to_numpy(zero_copy_only=False)[order[last]]]
        starts, ends = (self.axis.ticks(_bound(table, name)) for name in ("start", "end"))
        standing = standing[np.lexsort((starts[order[standing]], ends[order[standing]]))]
        rows = order[standing]
        values = {name: _floats(table[name]) for name in aggregates}
        texts = [""] * len(rows)
        if aggregates:
            texts = _earlier(_emitted(table, aggregates[0], order), place, begins, standing)
        return Drawn(
            starts[rows],
            ends[rows],
            {name: found[rows] for name, found in values.items()},
            table["revision"].to_numpy()[rows],
            table[_ARRIVAL].to_numpy()[rows],
            texts,
        )


def _of(part: pa.Table, window_id: int, key: int) -> pa.Table:
    """Return the answers of one definition and key with a place: an empty frame by rows has none."""
    found = part.filter(pc.and_(pc.equal(part["window_id"], window_id), pc.equal(part[_KEY], key)))
    return found.filter(pc.is_valid(_bound(found, "start")))


def _bound(table: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.struct_field(table["window"], name)


def _floats(column: pa.ChunkedArray) -> Array:
    return np.asarray(column.to_numpy(), np.float64)


@dataclass(frozen=True)
class _Emitted:
    """The emitted values of one aggregate, by window and revision."""

    values: Array
    nulls: Array
    retracted: Array

    def text(self, row: int) -> str:
        """Return a value as text: distinguishes retracted, null and NaN."""
        if self.retracted[row]:
            return "retracted"
        value = float(self.values[row])
        return "null" if self.nulls[row] else "NaN" if value != value else f"{value:.6g}"


def _emitted(table: pa.Table, name: str, order: Array) -> _Emitted:
    nulls, retracted = table[name].is_null().to_numpy(), table["retracted"].to_numpy()
    return _Emitted(_floats(table[name])[order], nulls[order], retracted[order])


def _earlier(emitted: _Emitted, place: Array, begins: Array, rows: Array) -> list[str]:
    """Return the earlier values of each window's last emission.

    >>> no = np.zeros(3, bool)
    >>> emitted = _Emitted(np.array([1.0, 2.0, 7.0]), no, no)
    >>> _earlier(emitted, np.array([0, 0, 1]), np.array([True, False, True]), np.array([1, 2]))
    ['1', '']
    """
    firsts = np.flatnonzero(begins)[place[rows]] if len(rows) else rows
    spans = zip(firsts.tolist(), rows.tolist(), strict=True)
    return [" → ".join(emitted.text(row) for row in range(first, last)) for first, last in spans]
