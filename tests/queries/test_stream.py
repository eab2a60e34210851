"""`Query.stream` against the oracle, call by call, by every strategy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.strategies import KINDS, Push, Tick
from queries.streams import Clock, Stream, answering, asked
from sampling import examples

from muntin import agg, window
from muntin.aggregators.states import close
from muntin.kernels.cache import uncompiled
from muntin.windows.kinds.punctuated import Punctuated


def place(result: oracle.Result) -> str:
    r = result
    return repr((r.key, r.window_id, r.start, r.end, r.rows, r.values, r.at, r.revision, r.retracted))


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


def any_strategy(query: oracle.Query) -> Any:
    """Return the strategies that can answer a query."""
    return st.sampled_from(answering(query)[1:])


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


@pytest.mark.parametrize("kind", [*KINDS, "several"])
@given(data=st.data())
@settings(max_examples=examples(25))
def test_random_queries(kind: str, data: st.DataObject) -> None:
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
        play(query, table, steps, data.draw(any_strategy(query)), restarts)


@given(data=st.data())
@settings(max_examples=examples(100))
def test_early_and_idle(data: st.DataObject) -> None:
    query = data.draw(strategies.queries())
    query = replace(query, emit_early=data.draw(strategies.EARLY), idle_timeout=data.draw(strategies.IDLE))
    table = data.draw(strategies.tables())
    disordered = data.draw(strategies.disordered(table, query.delay + query.lateness))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(disordered))))
    timed = data.draw(strategies.ticks(steps))
    restarts = data.draw(st.sets(st.integers(0, len(timed)), max_size=3))
    with uncompiled():
        play(query, table, timed, data.draw(any_strategy(query)), restarts)


@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_last_word_is_what_run_says(data: st.DataObject) -> None:
    """However rows are cut and disordered, as long as none comes after the lateness."""
    query = data.draw(strategies.queries())
    table = data.draw(strategies.tables())
    slack = query.delay + max(0, query.lateness - 1)  # exactly at the lateness is too late
    stream = Stream(query, table, strategy=data.draw(any_strategy(query)))
    with uncompiled():
        emitted = []
        for push in data.draw(strategies.cuts(data.draw(strategies.disordered(table, slack)))):
            emitted += stream.push(push.rows)
        emitted += stream.close()
        final = stream.results(asked(query).run(stream.table(table))) if table else []
    # Of rows of equal time these give windows of equal names.
    alike = [i for i, each in enumerate(query.windows) if each.each_row or isinstance(each, Punctuated)]
    last = [each for each in oracle.latest(query, emitted) if each.window_id not in alike]
    assert same(last, [each for each in final if each.window_id not in alike])


@given(data=st.data())
@settings(max_examples=examples(40))
def test_every_row_is_in_a_window_or_late(data: st.DataObject) -> None:
    query = data.draw(strategies.queries(st.sampled_from(["tumbling", "session"]), 1))
    query = replace(query, windows=query.windows[:1], aggregates={"n": agg.count()})
    table = data.draw(strategies.tables())
    stream = Stream(query, table, strategy=data.draw(any_strategy(query)))
    with uncompiled():
        emitted = []
        for step in data.draw(strategies.advances(data.draw(strategies.cuts(data.draw(st.permutations(table)))))):
            emitted += stream.push(step.rows) if isinstance(step, Push) else stream.advance(step.watermark)
        emitted += stream.close()
    counted = sum(each.aggregates["n"] for each in oracle.latest(query, emitted))
    assert counted + len(stream.late) == len(table)
    assert stream.stream.metrics()["dropped"] == len(stream.late)


@given(data=st.data())
@settings(max_examples=examples(40))
def test_a_window_that_comes_later_is_complete_if_nothing_was_let_go(data: st.DataObject) -> None:
    """The watermark is so far behind that all rows are still held when the second window comes."""
    query = replace(data.draw(strategies.queries()), watermark=10_000, emit_empty=False)
    table = data.draw(strategies.tables())
    cut = data.draw(st.integers(0, len(table)))
    later = data.draw(st.sampled_from(query.windows))
    stream = Stream(query, table, strategy=data.draw(any_strategy(query)))
    with uncompiled():
        stream.push(table[:cut])
        added = stream.stream.add(later)
        stream.push(table[cut:])
        answers = stream.close()
    complete = stream.stream.complete_from(added)
    if complete is not None:  # a strategy that holds no rows: only windows by time can be told from when they are
        assume(later.measure is window.Measure.TIME)
    of_both = []
    for window_id in (query.windows.index(later), added):
        mine = [replace(each, window_id=0) for each in answers if each.window_id == window_id]
        of_both.append([each for each in mine if complete is None or each.start >= complete])
    assert same(*of_both)
