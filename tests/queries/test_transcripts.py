"""Every transcript, played to every engine that can answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from gates import closed_gate
from queries import oracle, streams, transcript
from queries.transcript import Case
from sampling import some

CASES = transcript.load()

RUNNERS: dict[str, Any] = {"oracle": lambda query, rows, clock: oracle.Stream(query, clock)}
RUNNERS |= {name: partial(streams.Stream, strategy=name) for name in streams.FORCED}
"""What can play a transcript: made with a query, the rows to come and a clock, has push, advance, tick, close (each
returns `Result`s) and late."""


def in_any_order(results: list[Any]) -> list[str]:
    return sorted(map(repr, results))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_transcript(case: Case) -> None:
    for runner in RUNNERS:
        if runner in streams.answering(case.query):
            play(case, runner)


@pytest.mark.compiled
@pytest.mark.parametrize("case", some(CASES, 40), ids=str)
def test_kernels_are_compiled_in_the_middle_of_a_transcript(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = closed_gate(monkeypatch)

    def open_in_the_middle(step: int) -> None:
        gate.open = step >= len(case.steps) // 2

    play(case, "auto", before=open_in_the_middle)


def play(case: Case, runner: str, before: Callable[[int], None] = lambda step: None) -> None:
    clock = streams.Clock()
    stream = RUNNERS[runner](case.query, case.rows, clock)
    for number, step in enumerate(case.steps):
        before(number)
        known = len(stream.late)
        if step.action == "push":
            emitted = stream.push(step.rows)
        elif step.action == "advance":
            emitted = stream.advance(step.watermark)
        elif step.action == "tick":
            clock.now = step.watermark
            emitted = stream.tick()
        else:
            assert step.action == "close", f"line {step.line}: {step.action!r} is no step"
            emitted = stream.close()
        assert in_any_order(emitted) == in_any_order(step.emitted), f"{runner}, line {step.line}: {step.action}"
        assert stream.late[known:] == step.late, f"{runner}, line {step.line}: late rows"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_run_has_the_last_word(case: Case) -> None:
    """Where no row was behind the lateness, what a stream says last is what `run` says of all rows at once."""
    clock = streams.Clock()
    stream = oracle.Stream(case.query, clock)
    emitted, punctual = [], True
    for step in case.steps:
        clock.now = step.watermark if step.action == "tick" else clock.now
        punctual &= not any(stream.is_behind(row) for row in step.rows)
        if step.action == "push":
            emitted += stream.push(step.rows)
        elif step.action == "advance":
            emitted += stream.advance(step.watermark)
        else:
            emitted += stream.tick() if step.action == "tick" else stream.close()
    expected = oracle.complete_answer(**query_words(case.query), rows=case.rows)
    advanced = any(step.action in ("advance", "tick") for step in case.steps)
    if punctual and not (advanced and case.query.emit_empty):
        emitted += stream.close()
        assert in_any_order(oracle.latest(case.query, emitted)) == in_any_order(expected)
    else:
        assert case.steps[-1].action == "close" or advanced or stream.late, (
            f"{case} ends without a word on what is left"
        )


def query_words(query: oracle.Query) -> dict[str, Any]:
    names = ("windows", "aggregates", "key", "time", "partial", "emit_empty", "time_type")
    return {name: getattr(query, name) for name in names}


def test_there_are_enough() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
