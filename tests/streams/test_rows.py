"""Rows in order: the trees against a list, the answers of ranges, and how much work a push is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sampling import examples

from muntin import Query, agg, rows, window
from muntin.aggregations.binding import Binding, bind
from muntin.columns import Column
from muntin.kernels.cache import load_fresh, uncompiled
from muntin.kernels.tiers import waiting
from muntin.streams.rows import folding
from muntin.streams.rows.rows import Rows
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import LEAF, MOVES, NODE, NODES, SPLITS, USED
from muntin.types import INT64

PRIME = 1_000_003


@agg.define(state={"slope": "i8", "shift": "i8"})
class affine:
    """The composition of x -> v x + v, row by row: the order of rows decides."""

    def lift(v):
        return (v % 1_000_003, v % 1_000_003)

    def combine(a, b):
        return (a.slope * b.slope % 1_000_003, (a.shift * b.slope + b.shift) % 1_000_003)

    def lower(s):
        return s.shift


def composed(values: list[int]) -> int:
    slope, shift = 1, 0
    for v in values:
        slope, shift = slope * v % PRIME, (shift * v + v) % PRIME
    return shift


BINDING = bind({"n": agg.count("v"), "last": agg.last("v"), "all": affine("v")}, {"v": INT64}, gaps=True)


class Trees(RuleBasedStateMachine):
    """Rows of three keys, inserted in any order and evicted from the front, in small nodes."""

    @initialize(sizes=st.sampled_from([(4, 4), (8, 4), (8, 16), (64, 16)]))
    def begin(self, sizes: tuple[int, int]) -> None:
        self.store = RowStore({"v": INT64}, [BINDING], *sizes)
        self.store.beside["number"] = np.zeros(0, np.int32)
        self.model: dict[int, list[tuple[int, int, bool]]] = {0: [], 1: [], 2: []}
        self.now, self.arrived = 0, 1

    @rule(
        drawn=st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 1, 2, 9, 60]), st.booleans()), max_size=40
        ),
        times=st.sampled_from([1, 1, 8]),
    )
    def insert(self, drawn: list[tuple[int, int, bool]], times: int) -> None:
        new = []
        for key, late, valid in drawn * times:
            self.now += late == 0
            new.append((key, self.now - late, self.arrived, valid))
            self.arrived += 1
        new.sort(key=lambda row: row[:2])
        for key, time, number, valid in new:
            self.model[key].append((time, number, valid))
        for held in self.model.values():
            held.sort(key=lambda row: row[0])
        keys, at, numbers, valid = (np.array([row[i] for row in new], np.int64) for i in range(4))
        column = Column(numbers, None if valid.all() else valid.astype(np.bool_), INT64)
        with uncompiled():
            self.store.insert(keys, at, {"v": column}, {"number": numbers.astype(np.int32)})

    @rule(key=st.integers(0, 2), share=st.sampled_from([0.1, 0.5, 1.0]))
    def evict(self, key: int, share: float) -> None:
        count = int(len(self.model[key]) * share)
        if count:
            with uncompiled():
                latest = self.store.kernels.evict_first(self.store.tree, key, count)
            assert latest == self.model[key][count - 1][0]
            del self.model[key][:count]

    @rule()
    def restart(self) -> None:
        """Go on with rows that were saved, in nodes as full as they can be."""
        with uncompiled():
            self.store.load(self.store.save())

    @rule(step=st.integers(1, 9), back=st.sampled_from([1, 2, 7, 80, 1000]))
    def answer(self, step: int, back: int) -> None:
        """Ask for ranges that follow each other closely, and for some that jump."""
        points = [(key, at) for key in range(3) for at in range(self.now - 75, self.now + 5, step)]
        keys, at = (np.array([point[i] for point in points], np.int64) for i in (0, 1))
        first, last = np.empty(len(points), np.int64), np.empty(len(points), np.int64)
        with uncompiled():
            self.store.kernels.find_at(self.store.tree, np.array([-back, 1, 0, 0]), keys, at, first, last)
            raw = dict(zip(BINDING.names, BINDING.raw_results(self.store.answers(0, first, last)), strict=True))
            places, begins, ends = self.store.listed(first, last)
        for i, (key, time) in enumerate(points):
            held = [row for row in self.model[key] if time - back <= row[0] <= time]
            values = [number for _, number, valid in held if valid]
            assert self.store.beside["number"][places[begins[i] : ends[i]]].tolist() == [row[1] for row in held]
            assert raw["n"][0][i] == len(values)
            if values:
                assert (raw["last"][0][i], raw["all"][0][i]) == (values[-1], composed(values))

    @rule(key=st.integers(0, 2), at=st.integers(0, 400))
    def rank(self, key: int, at: int) -> None:
        held = self.model[key]
        if at < len(held):
            with uncompiled():
                before, upto, total = (np.empty(1, np.int64) for _ in range(3))
                point = np.array([key]), np.array([held[at][0]])
                self.store.kernels.ranks_at(self.store.tree, *point, before, upto, total)
                first, last = np.array([at]), np.array([at + 1])
                self.store.kernels.at_ranks(self.store.tree, point[0], first, last)
                places, _, _ = self.store.listed(first, last)
            times = [row[0] for row in held]
            assert (before[0], upto[0], total[0]) == (
                times.index(times[at]),
                sum(t <= times[at] for t in times),
                len(times),
            )
            assert self.store.beside["number"][places].tolist() == [held[at][1]]

    @invariant()
    def rows_are_in_order(self) -> None:
        if not hasattr(self, "store"):
            return
        self.store.check()
        with uncompiled():
            keys, places = self.store.rows()
        times, numbers = self.store.tree.times[places], self.store.beside["number"][places]
        wanted = [(key, time, number) for key in (0, 1, 2) for time, number, _ in self.model[key]]
        assert list(zip(keys.tolist(), times.tolist(), numbers.tolist(), strict=True)) == wanted


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=examples(30), stateful_step_count=25, deadline=None)


# ---------------------------------------------------------------- work


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Count what the kernels of all stores lift and combine."""
    counts = {"lift": 0, "combine": 0}
    modules: dict[Binding, Any] = {}

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    def folding_of(store: RowStore, which: int) -> Any:
        binding = store.bindings[which]
        key = id(binding)
        if key not in modules:
            module = load_fresh(binding.generate(folding.FOLDING, "refold", "answer_ranges"))
            for name in counts:
                setattr(module, name, counting(name, getattr(module, name)))
            modules[key] = module
        return modules[key]

    with monkeypatch.context() as patch, uncompiled():
        patch.setattr(RowStore, "folding", folding_of)
        yield counts


