"""Windows that grow while they are in use: right at every step, and no call copies many rows for a new one."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from muntin import agg, aggregators, memory, policies, stores
from muntin.aggregators import boundary, growing
from muntin.aggregators.ring import RingAggregator
from muntin.errors import InvalidArgumentError, OutOfOrderError

RINGS: dict[str, Callable[..., Any]] = {
    "Daba": aggregators.Daba,
    "Boundary": aggregators.Boundary,
    "Boundary of two threads": lambda *a, **named: aggregators.Boundary(*a, threads=2, **named),
    "MonoidTree": aggregators.MonoidTree,
}
ORDERED = {"first": agg.first("v"), "last": agg.last("v"), "rows": agg.count(), "sum": agg.sum("v")}
"""Which two threads may combine, since no combine fails, and which shows rows in the wrong order."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rings grow in steps from 16 rows on, and copy few at a time."""
    monkeypatch.setattr(growing, "_SMALL", 16)
    monkeypatch.setattr(growing, "_BATCH", 3)


def joined(rows: list[tuple[int, str]]) -> str | None:
    return "".join(v for _, v in rows) or None


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("seed", range(6))
def test_random_steps_while_it_grows(name: str, seed: int) -> None:
    chance = random.Random(seed)
    window, rows = RINGS[name](agg.concat("v"), compiled=False), []
    grew = now = 0
    for _ in range(250):
        move = chance.choice(["insert"] * 8 + ["bulk"] * 2 + ["evict"] * 3 + ["cut", "reload", "refused"])
        now += chance.randrange(2)
        if move == "insert":
            window.insert(now, letter := chance.choice("abcdef"))
            rows.append((now, letter))
        elif move == "bulk":
            new = [(now, chance.choice("ABCDEF")) for _ in range(chance.choice([2, 5, 40]))]
            window.bulk_insert([t for t, _ in new], [v for _, v in new])
            rows += new
        elif move == "evict" and rows:
            window.evict()
            del rows[0]
        elif move == "cut" and rows:
            until = rows[len(rows) // 4][0] - 1
            window.bulk_evict(until)
            rows = [row for row in rows if row[0] > until]
        elif move == "reload":
            window = type(window).restore(window.snapshot(), agg.concat("v"), compiled=False)
        elif move == "refused":
            with pytest.raises(OutOfOrderError):
                window.bulk_insert([now, now - 1], ["x", "y"])
        grew += window._next is not None
        window.check()
        assert window.query() == joined(rows)
        assert len(window) == len(rows)
    assert grew > 10


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
@pytest.mark.parametrize("name", RINGS)
def test_states_of_fixed_size_while_it_grows(name: str, compiled: bool) -> None:
    chance = random.Random(7)
    window, values = RINGS[name](ORDERED, dtype="f8", compiled=compiled), []  # sums of integers may fail
    for step in range(600):
        window.insert(step, value := chance.randrange(100))
        values.append(value)
        if chance.random() < 0.3:
            window.evict()
            del values[0]
        if step % 10 == 0:
            window.check()
            sums = {"first": values[0], "last": values[-1], "rows": len(values), "sum": sum(values)}
            assert window.query() == sums


@pytest.mark.parametrize("bulk", [1, 64])
@pytest.mark.parametrize("name", RINGS)
def test_no_call_copies_more_than_a_few_rows_for_each_new_one(
    name: str, bulk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in rows, of rings from 4,096 rows on: smaller ones are copied at once."""
    copied: list[int] = []
    copy_rows, at_once = growing.GrowingRing._copy_rows, RingAggregator._reserve

    def noting(self: Any, begin: int, end: int) -> None:
        copied[-1] += end - begin
        copy_rows(self, begin, end)

    def noting_all(self: Any, rows: int) -> None:
        copied[-1] += len(self) if rows > self._room else 0
        at_once(self, rows)

    monkeypatch.setattr(growing.GrowingRing, "_copy_rows", noting)
    monkeypatch.setattr(RingAggregator, "_reserve", noting_all)
    window = RINGS[name](agg.sum("v"), dtype="f8", compiled=False)
    values = np.ones(bulk)
    for now in range(0, 20_000, bulk):
        copied.append(0)
        if bulk == 1:
            window.insert(now, 1)
        else:
            window.bulk_insert(np.arange(now, now + bulk), values)
        boundary._second_thread.submit(int).result()  # a chunk that waits for this thread is copied when it is through
    assert window.query() == len(window)
    assert sum(copied) > 8192
    assert max(copied) <= 4096
    assert sum(count > 2048 for count in copied) <= 1, "all but the last ring of 4,096 rows at most is copied in steps"
    window.check()


def test_the_second_thread_starts_when_no_combine_can_fail_any_more() -> None:
    """Sums of integers may overflow, and are flipped by the calling thread alone; those of floats by the second one."""
    window = aggregators.Boundary(agg.sum("v"), threads=2, compiled=False)
    window.bulk_insert(range(27), [1] * 27)
    values = [1.0] * 27
    for time in range(27, 200):
        window.insert(time, 0.5 * time)
        values.append(0.5 * time)
        if time % 3:
            window.evict()
            del values[0]
        window.check()
        assert window.query() == sum(values)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", RINGS)
def test_types_that_widen_while_it_grows(name: str) -> None:
    window = RINGS[name](agg.sum("v"), compiled=False)
    for time in range(27):
        window.insert(time, 1)
    assert window._next is not None
    window.insert(27, 0.5)
    for time in range(28, 100):
        window.insert(time, 1)
        window.check()
    assert window.query() == 99.5


class Once:
    """A number whose addition fails at will."""

    fails = False

    def __init__(self, number: int) -> None:
        self.number = number

    def __add__(self, other: Once) -> Once:
        if Once.fails:
            raise ValueError("no")
        return Once(self.number + other.number)


@agg.define(state="object")
class added:
    def lift(v):
        return v

    def combine(a, b):
        return a + b

    def lower(s):
        return s.number


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", RINGS)
def test_a_combine_that_fails_while_it_grows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    window = RINGS[name](added("v"))
    refused = 0
    for time in range(120):
        window.insert(time, Once(1))
        monkeypatch.setattr(Once, "fails", True)
        try:
            window.bulk_insert([time] * 4, [Once(5)] * 4)
        except ValueError:
            refused += 1
        monkeypatch.setattr(Once, "fails", False)
        assert window.query() == time + 1
    assert refused == 120
    assert len(window) == 120


@pytest.mark.usefixtures("small")
def test_a_policy_while_its_tree_grows() -> None:
    window = aggregators.Enforced(aggregators.Daba(agg.concat("v"), compiled=False), policies.at_most_rows(70))
    text = ""
    for time in range(300):
        window.insert(time, letter := "abcdefg"[time % 7])
        text = (text + letter)[-70:]
        with pytest.raises(OutOfOrderError):
            window.insert(-1, "x")
        window.check()
        assert window.query() == text


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give all back at once")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", RINGS)
def test_a_ring_that_was_replaced_is_given_back_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE", 64)
    window = RINGS[name](agg.sum("v"), dtype="i8", compiled=False)
    left: list[int] = []
    for time in range(2400):
        window.insert(time, 1)
        left.append(sum(len(array) for held in window._replaced for array in held))
    assert max(left) > 500
    drops = [before - after for before, after in itertools.pairwise(left)]
    assert max(drops) <= 3 * growing._RATE * growing._BATCH
    assert left[-1] == 0
    window.check()
    assert window.query() == 2400


# ---------------------------------------------------------------- Fiba: arrays that grow where they are


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each array that was copied to a longer one; arrays are large from 4 kB on."""
    sizes: list[int] = []
    monkeypatch.setattr(memory, "LARGE", 1 << 12)

    def noting(array: Any, longer: Any) -> None:
        sizes.append(array.nbytes)
        longer[: len(array)] = array

    monkeypatch.setattr(memory, "_copy", noting)
    return sizes


@pytest.mark.skipif(sys.platform != "linux", reason="other systems copy")
@pytest.mark.parametrize("in_order", [True, False])
def test_no_call_copies_a_large_array_of_a_fiba(in_order: bool, copied: list[int]) -> None:
    chance = random.Random(3)
    window, rows = aggregators.Fiba(ORDERED, dtype="i8", compiled=False, min_arity=2), {}
    for step in range(60):
        times = [step * 100 + i if in_order else chance.randrange(10**6) for i in range(20)]
        window.bulk_insert(times, values := [chance.randrange(100) for _ in times])
        rows |= dict(zip(times, values, strict=True)) if in_order else {}
        window.check()
        if step == 30:
            restored = aggregators.Fiba.restore(window.snapshot(), ORDERED, compiled=False)
            copied.clear()
            restored.bulk_insert(times, values)
            restored.check()
    assert copied
    assert max(copied) < 1 << 12
    if in_order:
        held = list(rows.values())
        assert window.query() == {"first": held[0], "last": held[-1], "rows": len(held), "sum": sum(held)}


def test_an_array_that_somebody_holds_is_copied(copied: list[int]) -> None:
    window: Any = aggregators.Fiba(agg.sum("v"), dtype="i8", compiled=False)
    window.bulk_insert(range(2000), range(2000))
    held = window._window
    before = held.times.copy()
    window.bulk_insert(range(2000, 4000), range(2000))
    assert max(copied) > 1 << 12
    assert np.array_equal(held.times[: len(before)], before)
    window.check()
    assert window.query() == 2 * sum(range(2000))


def test_memory_that_runs_out_leaves_the_window_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    window: Any = aggregators.Fiba(agg.sum("v"), dtype="i8", compiled=False)
    window.bulk_insert(range(20), range(20))

    def fail(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as failing:
        failing.setattr(memory, "_aligned_zeros", fail)
        with pytest.raises(MemoryError):
            window._reserve(1000, 1000)
    window.check()
    assert window.query() == sum(range(20))


# ---------------------------------------------------------------- capacity


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("arity", [2, 4, 16])
def test_a_fiba_of_a_capacity_stays_where_it_is(arity: int, in_order: bool) -> None:
    window: Any = aggregators.Fiba(agg.count(), arity, capacity=3000, compiled=False)
    window.insert(0)
    arrays = window._window
    times = list(range(1, 3000))
    if not in_order:
        random.Random(4).shuffle(times)
    for at in range(0, 3000, 500):
        window.bulk_insert(times[at : at + 500])
    assert all(old is new for old, new in zip(arrays, window._window, strict=True))
    assert window.query() == 3000
    restored = aggregators.Fiba.restore(window.snapshot(), agg.count(), compiled=False)
    restored.bulk_insert(range(5000))
    assert len(restored) == 5000


@pytest.mark.parametrize("name", RINGS)
def test_a_capacity_is_room_from_the_start(name: str) -> None:
    window = RINGS[name](agg.sum("v"), capacity=5000, dtype="i8", compiled=False)
    window.insert(0, 1)  # with a type of times come new arrays
    room = window._window.times
    window.bulk_insert(np.arange(1, 5000), np.ones(4999, np.int64))
    assert window._window.times is room
    restored = type(window).restore(window.snapshot(), agg.sum("v"), compiled=False)
    restored.bulk_evict(10_000)
    assert len(restored._window.times) == len(room)
    restored.bulk_insert(np.arange(20_000), np.ones(20_000, np.int64))
    assert restored.query() == 20_000
    restored.check()


@pytest.mark.parametrize("kind", [aggregators.Fiba, aggregators.Daba, aggregators.Boundary, aggregators.MonoidTree])
@pytest.mark.parametrize("bad", [0, -1, 2.5, True])
def test_a_capacity_is_checked(kind: Any, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="capacity is"):
        kind(agg.sum("v"), capacity=bad)


def test_a_window_in_a_store_has_no_capacity() -> None:
    with pytest.raises(InvalidArgumentError, match="capacity is room in memory"):
        aggregators.MonoidTree(agg.sum("v"), store=stores.Memory(), capacity=100)
