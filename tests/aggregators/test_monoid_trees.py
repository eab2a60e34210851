"""The monoid trees: the running examples of the design, step by step, and their bounds counted in combines."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from muntin import agg, aggregators, policies
from muntin.aggregators.levels import spots
from muntin.errors import InvariantError

TREES = [aggregators.LogMonoidTree, aggregators.MonoidTree]


def levels(window: Any, field: str) -> list[list[Any]]:
    """The nodes of every level that the window still has, from the rows up; None for an out-of-date one."""
    cells, front = window._window.slots, int(window._marks[0])

    def shown(level: int, j: int) -> Any:
        stale = (j << level) < front and type(window) is aggregators.MonoidTree
        return None if stale else cells[spots(len(cells), level, j)][field].item()

    return [[shown(level, j) for j in range(first, last)] for level, first, last in window._node_ranges()]


def test_bulk_eviction_of_the_plain_tree() -> None:
    """Times go in, the greatest is reported, and the window spans less than four units: 8 drives all others out."""
    newest = agg.max("t")

    @policies.define(newest=newest)
    def four_units(whole, old):
        return whole.newest - old.newest >= 4

    window: Any = aggregators.LogMonoidTree(newest, policy=four_units, nullable=False, count_combines=True)
    for time in (1, 2, 3, 4):
        window.insert(time, time)
    assert levels(window, "p0_value") == [[1, 2, 3, 4], [2, 4]]
    assert (window.query(), len(window)) == (4, 4)
    window.insert(8, 8)
    assert levels(window, "p0_value") == [[8]]
    assert (window.query(), len(window), window.oldest) == (8, 1, 8)
    window.check()


def held(window: Any, place: int) -> int:
    small = window._window.results
    return int(small["p0_high"][place]) * 2**32 + int(small["p0_low"][place])


def stack(window: Any) -> list[int]:
    return [held(window, place) for place in range(2, int(window._marks[5]))]


def results(window: Any) -> list[int]:
    return [held(window, 0), held(window, 1)]


def test_results_and_stack_of_eight_rows() -> None:
    window: Any = aggregators.MonoidTree(agg.sum("v"), nullable=False, compiled=False)
    window.bulk_insert(range(8), [1, 2, 1, 2, 1, 2, 1, 2])
    assert results(window) == [6, 6]
    assert stack(window) == [3, 5], "without the older half of the leftmost tree, and without its oldest row"
    assert [len(level) for level in levels(window, "p0_low")] == [8, 3, 1], "the last pair of a level has no parent"
    assert levels(window, "p0_low")[1:] == [[3, 3, 3], [6]]


def test_single_evictions_step_by_step() -> None:
    window: Any = aggregators.MonoidTree(agg.sum("v"), nullable=False, count_combines=True)
    window.bulk_insert(range(10), [1, 3, 2, 1, 2, 1, 1, 0, 3, 1])
    assert window.query() == 15
    assert (results(window), stack(window)) == ([7, 8], [3, 6])
    before = window.combines
    window.evict()
    assert (results(window), stack(window)) == ([6, 8], [3]), "the top of the stack has become the first result"
    assert window.combines == before, "nothing else is needed"
    assert window.query() == 14
    window.evict()
    assert (results(window), stack(window)) == ([3, 8], [1]), "the pair (2, 1) has come to the head: its 1 is pushed"
    assert levels(window, "p0_low")[:2] == [[2, 1, 2, 1, 1, 0, 3, 1], [3, 3, 1]]
    assert levels(window, "p0_low")[2] == [None], "the highest node is out of date, and not mended"
    assert window.query() == 11
    for rest in (9, 8):
        window.evict()
        assert window.query() == rest
    assert (results(window)[0], stack(window)) == (4, [1, 2]), "the next tree has taken the place of the leftmost"
    window.check()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 1000])
def test_a_slide_of_the_monoid_tree_is_constant_amortised(size: int) -> None:
    window: Any = aggregators.MonoidTree(agg.concat("v"), count_combines=True)
    window.bulk_insert(range(size), ["x"] * size)
    assert window.combines <= 3 * size + 20, "an insert"
    before, slides, worst = window.combines, 4 * size + 100, 0
    for i in range(slides):
        one = window.combines
        window.insert(size + i, "x")
        worst = max(worst, window.combines - one)
        one = window.combines
        window.evict()
        worst = max(worst, window.combines - one)
        window.query()
    assert window.combines - before <= 6 * slides
    assert worst <= 4 * (size + 1).bit_length() + 4


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.slow
def test_bulk_evictions_are_logarithmic(kind: Any) -> None:
    chance = random.Random(5)
    for size in (1, 2, 5, 64, 65, 1000):
        for gone in {0, 1, 2, size // 3, size // 2, size - 1, size}:
            window = kind(agg.count(), count_combines=True)
            window.bulk_insert(range(size), None)
            for _ in range(chance.randrange(size)):
                window.evict()
            before, held = window.combines, len(window)
            window.bulk_evict(window.oldest + gone - 1 if gone else -1)
            assert len(window) == max(0, held - gone)
            assert window.combines - before <= 3 * size.bit_length() + 3


@pytest.mark.parametrize("kind", TREES)
def test_policies_ask_few_questions(kind: Any) -> None:
    """One insert that lets any number of rows go takes O(log n) combines."""
    window = kind(agg.count(), policy=policies.at_most_duration(10**6), count_combines=True)
    for gone in (1, 5, 100, 900, 2000):
        window.bulk_evict(10**9)
        now = int(window.youngest or 0)
        window.bulk_insert(range(now + 1, now + 2001), None)
        before = window.combines
        window.insert(now + 10**6 + gone, None)
        assert len(window) == 2001 - gone
        assert window.combines - before <= 8 * 11 + 8


@pytest.mark.parametrize("kind", TREES)
def test_any_range_is_logarithmic(kind: Any) -> None:
    window = kind(agg.sum("v"), count_combines=True)
    window.bulk_insert(range(3000), range(3000))
    window.bulk_evict(699)
    for lo, hi in [(700, 2999), (701, 2998), (1023, 1025), (1000, 1000), (1500, 2900)]:
        before = window.combines
        assert window.range_query(lo, hi) == sum(range(lo, hi + 1))
        assert window.combines - before <= 2 * 12


@pytest.mark.parametrize("kind", TREES)
def test_a_failing_combine_changes_nothing(kind: Any) -> None:
    @agg.define(state="object", result="object")
    class picky:
        def lift(v):
            return v

        def combine(a, b):
            if 99 in (a, b):
                raise ValueError("no 99")
            return max(a, b)

    for policy in (None, policies.at_most_rows(10)):
        for size in range(1, 40):
            window = kind(picky("v"), policy=policy)
            window.bulk_insert(range(size), range(size))
            before = len(window), window.query()
            with pytest.raises(ValueError, match="no 99"):
                window.bulk_insert(range(size, size + 9), [1, 2, 3, 4, 99, 5, 6, 7, 8])
            assert (len(window), window.query()) == before
            window.check()
            window.bulk_insert(range(size, size + 5), [50] * 5)
            assert window.query() == 50
            window.check()


@pytest.mark.parametrize("kind", TREES)
def test_check_finds_a_wrong_node(kind: Any) -> None:
    window = kind(agg.sum("v"), dtype="f8", compiled=False)
    window.bulk_insert(range(20), np.arange(20.0))
    window.check()
    cells = window._window.slots
    cells["p0_total"][spots(len(cells), 1, 3)] += 1
    with pytest.raises(InvariantError, match="node 3 of level 1"):
        window.check()


def test_check_finds_wrong_results() -> None:
    window: Any = aggregators.MonoidTree(agg.sum("v"), dtype="f8", compiled=False)
    for place, message in ((0, "first result"), (1, "second result"), (2, "place 0 of the stack")):
        window.bulk_evict(99)
        window.bulk_insert(range(20), np.arange(20.0))
        window.check()
        window._window.results["p0_total"][place] += 1
        with pytest.raises(InvariantError, match=message):
            window.check()
    window._marks[4] += 1
    with pytest.raises(InvariantError, match="leftmost tree"):
        window.check()


@pytest.mark.parametrize("kind", TREES)
def test_memory_follows_the_window(kind: Any) -> None:
    window = kind(agg.max("v"), dtype="f8", nullable=False, compiled=False)
    window.bulk_insert(range(1000), np.zeros(1000))
    held = sum(array.nbytes for array in window._window)
    for t in range(1000, 6000):
        window.insert(t, 1.0)
        window.evict()
    assert sum(array.nbytes for array in window._window) <= 2 * held
    state = window._binding.dtype.itemsize
    assert held <= 1024 * window.spare * (2 * state + 8) + 3000
