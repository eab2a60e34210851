"""The two threads of Boundary over arrays: their steps in orders that a schedule decides, and real threads at speed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sampling import examples
from waiting import PATIENCE

from muntin import agg, aggregators, slide
from muntin.aggregations import binding
from muntin.arrays import runner
from muntin.kernels import cache
from muntin.kernels.generate import Generated

STEPS = ("load", "store", "publish", "published")
"""What a thread does before which the other one may come in between."""
PARTS = ("turn_blocks", "merge_blocks", "turn_windows", "merge_windows")


class Schedule:
    """Lets one of two threads go on at a time, and decides at each step which one."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._switches = self._chance.choice([0.03, 0.2, 0.5, 0.9])
        self._changed = threading.Condition()
        self._threads: list[int] = []
        """Those that have begun, the one whose turn it is first."""
        self._begun = 0
        self.steps = 0

    def run(self, part: Callable[..., Any]) -> Callable[..., Any]:
        """Return one of the two parts, under this schedule."""

        def scheduled(*arguments: Any) -> Any:
            with self._changed:
                # The order does not depend on which one comes first: the one that is to turn begins.
                self._threads.insert(0 if part.__name__.startswith("turn") else len(self._threads), _me())
                self._begun += 1
                self._changed.notify_all()
                assert self._changed.wait_for(lambda: self._begun == 2 and self._threads[0] == _me(), PATIENCE)
            try:
                return part(*arguments)
            finally:
                with self._changed:
                    self._threads.remove(_me())
                    self._changed.notify_all()

        return scheduled

    def before(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step that the other thread may come before."""

        def scheduled(*arguments: Any) -> Any:
            with self._changed:
                if _me() in self._threads:  # else a kernel of the calling thread alone
                    self.steps += 1
                    if self._chance.random() < self._switches:
                        self._threads.reverse()
                        self._changed.notify_all()
                    assert self._changed.wait_for(lambda: self._threads[0] == _me(), PATIENCE)
            return step(*arguments)

        return scheduled


def _me() -> int:
    return threading.get_ident()


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Schedule]:
    """Have all plain kernels loaded from now on follow a schedule."""

    def follow(seed: int) -> Schedule:
        schedule = Schedule(seed)

        def load(generated: Generated, *, compiled: bool) -> ModuleType:
            assert not compiled
            module = cache.load_fresh(generated)
            for name in STEPS:
                setattr(module, name, schedule.before(getattr(module, name)))
            for name in set(PARTS) & vars(module).keys():
                setattr(module, name, schedule.run(getattr(module, name)))
            return module

        monkeypatch.setattr(cache, "load", load)
        monkeypatch.setattr(binding, "_bindings", {})
        monkeypatch.setattr(runner, "_known_bindings", {})
        return schedule

    return follow


def sums(values: Any, windows: dict[str, int], **options: Any) -> list[Any]:
    return np.ma.getdata(slide(values, agg.sum("v"), **windows, **options)).tolist()


@pytest.mark.parametrize("seed", range(examples(90)))
def test_every_order_of_steps_gives_the_same(seed: int, scheduled: Callable[[int], Schedule]) -> None:
    chance = random.Random(seed)
    width = chance.randint(2, 7)
    windows = {"range": width, "slide": min(chance.choice([1, 1, 2, 3]), width)}
    values = np.array([chance.randrange(1000) for _ in range(chance.randint(20, 60))])
    expected = sums(values, windows, aggregator="recalculate")
    schedule = scheduled(seed)
    assert sums(values, windows, aggregator="boundary", threads=2) == expected
    assert schedule.steps > 0


@pytest.mark.compiled
@pytest.mark.parametrize("step", [1, 2])
def test_real_threads_at_speed(step: int) -> None:
    """Chunks of a few rows, a million hand-overs in all: one in the wrong order shows within some of them."""
    values = np.random.default_rng(step).integers(0, 1000, 200_000)
    for width in (2, 3, 5, 16, 65):
        windows = {"range": width, "slide": step}
        expected = slide(values, agg.sum("v"), aggregator="two_stacks", **windows)
        for _ in range(6):
            found = slide(values, agg.sum("v"), aggregator="boundary", threads=2, **windows)
            assert np.array_equal(np.ma.getdata(found), np.ma.getdata(expected))


@pytest.mark.compiled
def test_the_second_thread_of_a_window_at_speed() -> None:
    values = np.random.default_rng(3).integers(0, 1000, 40_000)
    window, alone = (aggregators.Boundary(agg.max("v"), threads=threads) for threads in (2, 1))
    for begin in range(0, len(values), 40):
        for each in (window, alone):
            each.bulk_insert(np.arange(begin, begin + 40), values[begin : begin + 40])
            each.bulk_evict(begin - 200)
            for _ in range(3):
                each.evict()
        assert window.query() == alone.query()
    window.check()
