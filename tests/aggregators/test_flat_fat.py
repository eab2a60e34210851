"""FlatFat: rows that leave from the middle, capacities that change or do not, and the combines that changes take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sampling import examples

from muntin import agg, aggregators
from muntin.errors import InvalidArgumentError

LETTERS = st.sampled_from("abcdefgh")


class Machine(RuleBasedStateMachine):
    """A FlatFat of concat beside a plain list of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, str]] = []
        self.now = 0

    @initialize(capacity=st.sampled_from([None, None, 1, 5, 8, 16]))
    def build(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.window = aggregators.FlatFat(agg.concat("v"), capacity=capacity, compiled=False)

    def text(self) -> str | None:
        return "".join(v for _, v in self.rows) or None

    @rule(rows=st.lists(st.tuples(st.integers(0, 2), LETTERS), max_size=20))
    def insert(self, rows: list[tuple[int, str]]) -> None:
        new, now = [], self.now
        for pause, v in rows:
            now += pause
            new.append((now, v))
        before = self.window.query()
        if self.capacity is not None and len(self.rows) + len(new) > self.capacity:
            with pytest.raises(InvalidArgumentError, match=f"built for {self.capacity} rows"):
                self.window.bulk_insert([t for t, _ in new], [v for _, v in new])
            assert self.window.query() == before
        else:
            self.window.bulk_insert([t for t, _ in new], [v for _, v in new])
            self.rows += new
            self.now = now

    @rule(count=st.integers(1, 5))
    def evict(self, count: int) -> None:
        for _ in range(min(count, len(self.rows))):
            self.window.evict()
            del self.rows[0]

    @rule(pick=st.integers(0, 1000))
    def evict_at(self, pick: int) -> None:
        times = sorted({t for t, _ in self.rows})
        if times:
            time = times[pick % len(times)]
            self.window.evict_at(time)
            del self.rows[next(i for i, (t, _) in enumerate(self.rows) if t == time)]

    @rule()
    def evict_what_is_not_there(self) -> None:
        with pytest.raises(KeyError, match="no row in the window has the time"):
            self.window.evict_at(self.now + 1)
        with pytest.raises(InvalidArgumentError, match="a time is an integer"):
            self.window.evict_at("now")

    @precondition(lambda self: self.rows)
    @rule(ahead=st.integers(0, 4))
    def bulk_evict(self, ahead: int) -> None:
        until = self.rows[0][0] + ahead
        self.window.bulk_evict(until)
        self.rows = [row for row in self.rows if row[0] > until]

    @rule(lo=st.integers(-1, 6), length=st.integers(0, 9))
    def range_query(self, lo: int, length: int) -> None:
        lo += self.rows[0][0] if self.rows else 0
        expected = "".join(v for t, v in self.rows if lo <= t <= lo + length) or None
        assert self.window.range_query(lo, lo + length) == expected

    @rule(begins=st.lists(st.integers(-1, 12), max_size=5), length=st.integers(-1, 9))
    def range_queries(self, begins: list[int], length: int) -> None:
        oldest = self.rows[0][0] if self.rows else 0
        los = [oldest + begin for begin in begins]
        his = [lo + length for lo in los]
        expected = ["".join(v for t, v in self.rows if lo <= t <= hi) or None for lo, hi in zip(los, his, strict=True)]
        assert self.window.range_queries(los, his) == expected

    @rule()
    def query(self) -> None:
        assert self.window.query() == self.text()

    @rule()
    def reload(self) -> None:
        self.window = aggregators.FlatFat.restore(self.window.snapshot(), agg.concat("v"), compiled=False)
        assert self.window.query() == self.text()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "window"):
            self.window.check()
            assert len(self.window) == len(self.rows)
            assert self.window.oldest == (self.rows[0][0] if self.rows else None)
            assert self.window.youngest == (self.rows[-1][0] if self.rows else None)


TestMachine = Machine.TestCase
TestMachine.settings = settings(deadline=None, max_examples=examples(150), stateful_step_count=40)


