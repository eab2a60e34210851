"""`Query.stream` against the oracle, call by call, by every strategy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.streams import FORCED, Clock, Stream
from queries.strategies import KINDS, Push, Tick

from muntin.aggregators.states import close
from muntin.kernels.cache import uncompiled


def place(result: oracle.Result) -> str:
    r = result
    return repr((r.key, r.window_id, r.start, r.end, r.rows, r.values, r.revision, r.retracted))


def listed(value: Any) -> Any:
    return [listed(each) for each in value] if isinstance(value, list | tuple) else value


def same(ours: list[oracle.Result], theirs: list[oracle.Result]) -> bool:
    """Say whether results agree, in whatever order; floats nearly."""

    def order(result: oracle.Result) -> tuple[str, str]:
        return place(result), repr(listed(list(result.aggregates.values())))

    ours, theirs = sorted(ours, key=order), sorted(theirs, key=order)
    if [place(each) for each in ours] != [place(each) for each in theirs]:
        return False
    pairs = zip(ours, theirs, strict=True)
    return all(
        close(listed(list(a.aggregates.values())), listed(list(b.aggregates.values())), 1e-7, 1e-7) for a, b in pairs
    )


def play(query: oracle.Query, rows: list[dict[str, Any]], steps: list[Any], strategy: str, restarts: Any) -> None:
    """Play steps to the oracle and to a stream; they must say the same after each."""
    clock = Clock()
    truth, ours = oracle.Stream(query, clock), Stream(query, rows, clock, strategy=strategy)
    for number, step in enumerate([*steps, None]):
        if step is None:
            said = ours.close(), truth.close()
        elif isinstance(step, Push):
            said = ours.push(step.rows), truth.push(step.rows)
        elif isinstance(step, Tick):
            clock.now += step.by
            said = (ours.tick(), truth.tick()) if step.asked else ([], [])
        else:
            said = ours.advance(step.watermark), truth.advance(step.watermark)
        assert same(*said), f"step {number}, {step}\nours  {said[0]}\ntruth {said[1]}"
        assert ours.late == truth.late, f"step {number}, {step}"
        ours.stream.check()
        if number in restarts:
            ours.restart()


@pytest.mark.parametrize("strategy", FORCED[1:])
@pytest.mark.parametrize("kind", [*KINDS, "several"])
@given(data=st.data())
@settings(max_examples=60)
def test_random_queries(kind: str, strategy: str, data: st.DataObject) -> None:
    """Uncompiled, since each set of aggregates would be compiled anew; the transcripts are run compiled."""
    chosen = strategies.ANY_KIND if kind == "several" else st.just(kind)
    query = data.draw(strategies.queries(chosen))
    table = data.draw(strategies.tables())
    disordered = data.draw(
        st.one_of(strategies.disordered(table, query.delay + query.lateness), st.permutations(table))
    )
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(disordered))))
    restarts = data.draw(st.sets(st.integers(0, len(steps))))
    with uncompiled():
        play(query, table, steps, strategy, restarts)


@pytest.mark.parametrize("strategy", FORCED[1:])
@given(data=st.data())
@settings(max_examples=200)
def test_early_and_idle(strategy: str, data: st.DataObject) -> None:
    query = data.draw(strategies.queries())
    query = replace(query, emit_early=data.draw(strategies.EARLY), idle_timeout=data.draw(strategies.IDLE))
    table = data.draw(strategies.tables())
    disordered = data.draw(strategies.disordered(table, query.delay + query.lateness))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(disordered))))
    timed = data.draw(strategies.ticks(steps))
    restarts = data.draw(st.sets(st.integers(0, len(timed)), max_size=3))
    with uncompiled():
        play(query, table, timed, strategy, restarts)
