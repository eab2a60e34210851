"""Samples the rows of a batch query: which keys are too long for one task, and where to cut them.

Spark counts rows by key and, for long keys, by stretches of time; no Python sees them. A piece begins at some row, and
also has the rows before it that its windows may need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.query.query import Query
from muntin.spark.explained import default_parallelism, size_in_bytes
from muntin.spark.names import column
from muntin.spark.task import Piece
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.found import Cut
from muntin.windows.shapes import Lookback

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STRETCHES = 1 << 10
"""The number of stretches of time in which the rows of a long key are counted."""
_FEW = 1_000_000
"""A key of fewer rows is not worth a cut."""
_SAMPLE = 0.01
"""The fraction of rows in the sample that finds long keys."""
_SMALL = 4 << 20
"""A DataFrame of fewer bytes, by Spark's estimate, has no long key."""
_FINER = 16
"""Candidate places per cut, if a sample is enough."""
_WORTH = 2
"""The least ratio of a piece's rows to those that it repeats."""


def lookback(windows: Sequence[Window]) -> Lookback | None:
    """Return how far back windows reach; None if only the rows can tell.

    >>> from muntin import rows, window
    >>> lookback([window.trailing(60), window.sliding(rows(10), every=5)])
    Lookback(time=60, rows=10, gap=None, ahead=0)
    """
    each = [window.lookback for window in windows]
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return None
    gaps = [one.gap for one in known if one.gap is not None]
    return Lookback(max(one.time for one in known), max(one.rows for one in known), max(gaps, default=None))


@dataclass(frozen=True)
class Stretches:
    """The rows of one key, counted by equally long stretches of time, without empty ones."""

    count: Array
    first: Array
    last: Array
    """The least and the greatest time in each."""


@dataclass(frozen=True)
class LongKey:
    """A key to cut: its values, the start of each piece, and from when on it repeats rows of the previous one."""

    key: tuple[Any, ...]
    begins: tuple[int, ...]
    repeats: tuple[int, ...]
    """Rows from this time on are in the next piece too; one per entry of `begins`."""
    pieces: tuple[Piece, ...]


def cut(key: tuple[Any, ...], stretches: Stretches, back: Lookback, most: int) -> LongKey | None:
    """Cut a key into at most `most` roughly equal pieces; None if there is no place for a cut. O(n log n)."""
    before = np.concatenate(([0], np.cumsum(stretches.count)))
    places: list[int] = []
    starts: list[int] = []
    for i in range(1, most):
        place = _place(stretches, int(np.searchsorted(before, before[-1] * i / most)), back.gap)
        if place is None or place <= (places[-1] if places else 0):
            continue
        start = _start(stretches, before, place, back)
        previous = places[-1] if places else 0
        if start < previous or before[place] - before[previous] < _WORTH * (before[place] - before[start]):
            continue
        places.append(place)
        starts.append(start)
    if not places:
        return None
    begins = [int(stretches.first[place]) for place in places]
    sinces = [
        Cut(begin, int(before[place]), int(before[start]))
        for begin, place, start in zip(begins, places, starts, strict=True)
    ]
    pieces = [Piece(since, until) for since, until in zip([None, *sinces], [*sinces, None], strict=True)]
    repeats = [min(int(stretches.first[start]), begin - back.time) for start, begin in zip(starts, begins, strict=True)]
    return LongKey(key, tuple(begins), tuple(repeats), tuple(pieces))


def _place(stretches: Stretches, wanted: int, gap: int | None) -> int | None:
    """Return the first stretch from `wanted` on before which a cut is possible."""
    if gap is None:
        return wanted if wanted < len(stretches.count) else None
    free = np.flatnonzero(stretches.first[1:] - stretches.last[:-1] > gap) + 1
    at = int(np.searchsorted(free, wanted))
    return int(free[at]) if at < len(free) else None


def _start(stretches: Stretches, before: Array, place: int, back: Lookback) -> int:
    """Return the first stretch needed by the piece that begins at `place`."""
    time = int(stretches.first[place]) - back.time
    start = int(np.searchsorted(stretches.last, time, "left"))
    start = min(start, place)
    return max(0, int(np.searchsorted(before, before[start] - back.rows, "right")) - 1) if back.rows else start


# ---------------------------------------------------------------- on Spark


@dataclass(frozen=True)
class Seen:
    """A key that may be long, by the sample, and the range of its times."""

    key: tuple[Any, ...]
    first: int
    last: int

    def stretches(self, between: Sequence[int]) -> Stretches:
        """Return stretches with about equally many rows, by the times between them."""
        first = np.unique(np.array((self.first, *between), np.int64))
        last = np.append(first[1:] - 1, max(self.last, int(first[-1])))
        return Stretches(np.ones(len(first), np.int64), first, last)


def long_keys(frame: DataFrame, query: Query, ticks: Column, back: Lookback, forced: int | None) -> list[LongKey]:
    """Return the keys worth cutting: counts a sample of all keys, and sometimes every row of the long ones."""
    if forced is None and size_in_bytes(frame) < _SMALL:
        return []
    slots = default_parallelism(frame.sparkSession) if forced is None else forced
    if slots == 1:
        return []
    most = 2 * slots if forced is None else forced
    # If windows neither number rows nor need gaps, a cut is possible anywhere, and a sample is enough.
    exact = forced is not None or back.rows > 0 or back.gap is not None
    sample, least = (_SAMPLE, _FEW) if forced is None else (1.0, 1)
    if not query.key and not exact:
        found = _only(frame, ticks, most)
    else:
        seen = _longest(frame, query, ticks, slots, sample, least)
        survey = _counted if exact else partial(_sampled, parts=most)
        found = list(zip(seen, survey(frame, query, ticks, seen), strict=True)) if seen else []
    cuts = [cut(each.key, stretches, back, most) for each, stretches in found]
    return [each for each in cuts if each is not None]


