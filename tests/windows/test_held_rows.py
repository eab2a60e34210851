"""The rows that a stream holds: sorted whatever comes, in however many pieces, and without what is let go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin.columns import Column
from muntin.types import column_type
from muntin.windows.held_rows import HeldRows, ascends

KIND = column_type(pa.int64())
PLACES = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), max_size=60)


def held(places: list[tuple[int, int]], begin: int) -> HeldRows:
    keys, times = (np.array(each, np.int64) for each in (zip(*places, strict=True) if places else ((), ())))
    numbers = begin + np.arange(len(places))
    valid = numbers % 3 > 0 if begin % 2 else None
    return HeldRows(keys, times, numbers, {"v": Column(10 * numbers, valid, KIND)})


def listed(rows: HeldRows) -> list[Any]:
    valid = rows.columns["v"].valid
    mask = [True] * len(rows) if valid is None else valid.tolist()
    return list(zip(*(each.tolist() for each in rows._places), rows.columns["v"].values.tolist(), mask, strict=True))


@given(st.lists(PLACES, max_size=4))
@settings(max_examples=examples(60))
def test_new_rows_come_after_those_of_their_key_and_time(pushes: list[list[tuple[int, int]]]) -> None:
    rows, all_rows, begin = held([], 0), [], 0
    for push in pushes:
        new = held(push, begin)
        all_rows += listed(new)
        begin += len(push)
        rows = rows.with_rows(new)
        assert ascends(rows.keys, rows.times)
        assert listed(rows) == sorted(all_rows, key=lambda row: row[:3])


@given(PLACES, st.data())
@settings(max_examples=examples(60))
def test_some_places_and_all_others(places: list[tuple[int, int]], data: st.DataObject) -> None:
    rows = held(sorted(places), 1)
    edges = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=50)))
    edges = edges[: len(edges) // 2 * 2]
    first, last = np.array(edges[::2], np.int64), np.array(edges[1::2], np.int64)
    chosen = [i for a, b in zip(first, last, strict=True) for i in range(a, b)]
    assert listed(rows.gathered(first, last)) == [listed(rows)[i] for i in chosen]
    assert listed(rows.without(first, last)) == [row for i, row in enumerate(listed(rows)) if i not in chosen]
