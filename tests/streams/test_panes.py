"""Slices by time: the same answers, snapshots and late rows as by key, whatever comes, and a layout that suits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from cases import CASES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import strategies
from queries.streams import plain
from queries.test_stream import play
from sampling import examples, some
from streams.test_stacks import COMMUTING, composed, pushes

from muntin import Query, agg, window
from muntin.aggregators.states import close, counting
from muntin.errors import AggregationOverflowError, InvariantError
from muntin.streams.driven import DrivenStream
from muntin.streams.slices import pane_set
from muntin.streams.slices.pane_set import PaneSet
from muntin.streams.slices.panes import PANES

ALWAYS = 10**9


def layout(full: int = ALWAYS, sparse: int = ALWAYS) -> Any:
    """Lay out slices by time for few keys too, and at once; by default however few slices there are."""
    return patch.multiple(pane_set, MANY_KEYS=0, PATIENCE=-ALWAYS, FULL=full, SPARSE=sparse)


def set_of(stream: Any) -> PaneSet:
    (found,) = stream._state.resolved.strategies[0].sets
    assert isinstance(found, PaneSet)
    return found


def same(query: Query, tables: list[pa.Table], restarts: int = 0) -> tuple[int, int]:
    """Push to three streams: by time, the same restarted now and then, by key; return how often it was by time."""
    ours, again, theirs = query.stream(), query.stream(), query.stream(merge="lazy")
    by_time = by_key = 0
    for i, table in enumerate(tables):
        expected = theirs.push(table).to_pylist()
        assert ours.push(table).to_pylist() == expected
        assert again.push(table).to_pylist() == expected
        assert ours.late.equals(theirs.late)
        ours.check()
        assert_saves_alike(ours, theirs)
        by_time, by_key = by_time + (not set_of(ours).is_by_key), by_key + set_of(ours).is_by_key
        if restarts and i % restarts == 0:
            again = query.stream(again.snapshot())
    assert ours.close().to_pylist() == theirs.close().to_pylist() == again.close().to_pylist()
    return by_time, by_key


def assert_saves_alike(ours: Any, theirs: Any) -> None:
    """Compare the slices, all of their arrays in all their order: a snapshot does not tell the layout."""
    saved, expected = (each._state.resolved.strategies[0].save() for each in (ours, theirs))
    assert list(saved) == list(expected)
    for name, array in saved.items():
        assert array.dtype == expected[name].dtype
        assert array.tolist() == expected[name].tolist(), name


SHAPES = st.sampled_from([(8, 1, 0), (60, 1, 0), (33, 3, 2), (20, 2, -5), (5, 5, 1)])


@given(st.integers(0, 2**32), SHAPES, st.sampled_from([(ALWAYS, ALWAYS), (2, 4), (3, 3), (6, 40)]))
@settings(max_examples=examples(60))
def test_by_time_answers_what_by_key_answers(seed: int, shape: tuple[int, int, int], density: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    windows = window.sliding(shape[0], every=shape[1], offset=shape[2])
    query = Query(windows, COMMUTING, key="k", time="t", watermark=int(rng.integers(0, 4)))
    tables = pushes(rng, 14, 6, int(rng.choice([0, 4, 15, 70])), keys=int(rng.choice([1, 3, 12])))
    with layout(*density):
        by_time, _ = same(query, tables, restarts=5)
    assert by_time or density[0] < ALWAYS


@given(st.integers(0, 2**32), SHAPES)
@settings(max_examples=examples(20))
def test_states_are_combined_in_the_order_of_time(seed: int, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(seed)
    windows = window.sliding(shape[0], every=shape[1], offset=shape[2])
    query = Query(windows, {"composed": composed("v")}, key="k", time="t", ordered=True)
    rows = pa.table({"t": np.sort(rng.integers(0, 150, 80)), "k": rng.integers(0, 3, 80), "v": np.arange(80)})
    with layout():
        same(query, [rows.slice(begin, 7) for begin in range(0, 80, 7)], restarts=5)


@given(data=st.data())
@settings(max_examples=examples(120))
def test_random_queries_against_the_oracle(data: st.DataObject) -> None:
    query = data.draw(strategies.queries(st.sampled_from(["sliding", "tumbling"]), 1))
    query = replace(query, allowed_lateness=0, emit_empty=False)
    table = data.draw(strategies.tables())
    disordered = data.draw(st.one_of(strategies.disordered(table, query.delay), st.permutations(table)))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(disordered))))
    restarts = data.draw(st.sets(st.integers(0, len(steps)), max_size=2))
    with layout(*data.draw(st.sampled_from([(ALWAYS, ALWAYS), (2, 4)]))):
        play(query, table, steps, "slices", restarts)


@pytest.mark.parametrize("case", some(CASES, 2), ids=str)
@given(data=st.data())
@settings(max_examples=examples(3))
def test_every_aggregation(case: Case, data: st.DataObject) -> None:
    """Those whose states have no fixed size, or that can fail, stay by key."""
    rows = data.draw(st.lists(case.nullable, min_size=8, max_size=8 if case.costly else 20))
    names = list(case.aggregation.reads)
    columns = {name: [row and (row[i] if len(names) > 1 else row) for row in rows] for i, name in enumerate(names)}
    count = len(rows)
    table = pa.table({"t": np.arange(count), "k": np.arange(count) % 2, **columns})
    query = Query(window.sliding(8, every=2), {"answer": case.aggregation}, key="k", time="t")
    with layout():
        ours, theirs = query.stream(strategy="slices"), query.stream(strategy="slices", merge="lazy")
        for begin in range(0, count, 3):
            one, other = (plain(stream.push(table.slice(begin, 3)).to_pylist()) for stream in (ours, theirs))
            assert close(one, other, 1e-7, 1e-7)
            ours.check()
        fixed = ours._state.resolved.strategies[0].sets[0]
        if isinstance(fixed, PaneSet):
            assert not fixed.is_by_key


def crowd(rng: np.random.Generator, second: int, keys: int) -> pa.Table:
    """Return rows of one second: of most keys one or more."""
    chosen = np.concatenate((rng.permutation(keys)[: keys * 3 // 4], rng.integers(0, keys, keys // 4)))
    rng.shuffle(chosen)
    times = 10 * second + np.sort(rng.integers(0, 10, len(chosen)))
    return pa.table({"t": times, "k": chosen * 7919, "v": rng.integers(0, 1000, len(chosen))})


@pytest.mark.compiled
def test_many_keys_are_laid_out_by_time_once_their_windows_are_full() -> None:
    """With the constants that users have, compiled, and with a state that holds an array."""
    rng = np.random.default_rng(4)
    aggregates = {"total": agg.sum("v"), "distinct": agg.hyperloglog("v", 4)}
    query = Query(window.sliding(80, every=10), aggregates, key="k", time="t")
    ours, theirs = query.stream(), query.stream(merge="lazy")
    by_time = []
    for second in range(24):
        table = crowd(rng, second, 5_000)
        if second == 18:
            table = pa.concat_tables([table, table.slice(0, 500).set_column(0, "t", pa.array(np.full(500, 125)))])
        assert ours.push(table).equals(theirs.push(table))
        by_time.append(not set_of(ours).is_by_key)
    assert not any(by_time[:15])  # as many emissions as a window has slices, and some more
    assert all(by_time[16:])
    restored = query.stream(ours.snapshot())
    assert set_of(restored).is_by_key
    assert ours.close().equals(theirs.close())
    assert restored.close().num_rows > 5_000


@contextmanager
def dense(keys: int = 12, watermark: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield a stream by time, and one by key, both with full windows; constants for density are the usual ones."""
    query = Query(window.sliding(80, every=10), COMMUTING, key="k", time="t", watermark=watermark)
    rng = np.random.default_rng(1)
    with layout(pane_set.FULL, pane_set.SPARSE):
        ours, theirs = query.stream(), query.stream(merge="lazy")
        for second in range(15 + watermark // 10):
            table = crowd(rng, second, keys)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
        assert not set_of(ours).is_by_key
        yield ours, theirs


def test_few_keys_stay_by_key() -> None:
    query = Query(window.sliding(80, every=10), COMMUTING, key="k", time="t")
    rng = np.random.default_rng(1)
    stream = query.stream()
    for second in range(30):
        stream.push(crowd(rng, second, 12))
    assert set_of(stream).is_by_key


def test_a_row_far_ahead_lays_out_by_key() -> None:
    with dense(watermark=200) as (ours, theirs), patch.object(pane_set, "PATIENCE", ALWAYS):
        for time in (360, 440, 9_000):  # a little ahead there is room, or it is made
            row = pa.table({"t": [time, time], "k": [7919, -time], "v": [1, 2]})  # one of the keys is new
            assert ours.push(row).to_pylist() == theirs.push(row).to_pylist()
            assert set_of(ours).is_by_key == (time == 9_000)
            ours.check()
            assert_saves_alike(ours, theirs)
        assert ours.close().to_pylist() == theirs.close().to_pylist()


def test_more_panes_and_more_keys_take_more_room() -> None:
    with dense() as (ours, theirs):
        before = set_of(ours).panes
        assert before is not None
        rng = np.random.default_rng(2)
        for second in range(15, 40):
            table = crowd(rng, second, 12 + second)
            if second % 6 == 0:  # several windows end together
                table = pa.concat_tables([table, *(crowd(rng, second + i, 30) for i in range(1, 4))])
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
            ours.check()
            assert_saves_alike(ours, theirs)
        after = set_of(ours).panes
        assert after is not None
        assert after.width > before.width


@pytest.mark.parametrize("keys", [6, 40])
def test_tumbling_windows_end_while_the_next_ones_are_filled(keys: int) -> None:
    """The slices that are left when windows have ended are few, and say nothing of how many there will be."""
    query = Query(window.tumbling(100), COMMUTING, key="k", time="t")
    rng = np.random.default_rng(1)
    with layout(pane_set.FULL, pane_set.SPARSE):
        ours, theirs = query.stream(), query.stream(merge="lazy")
        for second in range(40):
            table = crowd(rng, second, keys)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
            ours.check()
            if second == 20:
                assert ours.advance(210).to_pylist() == theirs.advance(210).to_pylist()
            assert not set_of(ours).is_by_key
        assert ours.advance(1000).to_pylist() == theirs.advance(1000).to_pylist()
        assert not len(set_of(ours).held())
        ours.advance(2000)
        assert set_of(ours).is_by_key


def test_sparse_rows_are_laid_out_by_key() -> None:
    with dense() as (ours, theirs):
        for second in range(15, 30):
            row = pa.table({"t": [10 * second], "k": [7919], "v": [second]})
            assert ours.push(row).to_pylist() == theirs.push(row).to_pylist()
            ours.check()
        assert set_of(ours).is_by_key


@pytest.mark.parametrize("length", [15, 20])
def test_definitions_come_and_go(length: int) -> None:
    with dense() as (ours, theirs):
        rng = np.random.default_rng(3)
        for second in range(15, 60):
            for stream in (ours, theirs):
                if second == 20:
                    assert stream.add(window.tumbling(length)) == 1
                if second == 30:
                    stream.remove(1)
            table = crowd(rng, second, 12)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
            ours.check()
            assert set_of(ours).is_by_key or not 20 <= second < 30
        assert not set_of(ours).is_by_key  # once all slices that were cut for the other definition are evicted


def test_a_definition_that_came_later_has_no_windows_before() -> None:
    """The slices from before it are as long as its own, by chance: other definitions cut them."""
    query = Query(window.sliding(80, every=20), COMMUTING, key="k", time="t")
    rng = np.random.default_rng(3)
    with layout():
        ours, theirs = query.stream(), query.stream(merge="lazy")
        for second in range(30):
            for stream in (ours, theirs):
                if second == 2:
                    stream.add(window.tumbling(20, offset=10))
                if second == 12:
                    stream.add(window.sliding(80, every=10))
                    stream.remove(0)
                    stream.remove(1)
            table = crowd(rng, second, 5)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
            ours.check()


def test_all_windows_that_are_left_end_together() -> None:
    """Panes after the latest one are in places of the ring where others still are."""
    with dense() as (ours, theirs):
        for end in (190, 230):
            assert ours.advance(end).to_pylist() == theirs.advance(end).to_pylist()
        assert ours.close().to_pylist() == theirs.close().to_pylist()


@agg.define(state={"total": "i8"}, commutative=True)
class checked:
    """Sums that refuse a value in the middle of a push."""

    def lift(v):
        if v == 13_000:
            raise ValueError("13000")
        return (v,)

    def combine(a, b):
        return (a.total + b.total,)

    def lower(s):
        return s.total


def test_a_push_that_fails_halfway_changes_nothing() -> None:
    query = Query(window.sliding(80, every=10), {"total": checked("v")}, key="k", time="t")
    rng = np.random.default_rng(1)
    with layout():
        ours, theirs = query.stream(), query.stream(merge="lazy")
        for second in range(30):
            table = crowd(rng, second, 12)
            if second > 9 and second % 3 == 0:
                assert not set_of(ours).is_by_key
                bad = {"t": [10 * second, 10 * second + 9], "k": [7919, 1], "v": [1, 13_000]}
                for stream in (ours, theirs):
                    with pytest.raises(ValueError, match="13000"):
                        stream.push(bad)
                ours.check()
                assert_saves_alike(ours, theirs)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()


def test_slices_built_elsewhere_are_merged_by_key() -> None:
    query = Query(window.sliding(80, every=10), COMMUTING, key="k", time="t")
    rng = np.random.default_rng(5)
    with layout():
        schema = crowd(rng, 0, 4).schema
        here, there, theirs = (DrivenStream(query, schema) for _ in range(3))
        for second in range(20):
            table = crowd(rng, second, 12)
            theirs.take(table)
            assert set_of(here).is_by_key == (second == 0)
            if second < 12:
                here.take(table)
            else:
                there.take(table)
                assert here.slices is not None
                assert there.slices is not None
                partials = there.slices[0].give_partials()
                here.take_slices(there._core.keys.take(partials.keys), partials)
                assert set_of(here).is_by_key
            for each in (here, theirs):
                each.set_watermark(10 * second)
            assert sorted(map(repr, here.emit().to_pylist())) == sorted(map(repr, theirs.emit().to_pylist()))
            here.check()


def test_a_rejected_push_changes_nothing() -> None:
    with dense() as (ours, theirs):
        for time in (160, 120):  # 120 is late
            rows = pa.table({"t": [150, time, time, 175], "k": [7919] * 4, "v": [1, 2**63 - 1, 2**63 - 1, 1]})
            for stream in (ours, theirs):
                with pytest.raises(AggregationOverflowError):
                    stream.push(rows)
            ours.check()
            assert_saves_alike(ours, theirs)
        rng = np.random.default_rng(3)
        for second in range(15, 40):
            table = crowd(rng, second, 12)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
        assert not set_of(ours).is_by_key


def test_a_window_takes_few_combines() -> None:
    query = Query(window.sliding(60, every=1), {"high": agg.max("v")}, key="k", time="t")
    rows = pa.table({"t": np.repeat(np.arange(600), 2), "k": [1, 2] * 600, "v": np.arange(1200) % 97})
    with layout():
        stream = query.stream()
        stream.push(rows.slice(0, 4))
        panes = set_of(stream).panes
        assert panes is not None
        counter = [0]
        panes.__dict__["_kernels"] = counting(panes.binding, PANES, counter)
        windows = sum(stream.push(rows.slice(begin, 2)).num_rows for begin in range(4, 1200, 2))
        assert set_of(stream).panes is panes
    assert windows > 1100
    assert windows <= counter[0] <= 2 * 1200 + windows  # each slice is folded from both sides, a window once


@pytest.mark.parametrize("name", ["held", "states", "folds", "back", "sizes", "newest", "covers", "slices"])
def test_check_finds_what_is_damaged(name: str) -> None:
    with dense() as (ours, _):
        rng = np.random.default_rng(2)
        for second in range(15, 18):
            ours.push(crowd(rng, second, 12))
        panes = set_of(ours).panes
        assert panes is not None
        assert panes.turn < panes.until
        ours.check()
        damaged = getattr(panes, name)
        key = int(np.flatnonzero(panes.covers)[0])
        if name == "slices":
            panes.slices += 1
        elif name == "held":
            base = panes._base(panes.until - 1)
            damaged[base + key] ^= True
        elif name in ("states", "folds"):
            _, _, slots = panes.slots()
            field = damaged.dtype.names[-1]
            damaged[field][slots] += 1
        elif name == "back":
            damaged[damaged.dtype.names[-1]][key] += 1
        elif name == "covers":
            damaged[key] = False
        else:
            damaged[key] += 1
        with pytest.raises(InvariantError):
            ours.check()