def _only(frame: DataFrame, ticks: Column, parts: int) -> list[tuple[Seen, Stretches]]:
    """Return stretches of all rows, if there is only one key, and it is long: in one scan."""
    from pyspark.sql import functions as F

    times = frame.select(ticks.alias("time")).sample(fraction=_SAMPLE, seed=0)
    wanted = (F.count("*"), F.min("time"), F.max("time"), F.percentile_approx("time", _places(parts)))
    ((count, first, last, between),) = times.agg(*wanted).collect()
    if count < _FEW * _SAMPLE or first is None:  # none of the rows has a time: the reader reports it
        return []
    seen = Seen((), first, last)
    return [(seen, seen.stretches(between))]


def _places(parts: int) -> list[float]:
    """Return the quantiles at which a key of `parts` parts may be cut."""
    return [i / (_FINER * parts) for i in range(1, _FINER * parts)]


def _longest(frame: DataFrame, query: Query, ticks: Column, slots: int, sample: float, least: int) -> list[Seen]:
    """Return the keys with more than their share of the rows. Usually there are none, and this is all."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    keys = [column(frame, name) for name in query.key]
    seen = Observation()
    rows = frame.select(*keys, ticks.alias("muntin_ticks"))
    looked_at = rows.sample(fraction=sample, seed=0) if sample < 1 else rows
    counted = looked_at.groupBy(*(column(rows, name) for name in query.key)).agg(
        F.count("*").alias("n"), F.min("muntin_ticks"), F.max("muntin_ticks")
    )
    top = counted.observe(seen, F.sum("n").alias("n")).orderBy(F.desc("n")).limit(slots).collect()
    total = seen.get["n"] or 0
    width = len(query.key)
    return [
        Seen(tuple(row)[:width], row[width + 1], row[width + 2])
        for row in top
        if row[width] >= max(1, least * sample)
        and (row[width] * slots > total or not width)
        and row[width + 1] is not None  # none of its rows has a time: the reader reports it
    ]


def _sampled(frame: DataFrame, query: Query, ticks: Column, keys: list[Seen], parts: int) -> list[Stretches]:
    """Return stretches of some keys with about equally many rows, by a sample.

    Done for all keys in advance, when few or none are long, this took a third of the time of `over`.
    """
    from pyspark.sql import functions as F

    number = numbered(frame, query, [each.key for each in keys])
    rows = frame.select(number.alias("key"), ticks.alias("time")).sample(fraction=_SAMPLE, seed=0).where("key >= 0")
    found: dict[int, Any] = dict(rows.groupBy("key").agg(F.percentile_approx("time", _places(parts))).collect())
    return [each.stretches(found.get(i) or ()) for i, each in enumerate(keys)]


def _counted(frame: DataFrame, query: Query, ticks: Column, keys: list[Seen]) -> list[Stretches]:
    """Return the rows of some keys, counted by stretches of time."""
    from pyspark.sql import functions as F

    number = numbered(frame, query, [each.key for each in keys])
    part = F.lit(0)
    for i, each in enumerate(keys):
        low, high = each.first, each.last
        # Floats do not overflow; rows before and after the sampled range are one stretch each.
        place = F.floor((ticks.cast("double") - float(low)) / float((high - low) // _STRETCHES + 1))
        place = F.greatest(F.lit(-1), F.least(F.lit(_STRETCHES + 1), place)).cast("int")
        part = F.when(number == i, place).otherwise(part)
    rows = frame.select(number.alias("key"), part.alias("part"), ticks.alias("time")).where("key >= 0")
    found = rows.groupBy("key", "part").agg(F.count("*"), F.min("time"), F.max("time")).collect()
    out = []
    for i in range(len(keys)):
        mine = np.array(sorted(tuple(row)[1:] for row in found if row[0] == i), np.int64).reshape(-1, 4)
        out.append(Stretches(mine[:, 1], mine[:, 2], mine[:, 3]))
    return out


def numbered(frame: DataFrame, query: Query, keys: list[tuple[Any, ...]]) -> Column:
    """Return the number of a row's key among `keys`; -1 for all others."""
    from pyspark.sql import functions as F

    number = F.lit(-1)
    for i, key in enumerate(keys):
        same = F.lit(True)
        for name, value in zip(query.key, key, strict=True):
            same = same & column(frame, name).eqNullSafe(F.lit(value))
        number = F.when(same, F.lit(i)).otherwise(number)
    return number


def pieces_of(frame: DataFrame, query: Query, ticks: Column, keys: list[LongKey]) -> Column:
    """Return the numbers of the pieces that hold a row: one or two; -1 for keys that are not cut."""
    from pyspark.sql import functions as F

    number = numbered(frame, query, [each.key for each in keys])
    found = F.array(F.lit(-1))
    base = 0
    for i, each in enumerate(keys):
        own = F.lit(base)
        twice = F.lit(False)
        for begin, repeat in zip(each.begins, each.repeats, strict=True):
            own = own + (ticks >= begin).cast("int")
            twice = twice | ((ticks >= repeat) & (ticks < begin))
        both = F.when(twice, F.array(own, own + 1)).otherwise(F.array(own))
        found = F.when(number == i, both).otherwise(found)
        base += len(each.pieces)
    return found