@given(
    st.sampled_from([None, 7, 32]),
    st.lists(st.tuples(st.integers(0, 3), st.floats(-9, 9), st.booleans(), st.integers(0, 99)), max_size=60),
)
@settings(deadline=None, max_examples=examples(60))
@pytest.mark.compiled
def test_compiled_with_holes(capacity: int | None, steps: list[tuple[int, float, bool, int]]) -> None:
    """The compiled twin, over max: each step inserts, and evicts by time when it is told to or must."""
    window: Any = aggregators.FlatFat(agg.max("v"), capacity=capacity, dtype="f8")
    rows: list[tuple[int, float]] = []
    now = 0
    for pause, value, evict, pick in steps:
        if rows and (evict or len(rows) == capacity):
            time = rows[pick % len(rows)][0]
            window.evict_at(time)
            del rows[next(i for i, (t, _) in enumerate(rows) if t == time)]
        now += pause
        window.insert(now, value)
        rows.append((now, value))
        assert window.query() == max(v for _, v in rows)
    window.check()
    ranges = [(0, now), (now // 2, now), (now + 1, now + 2)]
    expected = [max((v for t, v in rows if lo <= t <= hi), default=None) for lo, hi in ranges]
    assert window.range_queries(*zip(*ranges, strict=True)) == expected


@pytest.mark.parametrize("holes", [False, True])
def test_bounds_of_any_kind_with_holes_and_without(holes: bool) -> None:
    window: Any = aggregators.FlatFat(agg.sum("v"), compiled=False)
    window.bulk_insert(np.array([1, 2, 3, 4], "M8[s]"), [10, 20, 30, 40])
    if holes:
        window.evict_at(np.datetime64(2, "s"))
    los, his = np.array([1000, 2000, 9000], "M8[ms]"), np.array([2000, 4000, 9000], "M8[ms]")
    expected = [10 if holes else 30, 70 if holes else 90, None]
    assert window.range_queries(los, his) == expected
    assert window.range_queries(list(los), tuple(his)) == expected
    assert window.range_queries(iter(los), iter(his)) == expected
    with pytest.raises(InvalidArgumentError, match="3 lower bounds and 2 upper ones"):
        window.range_queries(iter(los), iter(his[:2]))


def bound(changes: int, capacity: int) -> int:
    """What carrying up so many changes may take."""
    return changes * (1 + max(0, math.ceil(math.log2(capacity / changes)))) if changes else 0


@pytest.mark.parametrize("capacity", [1, 2, 8, 64, 256])
@pytest.mark.parametrize("holes", [False, True])
def test_m_changes_take_at_most_m_times_one_and_the_logarithm_of_n_over_m(capacity: int, holes: bool) -> None:
    """Counted for every m, in windows of every size, wrapped and not, with and without rows missing in the middle."""
    tree_height = capacity.bit_length() - 1
    for held in {1, capacity // 2 + 1, max(1, capacity - 1), capacity} & set(range(1, capacity + 1)):
        window = aggregators.FlatFat(agg.concat("v"), capacity=capacity, count_combines=True)
        window.bulk_insert(range(held), "x" * held)
        now = held
        if holes and held > 2:
            window.evict_at(held // 2)
        window.query()
        for m in [*range(1, min(held, 20) + 1), held]:
            count = min(m, len(window))
            before = window.combines
            for _ in range(count):
                window.evict()
                window.insert(now, "x")
                now += 1
            window.query()
            spent = window.combines - before
            wrapped = 2 * tree_height + 1
            # In a full ring the new row takes the place of the old one, otherwise both are changes.
            assert spent <= bound(min(2 * count, capacity), capacity) + wrapped


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_row_of_one_change_takes_the_height_of_the_tree(size: int) -> None:
    window = aggregators.FlatFat(agg.concat("v"), capacity=128, count_combines=True)
    window.bulk_insert(range(size), "x" * size)
    window.query()
    for change in (lambda: window.insert(1000, "x"), window.evict):
        before = window.combines
        change()
        assert window.combines == before, "changes wait for a query"
        window.query()
        assert window.combines - before <= bound(1, 128)


def test_capacity_follows_the_window() -> None:
    """It doubles when it is full, is packed when a quarter are holes, and is halved when three quarters are empty."""
    window: Any = aggregators.FlatFat(agg.concat("v"), compiled=False)
    window.bulk_insert(range(64), "x" * 64)
    assert window._capacity == 64
    window.insert(64, "y")
    assert window._capacity == 128
    window.bulk_evict(32)
    assert window._capacity == 128
    window.bulk_evict(33)
    assert (len(window), window._capacity) == (31, 64)
    for t in range(40, 60):
        window.evict_at(t)
    assert (len(window), window._capacity) == (11, 32)
    window.bulk_insert(range(65, 86), "z" * 21)
    window.evict_at(70)
    for t in range(72, 79):
        window.evict_at(t)
    window.insert(86, "!")
    assert window._capacity == 32, "packed, not doubled"
    assert window.query() == "x" * 10 + "y" + "z" * 13 + "!"
    window.check()


def test_capacity_is_checked() -> None:
    for bad in (0, -1, 2.5, True):
        with pytest.raises(InvalidArgumentError, match="capacity is"):
            aggregators.FlatFat(agg.sum("v"), capacity=bad)


def test_holes_in_a_settled_capacity_are_cheap() -> None:
    """One eviction from the middle and one insertion at a time, in a full window."""
    window = aggregators.FlatFat(agg.concat("v"), capacity=256, count_combines=True)
    window.bulk_insert(range(256), "x" * 256)
    window.query()
    before = window.combines
    for t in range(256, 1256):
        window.evict_at(t - 100)
        window.insert(t, "x")
        assert window.query() == "x" * 256
    assert window.combines - before <= 1000 * 45


def test_a_snapshot_that_does_not_fit() -> None:
    window = aggregators.FlatFat(agg.concat("v"))
    window.bulk_insert(range(20), "x" * 20)
    with pytest.raises(InvalidArgumentError, match="holds 20 rows, more than the capacity 8"):
        aggregators.FlatFat.restore(window.snapshot(), agg.concat("v"), capacity=8)
