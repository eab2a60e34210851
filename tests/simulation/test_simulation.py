"""Pipelines that fail at any moment say what the oracle does: a hundred in each run, any number by `make soak`."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from sampling import examples
from simulation.faults import dying_compiler
from simulation.pipeline import DEATH, IN_A_CHECKPOINT, IN_A_STEP, Pipeline
from waiting import until

from muntin.errors import MuntinError
from muntin.restoring import all_or_nothing

LIVES, PARTS = examples(200), 5
SEED = int(os.environ.get("MUNTIN_SEED", "") or 1)
"""`MUNTIN_SEED=n` begins with another pipeline; a failure names the one to begin with."""


@pytest.mark.parametrize("part", range(PARTS))
def test_every_answer_is_right_whatever_happens(part: int) -> None:
    faults: Counter[str] = Counter()
    for seed in range(SEED + part, SEED + LIVES, PARTS):
        pipeline = Pipeline(seed)
        try:
            pipeline.run()
        except Exception as error:
            error.add_note(f"MUNTIN_SEED={seed}")
            raise
        faults += pipeline.faults
    if LIVES >= 100:
        assert set(faults) == {DEATH, *(fault or "none" for fault in IN_A_STEP + IN_A_CHECKPOINT)}


def test_a_call_that_is_not_taken_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: Any, *_: Any) -> bool:
        if self._owner is not None:
            self._owner._halfway = False
        return False

    monkeypatch.setattr(all_or_nothing, "__exit__", end)
    with pytest.raises((AssertionError, MuntinError)):  # a wrong answer, or a state that contradicts itself
        live(200)


def test_a_compiler_that_dies_is_asked_and_started_again() -> None:
    with dying_compiler(1) as compiler:
        Pipeline(1).run()
        until(lambda: compiler.starts > 1)


def live(count: int) -> None:
    for seed in range(1, 1 + count):
        Pipeline(seed).run()
