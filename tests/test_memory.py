"""The pool of result memory: reused when free, never while anything can see it, and given back."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest

from muntin import agg, memory, slide


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_a_block_comes_again_only_when_nothing_sees_it(monkeypatch) -> None:
    monkeypatch.setattr(memory, "_pool", memory.Pool())
    monkeypatch.setattr(memory, "PATIENCE", 1000.0)
    rows = memory.LARGE // 8 + 123
    first = memory.room(rows, np.dtype("f8"))
    first[:] = 7.0
    where = address(first)
    tail = first[5:]
    arrow = pa.array(first)
    view = memoryview(first[::2])
    del first
    gc.collect()
    for _ in range(3):
        other = memory.room(rows, np.dtype("f8"))
        assert address(other) != where, "a view, an Arrow array and a memoryview still see it"
        other[:] = 1.0
        del other
    assert (tail == 7.0).all()
    assert view[0] == 7.0
    assert arrow[9].as_py() == 7.0
    memory._pool.release()
    del tail, arrow, view
    gc.collect()
    assert address(memory.room(rows, np.dtype("f8"))) == where
    memory._pool._timer.cancel()


@pytest.mark.compiled
def test_results_keep_their_values_while_others_come_and_go() -> None:
    values = np.random.default_rng(0).normal(size=200_000)
    kept = [slide(values, agg.max("v"), range=width) for width in (2, 5)]
    copies = [array.copy() for array in kept]
    for width in range(2, 12):
        slide(values, {"a": agg.min("v"), "b": agg.sum("v")}, range=width)
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_what_is_held_is_bounded_and_released(monkeypatch) -> None:
    pool = memory.Pool()
    monkeypatch.setattr(memory, "MOST_BYTES", 100)
    pool.give(np.empty(60, np.uint8))
    pool.give(np.empty(60, np.uint8))
    assert pool.held == 60
    assert pool.take(60).nbytes == 60
    assert pool.held == 0
    pool.give(np.empty(60, np.uint8))
    pool.release()
    assert pool.held == 0


def test_arrays_inside_rows_and_small_ones() -> None:
    assert memory.room(10, np.dtype("f8")).base is None
    assert memory.room(memory.LARGE, np.dtype(("u1", (4,)))).shape == (memory.LARGE, 4)
    assert memory.room(memory.LARGE, np.dtype(object))[0] is None
