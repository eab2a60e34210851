"""Both trees and every store, step by step against a deque that is folded from scratch, with concat."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sampling import examples

from muntin import agg, aggregators, stores
from muntin.testing.faults import Faulty

LETTERS = st.sampled_from("abcdefgh")
NAMES = (f"machine{n}" for n in itertools.count())


class Machine(RuleBasedStateMachine):
    """A window of letters, and a deque."""

    kind: Any = aggregators.MonoidTree
    store: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.name = next(NAMES)
        options = {} if self.store is None else {"store": self.store, "window_id": self.name, "chunk_pairs": 4}
        self.window = self.kind(agg.concat("v"), compiled=False, **options)
        self.rows: deque[tuple[int, str]] = deque()
        self.now = 0
        self.inserted = 0

    def teardown(self) -> None:
        self.window.check()
        if self.store is not None:
            self.window.close()

    @rule(pause=st.integers(0, 2), letter=LETTERS)
    def insert(self, pause: int, letter: str) -> None:
        self.now += pause
        self.window.insert(self.now, letter)
        self.rows.append((self.now, letter))
        self.inserted += 1

    @rule(letters=st.text("abcdefgh", max_size=90), pause=st.integers(0, 1))
    def bulk_insert(self, letters: str, pause: int) -> None:
        times = [self.now + (i + 1) * pause for i in range(len(letters))]
        self.window.bulk_insert(times, list(letters))
        self.rows.extend(zip(times, letters, strict=True))
        self.now = times[-1] if times else self.now
        self.inserted += len(letters)

    @rule(count=st.integers(1, 40))
    def evict(self, count: int) -> None:
        for _ in range(min(count, len(self.rows))):
            self.window.evict()
            self.rows.popleft()

    @rule(share=st.floats(0, 1))
    def bulk_evict(self, share: float) -> None:
        if self.rows:
            until = self.rows[int(share * (len(self.rows) - 1))][0]
            self.window.bulk_evict(until)
            while self.rows and self.rows[0][0] <= until:
                self.rows.popleft()

    @rule(lo=st.integers(0, 200), width=st.integers(0, 200))
    def range_query(self, lo: int, width: int) -> None:
        base = self.rows[0][0] if self.rows else 0
        inside = "".join(letter for time, letter in self.rows if base + lo <= time <= base + lo + width)
        assert (self.window.range_query(base + lo, base + lo + width) or "") == inside

    @precondition(lambda self: self.store is not None)
    @rule(whole=st.booleans())
    def reopen(self, whole: bool) -> None:
        if whole:
            self.window.close()
        else:
            self.window.flush()
            self.window.close(flush=False)
        self.window = aggregators.MonoidTree.open(self.store, self.name, agg.concat("v"), compiled=False)
        assert self.window.updates == self.inserted

    @precondition(lambda self: self.store is not None)
    @rule()
    def flush(self) -> None:
        self.window.flush()

    @precondition(lambda self: self.store is None)
    @rule()
    def reload(self) -> None:
        self.window = self.kind.restore(self.window.snapshot(), agg.concat("v"), compiled=False)

    @invariant()
    def agrees(self) -> None:
        assert len(self.window) == len(self.rows)
        assert (self.window.query() or "") == "".join(letter for _, letter in self.rows)
        assert self.window.oldest == (self.rows[0][0] if self.rows else None)
        assert self.window.youngest == (self.rows[-1][0] if self.rows else None)

    @precondition(lambda self: self.store is None)
    @invariant()
    def holds(self) -> None:
        self.window.check()


def run(kind: Any, store: Any, count: int, steps: int) -> None:
    machine = type("Machine", (Machine,), {"kind": kind, "store": store})
    relaxed = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(count), stateful_step_count=steps, deadline=None, suppress_health_check=relaxed
        ),
    )


@pytest.mark.parametrize("kind", [aggregators.LogMonoidTree, aggregators.MonoidTree])
def test_trees_in_memory(kind: Any) -> None:
    run(kind, None, count=40, steps=25)


def test_trees_in_stores(store: stores.Store) -> None:
    run(aggregators.MonoidTree, store, count=20 if isinstance(store, stores.Memory | Faulty) else 12, steps=25)
