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
from muntin.errors import ColumnTypeError, InvalidArgumentError

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

    @rule(picks=st.lists(st.integers(0, 1000), max_size=8))
    def bulk_evict_at(self, picks: list[int]) -> None:
        times = [self.rows[pick % len(self.rows)][0] for pick in picks] if self.rows else []
        left = list(self.rows)
        for time in times:
            at = next((i for i, (t, _) in enumerate(left) if t == time), None)
            if at is None:
                with pytest.raises(KeyError, match="of the time"):
                    self.window.bulk_evict_at(times)
                return
            del left[at]
        self.window.bulk_evict_at(times)
        self.rows = left

    @precondition(lambda self: self.rows)
    @rule(pick=st.integers(0, 1000), value=LETTERS)
    def update(self, pick: int, value: str) -> None:
        time = self.rows[pick % len(self.rows)][0]
        self.window.update(time, value.upper())
        self.rows[next(i for i, (t, _) in enumerate(self.rows) if t == time)] = (time, value.upper())

    @rule()
    def evict_what_is_not_there(self) -> None:
        with pytest.raises(KeyError, match="no row in the window has the time"):
            self.window.update(self.now + 1, "x")
        with pytest.raises(KeyError, match=f"no row, or too few, of the time {self.now + 1}"):
            self.window.bulk_evict_at([self.now + 1])
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


@pytest.mark.compiled
def test_compiled_evictions_and_updates_among_equal_times() -> None:
    window: Any = aggregators.FlatFat(agg.sum("v"), dtype="f8")
    window.bulk_insert(np.repeat(np.arange(10), 10), np.arange(100.0))
    window.bulk_evict_at([4, 9, 9, 4, 4])
    window.update(4, 1000.0)
    assert window.query() == 4950 - (40 + 41 + 42) - (90 + 91) + 1000 - 43
    assert window.range_queries([4, 5], [4, 9]) == [1000 + 44 + 45 + 46 + 47 + 48 + 49, 3725 - 181]
    window.check()


def test_an_update_may_widen_the_states() -> None:
    window: Any = aggregators.FlatFat(agg.sum("v"), compiled=False)
    window.bulk_insert([1, 2, 2, 3], [10, 20, 30, 40])
    window.evict_at(2)
    window.update(2, 0.5)
    assert window.query() == 50.5
    window.check()
    with pytest.raises(ColumnTypeError):
        window.update(2, "x")
    assert window.query() == 50.5


class Touched(np.ndarray[Any, Any]):
    """An array that counts the entries read from it, or copied; a slice is a view."""

    count = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Touched.count += 0 if isinstance(at, slice) else getattr(found, "size", 1)
        return found

    def copy(self, *arguments: Any) -> Any:
        Touched.count += self.size
        return super().copy(*arguments)


@pytest.mark.parametrize("held", [64, 1024])
@pytest.mark.parametrize("call", ["evict_at", "evict", "bulk_evict_at", "update", "range_query", "range_queries"])
def test_holes_of_one_time_are_skipped_in_log_n(held: int, call: str) -> None:
    """Nearly all rows have one time, and have left: what a call reads of the marks is not in proportion to them."""
    window: Any = aggregators.FlatFat(agg.concat("v"), capacity=held, compiled=False)
    window.bulk_insert([0, *[1] * (held - 2), 2], "x" * held)
    window.bulk_evict_at([1] * (held - 4))
    window.query()
    window._window = window._window._replace(
        holds=window._window.holds.view(Touched), times=window._window.times.view(Touched)
    )
    Touched.count = 0
    arguments = {"evict": (), "update": (1, "y"), "range_query": (1, 1), "range_queries": ([1], [1])}
    getattr(window, call)(*arguments.get(call, ([1],) if call == "bulk_evict_at" else (1,)))
    assert Touched.count <= 20 * held.bit_length()
    Touched.count = 0
    window.evict()
    assert Touched.count <= 20 * held.bit_length()
    window.check()


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


@pytest.mark.parametrize(("holes", "capacity"), [(False, 64), (True, 64)])
def test_an_update_is_one_change(holes: bool, capacity: int) -> None:
    window = aggregators.FlatFat(agg.concat("v"), capacity=capacity, count_combines=True)
    window.bulk_insert(range(capacity), "x" * capacity)
    window.update(5, "y")
    if holes:
        window.evict_at(9)
    window.query()
    for time in (0, 20, capacity - 1):
        before = window.combines
        window.update(time, "z")
        assert window.combines == before
        window.query()
        assert window.combines - before <= bound(1, capacity)


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
