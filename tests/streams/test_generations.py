"""Slices by time: the same slices as by key, and what is new lies together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin import Query, agg, window
from muntin.spark import chunks
from muntin.streams import snapshots
from muntin.streams.driven import DrivenStream
from muntin.streams.slices.generations import by_key, by_time

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.float64()})
QUERIES = {
    "slices": Query(window.sliding(60, every=1), {"n": agg.sum("v")}, key="k", time="t", watermark=1),
    "sessions": Query(window.session(3), {"n": agg.sum("v")}, key="k", time="t", watermark=1, allowed_lateness=9),
    "rows": Query(window.tumbling(5), {"n": agg.longest_increasing_run("v")}, key="k", time="t", watermark=9),
    "values": Query(window.sliding(20, every=5), {"n": agg.median("v")}, key="k", time="t", watermark=9),
}


def fed(query: Query, keys: int, count: int) -> DrivenStream:
    """Return a stream that holds what came of random rows."""
    chance = np.random.default_rng(count)
    stream = DrivenStream(query, SCHEMA)
    times = np.sort(chance.integers(0, 40, count))
    values = np.round(chance.standard_normal(count), 2)
    stream.take(pa.table({"k": chance.integers(0, keys, count), "t": times, "v": values}, schema=SCHEMA))
    return stream


@pytest.mark.parametrize("name", QUERIES)
def test_there_and_back(name: str) -> None:
    before = snapshots.save(fed(QUERIES[name], 7, 300)._state).arrays
    after = by_key(by_time(before))
    assert set(after) == set(before)
    for each, array in before.items():
        assert after[each].dtype == array.dtype, each
        assert after[each].tobytes() == np.ascontiguousarray(array).tobytes(), each


@pytest.mark.parametrize("name", QUERIES)
def test_both_layouts_are_read(name: str) -> None:
    """A state with its slices by key, as it was once written, goes on just as well."""
    query = QUERIES[name]
    answers = []
    for saved in (fed(query, 7, 300).save(), snapshots.save(fed(query, 7, 300)._state)):
        stream = DrivenStream.load(query, SCHEMA, saved)
        stream.set_watermark(100)
        answers.append(stream.emit())
    assert answers[0].num_rows > 0
    assert answers[0].equals(answers[1])


@pytest.mark.compiled
def test_only_what_is_new_is_written() -> None:
    """All keys get rows in every batch; of two minutes of slices that are kept, five seconds are new."""
    query = Query(window.sliding(120, every=1), {"n": agg.sum("v"), "m": agg.max("v")}, key="k", time="t", watermark=1)
    stream, keys, step = DrivenStream(query, SCHEMA), 2000, 5
    known: set[bytes] = set()
    written = []
    for begin in range(0, 200, step):
        if begin:
            stream.set_watermark(begin - 1)
            stream.emit()
        times = np.repeat(np.arange(begin, begin + step), keys)
        numbers = np.tile(np.arange(keys), step)
        values = np.random.default_rng(begin).standard_normal(len(times))
        stream.take(pa.table({"k": numbers, "t": times, "v": values}, schema=SCHEMA))
        _, data = chunks.joined(stream.save())
        pieces = {chunks.name_of(piece): len(piece) for piece in chunks.cut(data)}
        written.append(sum(size for name, size in pieces.items() if name not in known))
        known = set(pieces)
    assert len(data) > 5_000_000
    touched = len(data) * step / 121  # slices, with their keys: all are equally long
    assert np.median(written[-10:]) <= len(data) / 4
    assert np.median(written[-10:]) - touched <= 4 * chunks.MOST