def total(counts: dict[str, int]) -> int:
    spent = sum(counts.values())
    counts.update(dict.fromkeys(counts, 0))
    return spent


def store_of(stream: Any) -> RowStore:
    (strategy,) = stream._state.core.strategies
    assert isinstance(strategy, Rows)
    (group,) = strategy.groups
    return group.store


FRAMES = [
    window.trailing,
    lambda n: window.trailing(n, closed="left", delay=3),
    lambda n: window.frame(n, 2),
    window.leading,
    lambda n: window.trailing(rows(n)),
    lambda n: window.frame(rows(n), rows(2)),
]


@pytest.mark.parametrize("kind", range(len(FRAMES)))
def test_no_push_costs_what_is_held(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row in order takes the combines of some leaves at most, a few amortised, however many rows are held."""
    for n in (1_000, 8_000):
        query = Query(FRAMES[kind](n), {"all": affine("v"), "n": agg.count()}, time="t", allowed_lateness=n)
        stream = query.stream()
        with counted(monkeypatch) as counts:
            stream.push({"t": np.arange(2 * n), "v": np.arange(2 * n)})
            total(counts)
            for i in range(2 * n, 2 * n + 40):
                stream.push({"t": [i], "v": [i]})
                assert total(counts) <= 8 * LEAF
            stream.push({"t": np.arange(2 * n + 40, 2 * n + 540), "v": np.arange(500)})
            assert total(counts) <= 12 * 500
            revised = stream.push({"t": [2 * n + 40 - n // 2], "v": [1]})
            assert store_of(stream).tree.marks[MOVES] <= 2 * LEAF
            assert total(counts) <= 12 * revised.num_rows + 8 * LEAF
        assert store_of(stream).tree.marks[SPLITS] == 1


def test_a_late_row_revises_the_frames_that_hold_it_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Query(window.trailing(10), {"n": agg.count(), "s": agg.sum("v")}, time="t", allowed_lateness=5000).stream()
    with counted(monkeypatch) as counts:
        stream.push({"t": np.arange(5000), "v": np.ones(5000)})
        total(counts)
        found = stream.push({"t": [2500], "v": [1.0]}).to_pylist()
        assert total(counts) <= 8 * LEAF
    assert [(row["window"]["end"], row["n"], row["revision"]) for row in found] == [
        (2500, 11, 1),
        (2500, 11, 0),
        *((t, 11, 1) for t in range(2501, 2510)),
    ]


def test_a_row_that_one_definition_rejects_stays_hidden_from_it() -> None:
    """The long frame of 110 holds 103; no short one did when it came, and no later row brings it back."""
    windows = {"long": window.trailing(60), "short": window.trailing(5)}
    query = Query(windows, {"n": agg.count(), "all": agg.collect("v")}, time="t", watermark=5)
    emitted = {}
    for strategy in ("auto", "rows"):
        with uncompiled():
            stream = query.stream(strategy=strategy)
            steps = [stream.push({"t": [t], "v": [t]}) for t in (50, 110, 103, 106, 107, 112)]
            asked = stream.ask({"t": [107, 108, 112]}).to_pydict()
            again = query.stream(stream.snapshot(), strategy=strategy)
            steps += [again.push({"t": [111, 130], "v": [111, 130]}), again.close()]
        emitted[strategy] = [sorted(map(repr, step.to_pylist())) for step in steps], asked
    assert emitted["auto"] == emitted["rows"]
    assert emitted["auto"][1]["all_short"] == [[106, 107], [106, 107], [110, 112]]
    assert emitted["auto"][1]["all_long"][0] == [50, 103, 106, 107]


def test_the_bytes_of_a_row() -> None:
    """Columns in leaves and states of nodes: explain says what a row takes, and it takes that, but for what is free."""
    query = Query(window.trailing(20_000), {"s": agg.sum("v"), "m": agg.max("v"), "n": agg.count()}, time="t")
    size = query.explain({"t": pa.int64(), "v": pa.float64()}).stores[0].row_bytes
    assert size is not None
    assert size <= 24
    stream = query.stream()
    with uncompiled():
        stream.push({"t": np.arange(20_000), "v": np.ones(20_000)})
    marks, store = store_of(stream).tree.marks, store_of(stream)
    used = int(marks[USED]) * (size - 2) + int(marks[NODES]) * (8 * NODE + store.states[0].itemsize)
    assert used / len(store) == pytest.approx(size, rel=0.1)


TYPES = (pa.int8(), pa.uint64(), pa.float32(), pa.bool_(), pa.string(), pa.decimal128(25, 2), pa.timestamp("us"))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_columns_of_every_size_move_with_their_rows(kind: pa.DataType) -> None:
    flags = pa.array([False, True, None, True, False, True])
    values = flags if kind == pa.bool_() else flags.cast(pa.int64()).cast(kind)
    table = pa.table({"t": [10, 30, 20, 5, 25, 1], "v": values})
    query = Query(window.trailing(100), {"all": agg.collect("v"), "n": agg.count("v")}, time="t", allowed_lateness=100)
    with uncompiled():
        stream = query.stream()
        emitted = pa.concat_tables([stream.push(table.slice(i, 1)) for i in range(6)]).to_pylist()
        stream.check()
    held = sorted(zip(table["t"].to_pylist(), table["v"].to_pylist(), strict=True), key=lambda row: row[0])
    newest = {row["window"]["end"]: row for row in emitted}
    assert len(newest) == 6
    for end, row in newest.items():
        wanted = [v for t, v in held if t <= end and v is not None]
        assert (row["all"] or [], row["n"]) == (wanted, len(wanted))


def test_a_frame_that_never_holds_rows_is_not_revised() -> None:
    """A late row takes the number of another, but what a frame without rows says is the same."""
    query = Query(window.leading(rows(1), closed="neither"), {"n": agg.count()}, time="t", allowed_lateness=50)
    with uncompiled():
        stream = query.stream()
        first = stream.push({"t": [10, 30]})
        late = stream.push({"t": [20]})
    assert [each["from_row"] for each in first["window"].to_pylist()] == [1, 2]
    assert [(row["window"]["from_row"], row["revision"]) for row in late.to_pylist()] == [(3, 0)]


@pytest.mark.compiled
def test_objects_move_beside_compiled_kernels(caplog: pytest.LogCaptureFixture) -> None:
    """Late rows move those behind them: text too, which no compiled kernel takes, so that none is asked to."""
    times = np.random.default_rng(1).permutation(300)
    data = pa.table({"t": times, "s": [f"at {t}" for t in times]})
    query = Query(window.trailing(5), {"all": agg.collect("s")}, time="t", watermark=300)
    with waiting():
        stream = query.stream()
        for i in range(0, 300, 50):
            stream.push(data.slice(i, 50))
        assert stream.close()["all"].to_pylist() == query.run(data)["all"].to_pylist()
    assert not caplog.records
