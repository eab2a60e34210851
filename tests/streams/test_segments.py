"""Segments of a store of rows: their tables hold its rows, whatever is inserted, evicted or changed in any order."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.columns import Column
from muntin.kernels.cache import uncompiled
from muntin.streams.rows import segmenting
from muntin.streams.rows.store import RowStore
from muntin.streams.segments import COUNTS, HELD, STARTS, Segment, Segmented, decode, encode, merged
from muntin.types import INT64, Array


class Tables:
    """Tables as they were written, by name."""

    def __init__(self) -> None:
        self.written: dict[bytes, bytes] = {}
        self.new = 0

    def save(self, store: RowStore) -> tuple[dict[str, Array], Segmented] | None:
        """Write what has changed; return all rows as they are read again, or None if they are in no segments."""
        facts, segments = store.save_changes()
        if not segments:
            return None
        self.new = 0
        for each in segments:
            if each.arrays is not None:
                self.new += each.rows
                name = str(len(self.written)).encode()
                self.written[name] = encode(each.arrays, allow_pickle=False)
                each.note_written(name, len(self.written[name]))
        assert facts[COUNTS].tolist() == [each.rows for each in segments]
        assert (facts[STARTS][1:] > facts[STARTS][:-1]).all()
        tables = [decode(self.written[each.name or b""], allow_pickle=False) for each in segments]
        rows, gone = merged(facts[COUNTS], facts[HELD], tables)
        again = [Segment(each.rows, None, each.name, each.size) for each in segments]
        return rows, Segmented(facts[STARTS], again, gone)


def store_of(leaf: int) -> RowStore:
    store = RowStore({"v": INT64}, [], leaf, 4)
    store.beside = {"number": np.zeros(0, np.int32)}
    return store


@pytest.mark.parametrize("seed", range(6))
def test_tables_hold_the_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a row comes before evicted ones whose tables are still there, here and after a restart."""
    monkeypatch.setattr(segmenting, "_LEAST", 600)
    monkeypatch.setattr(segmenting, "_MOST", 600)
    chance = np.random.default_rng(seed)
    store, tables, arrived, found = store_of(4), Tables(), 0, 0
    with uncompiled():
        for step in range(70):
            count = int(chance.integers(0, 150))
            times = 20 * step + chance.integers(0, 30, count)
            times -= chance.integers(0, 800, count) * (chance.random(count) < chance.choice([0, 0.02, 0.3]))
            keys = np.minimum(chance.geometric(0.6, count) - 1, 4)
            order = np.lexsort((times, keys))
            values = np.arange(arrived, arrived + count)
            arrived += count
            valid = None if step < 30 else values % 7 > 0
            store.insert(keys[order], times[order], {"v": Column(values, valid, INT64)}, {"number": values % 3 + 1})
            if step % 2:
                present = store.present
                held = store.tree.keys[3::4][present]
                store.evict(present, (held * chance.random(len(held)) ** 3).astype(np.int64))
            if step % 3 == 0:
                owners, places = store.rows()
                some = places[chance.random(len(owners)) < 0.01]
                store.beside["number"][some] += 1
            saved = tables.save(store)
            if saved is None:
                continue
            found += 1
            rows, known = saved
            expected = store.save()
            assert {name: array.tolist() for name, array in rows.items()} == {
                name: array.tolist() for name, array in expected.items()
            }
            if chance.random() < 0.2:
                store = store_of(4)
                store.load(rows)
                store.go_on_from(known)
    assert found > 50


def test_a_row_writes_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes, unless evicted rows come after it; evicting rows writes none."""
    monkeypatch.setattr(segmenting, "_LEAST", 600)
    monkeypatch.setattr(segmenting, "_MOST", 600)
    store, tables = store_of(64), Tables()
    length = segmenting.rows_of_table(store)

    def insert(*times: int) -> None:
        number = np.arange(len(times))
        keys = np.zeros(len(times), np.int64)
        store.insert(keys, np.array(times), {"v": Column(number, None, INT64)}, {"number": number})

    with uncompiled():
        insert(*range(2000))
        tables.save(store)
        assert tables.new == 2000
        for time in (5000, 700, 30):
            insert(time)
            tables.save(store)
            assert 0 < tables.new <= 1.5 * length + 1
        store.evict(np.array([0]), np.array([500]))
        tables.save(store)
        assert tables.new == 0
        insert(470)
        tables.save(store)
        assert 0 < tables.new <= 3 * length + 2
        insert(*range(6000, 14_000))  # more than there is room for
        tables.save(store)
        assert 8000 <= tables.new <= 8000 + 1.5 * length
        store.beside["number"][store.rows()[1][-1:]] += 1
        tables.save(store)
        assert 0 < tables.new <= 1.5 * length + 1


def test_as_short_as_can_be() -> None:
    """Integers of any range and type come back; so does what is no integer."""
    arrays = {
        "least": np.array([-(2**63), 2**63 - 1]),
        "small": np.array([-(2**63), 7 - 2**63]),
        "unsigned": np.array([2**64 - 1, 2**64 - 70_000], np.uint64),
        "short": np.array([-5, 300], np.int16),
        "none": np.zeros(0, np.int64),
        "masks": np.array([True, False]),
        "numbers": np.array([np.nan, -0.0]),
    }
    found = decode(encode(arrays, allow_pickle=False), allow_pickle=False)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].tobytes()) == (array.dtype, array.tobytes()), name
    times = {"times": 10**18 + np.arange(1000)}
    assert len(encode(times, allow_pickle=False)) < 2300
