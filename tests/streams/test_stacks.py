"""Two stacks over the slices of each key: the same answers as from all slices, in few combines, whatever comes late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import Query, agg, window
from muntin.aggregators.states import counting
from muntin.kernels import cache
from muntin.streams.blocks import USED
from muntin.streams.slices.merge import MERGE
from muntin.streams.slices.slice_set import STACKED, SliceSet
from muntin.streams.slices.slicer import FOLDING
from muntin.streams.slices.stacks import STACKS


@agg.define(state={"times": "i8", "plus": "i8"})
class composed:
    """Functions x -> times * x + plus, one after the other: combine does not commute."""

    def lift(v):
        return (1 + v % 3, v % 5)

    def combine(a, b):
        return ((a.times * b.times) % 997, (a.plus * b.times + b.plus) % 997)

    def lower(s):
        return 1000 * s.times + s.plus


OBJECTS = {"top": agg.top_k("v", 3), "per": agg.per("v", agg.sum("v"), top=2), "last": agg.last_k("v", 2)}
"""States that are Python objects and do not grow with their rows."""
COMMUTING = {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v")}


def sets_of(stream: Any) -> list[SliceSet]:
    sets: list[SliceSet] = stream._state.core.strategies[0].sets
    return sets


def pushes(rng: np.random.Generator, count: int, size: int, late: int, keys: int = 3) -> list[pa.Table]:
    """Return rows of a few keys that mostly ascend, some of them late, with silences in between."""
    tables, now = [], 0
    for _ in range(count):
        now += int(rng.choice([0, 1, 2, 3, 40], p=[0.2, 0.3, 0.25, 0.2, 0.05]))
        delay = rng.integers(0, late + 1, size) * (rng.random(size) < 0.3)
        times = now + np.sort(rng.integers(0, 6, size)) - delay
        tables.append(pa.table({"t": times, "k": rng.integers(0, keys, size), "v": rng.integers(0, 100, size)}))
    return tables


def same(query: Query, tables: list[pa.Table], restarts: int) -> None:
    """Push to three streams: as it is chosen, restarted now and then, and with all slices merged lazily."""
    ours, again, theirs = query.stream(), query.stream(), query.stream(merge="lazy")
    for i, table in enumerate(tables):
        expected = theirs.push(table).to_pylist()
        assert ours.push(table).to_pylist() == expected
        assert again.push(table).to_pylist() == expected
        for each in sets_of(ours):
            assert each.merger == STACKED
            assert each.has_stacks
            each.check()
        if restarts and i % restarts == 0:
            again = query.stream(again.snapshot())
    assert ours.close().to_pylist() == theirs.close().to_pylist() == again.close().to_pylist()


@given(st.integers(0, 2**32), st.sampled_from([(8, 1), (60, 1), (33, 3), (20, 2)]), st.sampled_from([0, 2, 15, 80]))
@settings(max_examples=examples(4))
def test_stacks_answer_what_all_slices_answer(seed: int, shape: tuple[int, int], lateness: int) -> None:
    rng = np.random.default_rng(seed)
    aggregates = [COMMUTING, {**COMMUTING, "composed": composed("v")}, {**OBJECTS, "n": agg.count()}][seed % 3]
    query = Query(
        window.sliding(shape[0], every=shape[1]),
        aggregates,
        key="k",
        time="t",
        watermark=int(rng.integers(0, 4)),
        allowed_lateness=lateness,
    )
    with cache.uncompiled():
        same(query, pushes(rng, 14, 6, lateness + 4), restarts=7)


def test_a_window_takes_few_combines() -> None:
    query = Query(window.sliding(60, every=1), {"high": agg.max("v")}, key="k", time="t")
    rows = pa.table({"t": np.repeat(np.arange(600), 2), "k": [1, 2] * 600, "v": np.arange(1200) % 97})
    with cache.uncompiled():
        stream = query.stream()
        stream.push(rows.slice(0, 2))
        held = sets_of(stream)[0]
        counter = [0]
        held.folding = counting(held.binding, (*FOLDING, *MERGE, *STACKS), counter)
        windows = sum(stream.push(rows.slice(begin, 2)).num_rows for begin in range(2, 1200, 2))
    slices = 1200
    assert windows > 1100
    # Each slice is folded from both sides, and up to three times more where its block moves; a window once.
    assert windows <= counter[0] <= 5 * slices + windows


def test_a_definition_that_comes_later_ends_the_stacks() -> None:
    query = Query(window.sliding(20, every=2), {"high": agg.max("v")}, key="k", time="t", watermark=2)
    tables = pushes(np.random.default_rng(3), 30, 6, 3)
    with cache.uncompiled():
        ours, theirs = query.stream(), query.stream(merge="lazy")
        for i, table in enumerate(tables):
            if i == 10:
                assert ours.add(window.tumbling(4)) == theirs.add(window.tumbling(4))
                assert [each.merger for each in sets_of(ours)] == ["lazy"]
            if i == 20:
                ours.remove(0)
                theirs.remove(0)
            assert ours.push(table).to_pylist() == theirs.push(table).to_pylist()
        assert ours.close().to_pylist() == theirs.close().to_pylist()


def test_explain_says_who_merges() -> None:
    def merged(*windows: Any) -> str:
        return str(Query(list(windows), {"high": agg.max("v")}, time="t").explain().stores[0].merge[0])

    assert merged(window.sliding(60, every=1)) == (
        "high by two_stacks (windows of one definition slide over up to 60 slices; each takes O(1) combines, amortised)"
    )
    keyed = Query(window.sliding(60, every=1), {"high": agg.max("v")}, key="k", time="t").explain()
    assert "from 512 keys on all keys at once, if a third" in str(keyed.stores[0].merge[0])
    assert "by lazy" in merged(window.sliding(7, every=1))  # few slices
    assert "by lazy" in merged(window.sliding(60, every=1), window.tumbling(10))
    assert "by flat_fat" in merged(window.sliding(65, every=1))


def test_blocks_that_keys_have_outgrown_take_no_memory() -> None:
    keys, seconds = 12, 40
    query = Query(window.sliding(64, every=1), {"n": agg.count(), "total": agg.sum("v")}, key="k", time="t")
    with cache.uncompiled():
        stream = query.stream()
        rng = np.random.default_rng(1)
        tables = [
            pa.table({"t": np.full(keys, second), "k": rng.permutation(keys), "v": rng.integers(0, 9, keys)})
            for second in range(seconds)
        ]
        answers = [stream.push(table) for table in tables]
        held = sets_of(stream)[0]
        held.check()
        used, longest = int(held.marks[USED]), 48
        assert used <= keys * longest
        assert len(held.slices.low) <= 64 + 2 * used + 4 * longest
        found = pa.concat_tables([*answers, stream.close()])
    assert by_end(found) == by_end(query.run(pa.concat_tables(tables)))


def by_end(answers: pa.Table) -> list[dict[str, Any]]:
    """Return windows in an order that all engines share."""
    rows = answers.select(["k", "window", "n", "total"]).to_pylist()
    return sorted(rows, key=lambda row: (row["k"], row["window"]["end"]))
