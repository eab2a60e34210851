"""Every transcript, played to the parts of the pipeline; a sample of them is played to Spark in test_on_spark."""

from __future__ import annotations

from typing import Any

import pytest
from queries import streams, transcript
from queries.transcript import Case
from spark.model import Expected, Machine, as_spark_has_it

from muntin.engines.spark import memory

CASES = transcript.load()


def in_any_order(results: list[Any]) -> list[str]:
    return sorted(map(repr, results))


@pytest.mark.parametrize("forgetful", [False, True], ids=["remembered", "reread"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transcript(case: Case, forgetful: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch answers what the oracle does that is told the same watermark."""
    monkeypatch.setattr("muntin.engines.spark.bucket.MEMORY", memory.Memory(0 if forgetful else 1 << 20))
    query, batches = as_spark_has_it(case.query, [step.rows for step in case.steps])
    schema = streams.Stream(query, [row for batch in batches for row in batch]).schema
    machine, expected = Machine(query, schema), Expected(query)
    for step, rows in zip(case.steps, batches, strict=True):
        if step.action == "advance":
            machine.tell(step.watermark)
        now, known, late = machine.ticks(), len(machine.lost), len(expected.stream.late)
        emitted = machine.batch(rows)
        assert in_any_order(emitted) == in_any_order(expected.batch(rows, now)), f"line {step.line}"
        assert in_any_order(machine.lost[known:]) == in_any_order(expected.stream.late[late:]), (
            f"line {step.line}: late"
        )
    assert in_any_order(machine.batch([])) == in_any_order(expected.batch([], machine.ticks()))


def test_state_is_let_go() -> None:
    """A bucket of which nothing is kept has no state and no timer."""
    (case,) = [case for case in CASES if case.name == "time: tumbling, in order"]
    query, batches = as_spark_has_it(case.query, [step.rows for step in case.steps])
    schema = streams.Stream(query, [row for batch in batches for row in batch]).schema
    machine = Machine(query, schema)
    for rows in batches:
        machine.batch(rows)
    assert machine.held
    machine.tell(10**6)
    machine.batch([])
    assert not machine.held
    assert not any(machine.store.timers.values())
