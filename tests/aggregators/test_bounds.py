"""Work bounds, counted in combines: what each structure promises, over every size and against adversarial patterns."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from muntin import agg, aggregators

pytestmark = pytest.mark.slow
INSERT, EVICT, QUERY = "insert", "evict", "query"


def fill_and_drain(size: int) -> list[str]:
    return ([INSERT] * size + [EVICT] * size) * 2


def one_by_one(size: int) -> list[str]:
    return [INSERT] * size + [EVICT, INSERT] * (2 * size) + [EVICT] * size


def oscillate(size: int) -> list[str]:
    steps = [INSERT] * size
    for swing in range(1, size, max(1, size // 7)):
        steps += [EVICT] * swing + [INSERT] * swing
    return steps + [EVICT] * size


def saw(size: int) -> list[str]:
    return [INSERT, INSERT, EVICT] * size + [EVICT] * size


class Counted:
    """Runs steps and says what each cost."""

    def __init__(self, kind: Any) -> None:
        self.window = kind(agg.concat("v"), count_combines=True)
        self.now = 0

    def step(self, name: str) -> int:
        before = self.window.combines
        if name == INSERT:
            self.now += 1
            self.window.insert(self.now, "x")
        elif name == EVICT:
            self.window.evict()
        else:
            self.window.query()
        return int(self.window.combines - before)


@pytest.mark.parametrize("pattern", [fill_and_drain, one_by_one, oscillate, saw])
def test_daba_is_constant_in_the_worst_case(pattern: Callable[[int], list[str]]) -> None:
    """Three combines an insert, two an eviction, one a query: for sizes up to 300, and never more."""
    worst = {INSERT: 0, EVICT: 0, QUERY: 0}
    for size in (*range(1, 60, 1 if pattern is saw else 7), *range(60, 301, 60)):
        counted = Counted(aggregators.Daba)
        for name in pattern(size):
            worst[name] = max(worst[name], counted.step(name))
            worst[QUERY] = max(worst[QUERY], counted.step(QUERY))
    assert worst[INSERT] <= 3
    assert worst[EVICT] <= 2
    assert worst[QUERY] <= 1


@pytest.mark.parametrize("name", ["max", "sum"])
def test_slick_deque_takes_fewer_than_two_a_slide(name: str) -> None:
    chance = random.Random(name)
    window = aggregators.SlickDeque(getattr(agg, name)("v"), count_combines=True)
    window.bulk_insert(range(100), [chance.randint(0, 999) for _ in range(100)])
    before, slides = window.combines, 2000
    for i in range(slides):
        window.insert(100 + i, chance.randint(0, 999))
        window.evict()
        window.query()
    assert window.combines - before <= 2 * slides


@pytest.mark.parametrize("kind", [aggregators.TwoStacks, aggregators.FlatFit])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 300])
def test_three_combines_a_slide_amortised(kind: Any, size: int) -> None:
    counted = Counted(kind)
    for _ in range(size):
        counted.step(INSERT)
    slides = 10 * size
    spent = sum(counted.step(name) for _ in range(slides) for name in (INSERT, EVICT, QUERY))
    assert spent <= 3 * slides + size, "the size is what had gathered before the first query"
