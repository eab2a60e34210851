"""What Fiba promises, counted in combines, with the constants stated.

With minimal arity a, n times in the window, m in a bulk, d of them after an insertion:

    a query                                          at most 2
    an insert in order, an eviction and a query      at most 10, amortised, whatever a and n are
    an insert at distance d and an eviction          at most 3 a (2 + log_a d), amortised
    a bulk eviction (the paper's Theorem 1)          at most 4 a (1 + log_a m), amortised
    a bulk insertion (Theorem 4)                     at most 6 (log d + m (1 + log(d / m))), amortised, logarithms to 2
    any single operation, and any bulk eviction      at most 8 a log_a n, in the worst case
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from sampling import THOROUGH, some

from muntin import agg, aggregators

pytestmark = pytest.mark.slow
ARITIES = some((2, 4, 8, 16), 3)
"""The least and the greatest: a bound in which the arity is a factor fails at one of them, if anywhere."""
ROWS = 1600


def window_of(arity: int, rows: int = ROWS, gap: int = 1 << 32) -> Any:
    window = aggregators.Fiba(agg.max("v"), min_arity=arity, dtype="i8", nullable=False, count_combines=True)
    window.bulk_insert([time * gap for time in range(rows)], [1] * rows)
    return window


def cost(window: Any, name: str, *arguments: Any) -> int:
    before = window.combines
    getattr(window, name)(*arguments)
    return int(window.combines - before)


def ceiling(arity: int, rows: int) -> float:
    """Return the worst that any operation but a bulk insertion may cost."""
    return 8 * arity * max(1.0, math.log(rows, arity))


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.parametrize("rows", [1, 10, 100, 1000])
def test_in_order(arity: int, rows: int) -> None:
    window = window_of(arity, rows, 1)
    spent = 0
    slides = max(200, rows + rows // 4)
    for now in range(rows, rows + slides):
        step = [cost(window, "insert", now, 1), cost(window, "evict"), cost(window, "query")]
        assert step[2] <= 2
        assert max(step) <= ceiling(arity, rows + 1)
        spent += sum(step)
    assert spent <= 10 * slides


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.parametrize("distance", [10, 100, 1000])
def test_out_of_order(arity: int, distance: int) -> None:
    chance = random.Random(distance)
    window = window_of(arity)
    spent = 0
    for _ in range(300):
        near = window.nth(len(window) - 1 - chance.randrange(distance))
        step = [cost(window, "insert", near + 1 + chance.randrange(1 << 20), 1), cost(window, "evict")]
        assert max(step) <= ceiling(arity, ROWS)
        spent += sum(step)
    assert spent <= 300 * 3 * arity * (2 + math.log(distance, arity))


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.parametrize("bulk", [1, 8, 64, 512])
def test_bulk_evict(arity: int, bulk: int) -> None:
    window = window_of(arity, ROWS, 1)
    now, spent, times = ROWS, 0, max(5, 1000 // bulk)
    for _ in range(times):
        window.bulk_insert(range(now, now + bulk), [1] * bulk)
        now += bulk
        step = cost(window, "bulk_evict", window.nth(bulk - 1))
        assert step <= ceiling(arity, ROWS + bulk)
        spent += step
    assert spent <= times * 4 * arity * (1 + math.log(bulk, arity))


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.parametrize(("distance", "bulk"), [(0, 64), (64, 64), (1024, 64), (1500, 500), (1500, 8)])
def test_bulk_insert(arity: int, distance: int, bulk: int) -> None:
    chance = random.Random(bulk)
    window = window_of(arity)
    spent, times = 0, max(5, 1000 // bulk)
    for _ in range(times):
        begin = window.nth(len(window) - 1 - distance)
        end = begin + bulk * (1 << 32) if distance == 0 else window.youngest
        spent += cost(window, "bulk_insert", [chance.randrange(begin, end) for _ in range(bulk)], [1] * bulk)
        window.bulk_evict(window.nth(bulk - 1))
    bound = math.log2(distance + 2) + bulk * (1 + math.log2(max(1.0, distance / bulk)))
    assert spent <= times * 6 * bound


def test_many_rows_in_and_out() -> None:
    """Bulks of every size, in order and not: what all of them cost together stays below the sum of their bounds."""
    chance = random.Random(9)
    arity = 4
    window = window_of(arity, 3000)
    bound, before, moved = 0.0, window.combines, 0
    while moved < 30_000 * THOROUGH:
        bulk = int(2 ** chance.uniform(0, 12))
        distance = min(len(window) - 1, chance.choice([0, 0, 0, bulk, 8 * bulk]))
        begin = window.nth(len(window) - 1 - distance) + 1
        window.bulk_insert([begin + chance.randrange((distance + bulk) << 32) for _ in range(bulk)], [1] * bulk)
        bound += 6 * (math.log2(distance + 2) + bulk * (1 + math.log2(max(1.0, distance / bulk))))
        leaving = min(len(window) - 2, int(2 ** chance.uniform(0, 12)) if len(window) > 3000 else 1)
        window.bulk_evict(window.nth(leaving - 1))
        bound += 4 * arity * (1 + math.log(leaving, arity))
        moved += bulk + leaving
    assert window.combines - before <= bound
    window.check()


@pytest.mark.parametrize("arity", ARITIES)
def test_one_bulk_evict_costs_no_more_for_more_rows(arity: int) -> None:
    """From a tenth of the window to nearly all of it: what is evicted is not looked at."""
    for share in (0.1, 0.5, 0.9, 0.999):
        window = window_of(arity, 1000, 1)
        assert cost(window, "bulk_evict", int(1000 * share)) <= ceiling(arity, 1000)
    window = window_of(arity, 1000, 1)
    assert cost(window, "bulk_evict", 10**9) == 0


@pytest.mark.parametrize("arity", ARITIES)
def test_ranges_and_single_evictions_in_the_middle(arity: int) -> None:
    chance = random.Random(arity)
    window = window_of(arity, 1500, 1)
    for _ in range(300):
        low = chance.randrange(1500)
        assert cost(window, "range_query", low, low + chance.randrange(1500)) <= ceiling(arity, 1500)
        assert cost(window, "evict_at", window.nth(chance.randrange(len(window)))) <= ceiling(arity, 1500)


@pytest.mark.parametrize("arity", ARITIES)
def test_many_ranges(arity: int) -> None:
    """Each takes what it takes alone, whatever its length."""
    window = window_of(arity, gap=1)
    lows = [chance * 37 % ROWS for chance in range(50)]
    highs = [low + low * 7 % ROWS for low in lows]
    alone = [cost(window, "range_query", *bounds) for bounds in zip(lows, highs, strict=True)]
    assert max(alone) <= ceiling(arity, ROWS)
    assert cost(window, "range_queries", lows, highs) == sum(alone)
