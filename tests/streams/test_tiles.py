"""Tiles: frames with a hop from merged states, against the oracle, call by call, and how little is kept of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from queries import oracle, strategies
from queries.test_stream import play
from sampling import examples
from streams.duel import Duel
from streams.test_rows import affine, composed
from streams.test_rows_kinds import play as play_all

from muntin import Query, agg, window
from muntin.aggregations.binding import Binding, bind
from muntin.columns import read_column
from muntin.durations import parse_duration
from muntin.errors import AggregationOverflowError, InvalidArgumentError, SnapshotError
from muntin.kernels.cache import load_fresh, uncompiled
from muntin.snapshots import Snapshot
from muntin.streams.plan import chosen_for
from muntin.streams.rows import states, tiles
from muntin.streams.rows.states import StateStore, lifted
from muntin.streams.rows.tiles import Tiles
from muntin.streams.rows.tree import FANOUT, LEAF, MOVES, USED
from muntin.types import INT64

COMMUTATIVE = {name: strategies.AGGREGATES[name] for name in ("n", "values", "total", "high")}


SIZES = st.sampled_from([(4, 4), (8, 4), (64, 16)])


@contextmanager
def melting(sizes: tuple[int, int] = (LEAF, FANOUT)) -> Iterator[None]:
    """Let entries melt as soon as they can, in nodes of these sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_FEW", 1)
        patch.setattr(tiles, "_SHARE", 10**6)
        patch.setattr(tiles, "StateStore", partial(StateStore, leaf=sizes[0], fanout=sizes[1]))
        yield


@st.composite
def queries(draw: Any) -> oracle.Query:
    """Up to four frames with hops of their own, some of them long and coarse, and lifetimes."""
    ranges = draw(st.lists(st.integers(1, 60), max_size=4))
    windows = [
        window.trailing(
            each,
            closed=draw(st.sampled_from(["right", "left"])),
            delay=draw(st.sampled_from([0, 0, 3])),
            hop=draw(st.integers(1, max(1, each))),
        )
        for each in ranges
    ]
    windows += draw(st.lists(strategies.KINDS["lifetime"], min_size=not windows, max_size=2))
    names = draw(st.lists(st.sampled_from(sorted(COMMUTATIVE)), min_size=1, unique=True))
    return oracle.Query(
        windows,
        {name: COMMUTATIVE[name] for name in names},
        key=draw(st.sampled_from([(), ("k",)])),
        watermark=draw(st.sampled_from([0, 1, 8])),
        allowed_lateness=draw(st.sampled_from([0, 0, 3, 20])),
        emit_early=draw(st.sampled_from([None, None, 4])),
    )


@given(queries(), st.data())
@settings(deadline=None, max_examples=examples(80))
def test_merged_states_answer_as_rows_do(query: oracle.Query, data: st.DataObject) -> None:
    """Tiles are made after every push, and a stream goes on from a snapshot anywhere."""
    table = data.draw(strategies.tables(40))
    late = st.one_of(strategies.disordered(table, query.delay + query.lateness), st.permutations(table))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(data.draw(late)))))
    restarts = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    with melting(data.draw(SIZES)), uncompiled():
        play(query, table, steps, "auto", restarts)


@pytest.mark.parametrize("closed", ["right", "left"])
def test_rows_close_together(closed: Any) -> None:
    """A frame ends between any two rows, also where it ends long before its own."""
    frames = [window.trailing(12, closed=closed, delay=delay, hop=hop) for delay, hop in ((0, 4), (5, 6), (3, 12))]
    table = pa.table({"t": range(60), "v": range(60)})
    for each in (*frames, frames):
        query = Query(each, SUMMED, time="t")
        with melting((4, 4)), uncompiled():
            stream = query.stream()
            answers = [row for i in range(60) for row in stream.push(table.slice(i, 1)).to_pylist()]
            assert len(group_of(stream).store) < 20
            assert sorted(map(repr, answers)) == sorted(map(repr, query.run(table).to_pylist()))


def chosen(frame: Any, aggregate: Any) -> str:
    from muntin.query.plan import resolve

    plan = resolve(Query(frame, {"it": aggregate}, time="t"), pa.schema({"t": pa.int64(), "v": pa.int64()}))
    return chosen_for(plan)


def test_what_tiles_are_for() -> None:
    assert chosen(window.trailing(10, hop=2), agg.sum("v")) == "tiles"
    assert chosen(window.trailing(10), agg.sum("v")) == "rows"
    assert chosen(window.trailing(10, hop=2), agg.longest_increasing_run("v")) == "rows"
    assert chosen(window.trailing(10, hop=2), agg.median("v")) == "rows"


def test_a_window_that_is_added_has_the_rows_from_then_on() -> None:
    stream = Query(window.trailing(100, hop=10), {"n": agg.count()}, time="t").stream()
    stream.push({"t": list(range(200))})
    window_id = stream.add(window.trailing(30, hop=5))
    found = stream.push({"t": [200, 201]}).to_pylist()
    assert [row["n"] for row in found if row["window_id"] == 0] == [101, 102]
    assert [row["n"] for row in found if row["window_id"] == window_id] == [1, 2]
    with pytest.raises(InvalidArgumentError, match="'w1' at 226.*from 230 on"):
        stream.ask({"t": [226]})
    assert stream.ask({"t": [230]}).to_pydict() == {"t": [230], "n_w0": [72], "n_w1": [2]}


def test_a_sum_that_is_too_large_changes_nothing() -> None:
    stream = Query(window.trailing(100, hop=10), {"total": agg.sum("v")}, time="t").stream()
    stream.push({"t": [1, 2], "v": [2**62, 1]})
    with pytest.raises(AggregationOverflowError, match="agg.sum"):
        stream.push({"t": [3], "v": [2**62]})
    assert stream.push({"t": [4], "v": [5]})["total"].to_pylist() == [2**62 + 6]


@pytest.mark.parametrize("frame", [window.trailing(100), window.trailing(100, hop=10)], ids=repr)
def test_a_sum_that_is_too_large_at_a_point(frame: Any) -> None:
    stream = Query(frame, {"total": agg.sum("v")}, time="t", watermark=50).stream()
    stream.push({"t": [1, 2], "v": [2**62, 2**62]})
    with pytest.raises(AggregationOverflowError, match="agg.sum"):
        stream.ask({"t": [2]})
    assert stream.ask({"t": [1]})["total"].to_pylist() == [2**62]


@pytest.mark.compiled
def test_old_rows_are_few_states() -> None:
    """Five windows up to 30 days, a row every ten seconds: the state of a key is counted, and is that of its hops."""
    frames = {
        "1 hour": "5 minutes",
        "6 hours": "30 minutes",
        "1 day": "2 hours",
        "7 days": "12 hours",
        "30 days": "2 days",
    }
    windows = {name: window.trailing(name, closed="left", hop=hop) for name, hop in frames.items()}
    query = Query(windows, {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v")}, key="k")
    times = np.arange(0, 35 * 86_400, 10, dtype=np.int64)
    values = (times // 10 % 97).astype(float)
    stream, last = query.stream(), None
    step = 8_640
    for i in range(0, len(times), step):
        stamps = pa.array(times[i : i + step] * 1_000_000, pa.timestamp("us"))
        last = stream.push({"ts": stamps, "k": ["a"] * len(stamps), "v": values[i : i + step]})
    kept = stream.metrics()
    assert kept["kept"] < 120
    (store,) = query.explain(pa.schema({"ts": pa.timestamp("us"), "k": pa.string(), "v": pa.float64()})).stores
    assert kept["kept"] <= store.slices + 18  # and rows of the last push, of which there may be a few
    assert store.bytes == store.slices * store.slice_bytes < 10_000
    (strategy,) = stream._state.core.strategies
    assert sum(array.nbytes for array in strategy.save().values()) < 10_000
    for window_id, (name, hop) in enumerate(frames.items()):
        answer = last.filter(pa.compute.equal(last["window_id"], window_id)).to_pylist()[-1]
        end = int(times[-1])
        length, tile = (parse_duration(each) // 10**9 for each in (name, hop))
        held = values[(times >= (end - length) // tile * tile) & (times < end)]
        assert (answer["n"], answer["total"], answer["high"]) == (len(held), held.sum(), held.max())


# ---------------------------------------------------------------- the store


class Melting(RuleBasedStateMachine):
    """Entries of three keys that come in any order, melt at the front and leave there, in small nodes."""

    @initialize(sizes=SIZES)
    def begin(self, sizes: tuple[int, int]) -> None:
        self.store = StateStore({}, [ORDERED], *sizes)
        self.store.beside["number"] = np.zeros(0, np.int32)
        self.model: dict[int, list[tuple[int, list[int]]]] = {0: [], 1: [], 2: []}
        self.now, self.arrived = 0, 1

    @rule(
        drawn=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 1, 9, 60])), max_size=40),
        times=st.sampled_from([1, 1, 8]),
    )
    def insert(self, drawn: list[tuple[int, int]], times: int) -> None:
        new = []
        for key, late in drawn * times:
            self.now += late == 0
            new.append((key, self.now - late, self.arrived))
            self.arrived += 1
        new.sort(key=lambda row: row[:2])
        for key, time, number in new:
            self.model[key].append((time, [number]))
        for held in self.model.values():
            held.sort(key=lambda entry: entry[0])
        keys, at, numbers = (np.array([row[i] for row in new], np.int64) for i in range(3))
        with uncompiled():
            columns = lifted(ORDERED, {"v": read_column(pa.array(numbers), "v")}, at)
            self.store.insert(keys, at, columns, {"number": numbers.astype(np.int32)})

    @rule(share=st.sampled_from([0.1, 0.5, 1.0]), width=st.sampled_from([1, 4, 1000, 1000]))
    def melt(self, share: float, width: int) -> None:
        keys = np.array([key for key in self.model if self.model[key]], np.int64)
        if not len(keys):
            return
        until = [self.model[key][max(0, int(len(self.model[key]) * share) - 1)][0] for key in keys.tolist()]
        counts = np.array([sum(time <= t for time, _ in self.model[key]) for key, t in zip(keys, until, strict=True)])
        before = sum(map(len, self.model.values())) - counts.sum()
        with uncompiled():
            left = self.store.melt(keys, counts, np.array([4, width]), np.array([self.now - 30, -100]))
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            melted: list[tuple[int, list[int]]] = []
            for time, numbers in self.model[key][:count]:
                if melted and self.cells(melted[-1][0], width) == self.cells(time, width):
                    melted[-1][1].extend(numbers)
                else:
                    melted.append((time, list(numbers)))
            self.model[key][:count] = melted
        assert left.sum() == sum(map(len, self.model.values())) - before

    def cells(self, time: int, width: int) -> tuple[int, int]:
        return max(time, self.now - 30) // 4, max(time, -100) // width

    @rule(key=st.integers(0, 2), share=st.sampled_from([0.1, 0.5, 1.0]))
    def evict(self, key: int, share: float) -> None:
        count = int(len(self.model[key]) * share)
        if count:
            with uncompiled():
                self.store.evict(np.array([key]), np.array([count]))
            del self.model[key][:count]

    @rule()
    def restart(self) -> None:
        """Give memory back, as if there were much to give."""
        with uncompiled(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(states, "_PLACES", 0)
            self.store.shrink()

    @rule(step=st.integers(1, 9), back=st.sampled_from([1, 2, 7, 80, 1000]))
    def answer(self, step: int, back: int) -> None:
        points = [(key, at) for key in range(3) for at in range(self.now - 75, self.now + 5, step)]
        keys, at = (np.array([point[i] for point in points], np.int64) for i in (0, 1))
        first, last = np.empty(len(points), np.int64), np.empty(len(points), np.int64)
        with uncompiled():
            self.store.kernels.find_at(self.store.tree, np.array([-back, 1, 0, 0]), keys, at, first, last)
            raw = dict(zip(ORDERED.names, ORDERED.raw_results(self.store.answers(0, first, last)), strict=True))
        for i, (key, time) in enumerate(points):
            numbers = [each for begin, run in self.model[key] if time - back <= begin <= time for each in run]
            assert raw["n"][0][i] == len(numbers)
            if numbers:
                assert raw["all"][0][i] == composed(numbers)

    @invariant()
    def entries_are_in_order(self) -> None:
        if hasattr(self, "store"):
            self.store.check()
            with uncompiled():
                keys, places = self.store.rows()
            times, numbers = self.store.tree.times[places], self.store.beside["number"][places]
            wanted = [(key, time, run[0]) for key in (0, 1, 2) for time, run in self.model[key]]
            assert list(zip(keys.tolist(), times.tolist(), numbers.tolist(), strict=True)) == wanted


ORDERED = bind({"n": agg.count(), "all": affine("v")}, {"v": INT64}, gaps=True)
TestMelting = Melting.TestCase
TestMelting.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)


def test_memory_is_given_back() -> None:
    """A long push leaves no more than a short one: its rows have melted."""
    stream = Query(window.trailing(1000, hop=500), {"n": agg.count()}, time="t").stream()
    with uncompiled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "_PLACES", 4096)
        stream.push({"t": range(6000)})
        assert stream.push({"t": [6000]})["n"].to_pylist() == [1001]
    store = group_of(stream).store
    assert store.tree.marks[USED] < 200
    assert store.nbytes < 500_000


# ---------------------------------------------------------------- the strategy


def group_of(stream: Any) -> tiles.TileGroup:
    (strategy,) = stream._state.core.strategies
    assert isinstance(strategy, Tiles)
    (group,) = strategy.groups
    assert isinstance(group, tiles.TileGroup)
    return group


@given(queries(), st.data())
@settings(max_examples=examples(40))
def test_every_call_gives_what_the_oracle_gives(query: oracle.Query, data: st.DataObject) -> None:
    """Without a stream around it; rows as late as they like, several keys, loaded on the way."""
    with melting(data.draw(SIZES)), uncompiled():
        play_all(Duel(replace(query, emit_early=None), Tiles, early=data.draw(st.booleans())), data)


@given(st.data())
@settings(max_examples=examples(40))
def test_rows_in_order_melt_in_their_order(data: st.DataObject) -> None:
    """Where rows come in order, tiles are for aggregations that do not commute, too."""
    steps = data.draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 7]), min_size=1, max_size=60))
    t = np.cumsum(steps)
    lengths, cut = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)), data.draw(st.integers(1, 9))
    frames = [window.trailing(each, hop=data.draw(st.integers(1, each))) for each in lengths]
    data_of = {"t": t, "v": np.arange(1, len(t) + 1), "k": data.draw(st.lists(st.sampled_from("ab"), min_size=60))}
    table = pa.table({name: list(values)[: len(t)] for name, values in data_of.items()})
    aggregates = {"all": affine("v"), "first": agg.first("v"), "last": agg.last("v")}
    query = Query(frames, aggregates, key="k", time="t", ordered=True, watermark=1)
    with melting(data.draw(SIZES)), uncompiled():
        stream = query.stream()
        found = [stream.push(table.slice(i, cut)) for i in range(0, len(t), cut)]
        assert isinstance(stream._state.core.strategies[0], Tiles)
        assert rows_of(pa.concat_tables([*found, stream.close()])) == rows_of(query.run(table))


def rows_of(answers: pa.Table) -> list[str]:
    return sorted(map(repr, answers.select(["k", "window", "window_id", "all", "first", "last"]).to_pylist()))


def test_a_late_row_revises_the_frames_that_hold_it_and_no_others() -> None:
    """Also where the rows around it have melted, and its own frame is final."""
    query = Query(window.trailing(100, hop=10), {"n": agg.count(), "s": agg.sum("v")}, time="t", allowed_lateness=20)
    with melting(), uncompiled():
        stream = query.stream()
        stream.push({"t": range(300), "v": [1] * 300})
        found = stream.push({"t": [183], "v": [5]}).to_pylist()
        assert [(row["window"]["end"], row["n"], row["s"], row["revision"]) for row in found] == [
            (t, t - (t - 100) // 10 * 10 + 2, t - (t - 100) // 10 * 10 + 6, 1) for t in range(280, 290)
        ]
        assert stream.push({"t": [179], "v": [5]}).num_rows == 0
        assert stream.metrics()["dropped"] == 2  # neither has a frame of its own any more


def test_definitions_part_where_one_refuses_a_row_and_a_snapshot_tells_their_states_apart() -> None:
    """Each goes on with tiles of its own; another order of aggregates finds its states in all of them."""
    windows = {"long": window.trailing(200, hop=20), "short": window.trailing(10, hop=5)}
    aggregates = {"n": agg.count(), "s": agg.sum("v"), "high": agg.max("v")}
    with melting(), uncompiled():
        stream = Query(windows, aggregates, time="t", allowed_lateness=5).stream()
        stream.push({"t": range(100), "v": range(100)})
        stream.push({"t": [50], "v": [1000]})
        (strategy,) = stream._state.core.strategies
        assert isinstance(strategy, Tiles)
        assert [[part.window_id for part in group.parts] for group in strategy.groups] == [[0], [1]]
        turned = Query(windows, dict(reversed(aggregates.items())), time="t", allowed_lateness=5)
        other = turned.stream(stream.snapshot())
        for each in (stream, other):
            found = each.push({"t": [100], "v": [100]}).to_pylist()
            assert [(row["n"], row["s"], row["high"]) for row in found] == [
                (102, 5050 + 1000, 1000),
                (11, sum(range(90, 101)), 100),
            ]
        long, short = strategy.groups
        assert len(long.store) > len(short.store)


def test_a_state_of_before_is_refused() -> None:
    """The states of rows were kept by other names, in one array for all definitions."""
    query = Query(window.trailing(10, hop=5), {"n": agg.count()}, time="t")
    stream = query.stream()
    stream.push({"t": range(40)})
    saved = Snapshot.decode(stream.snapshot())
    before = {name.replace("0.0.rows.beside.", "0.rows.value."): array for name, array in saved.arrays.items()}
    before["0.marks"] = before.pop("0.0.marks")
    with pytest.raises(SnapshotError, match="otherwise; let that version finish the stream, or push its rows again"):
        query.stream(replace(saved, arrays=before).encode())


@pytest.mark.compiled
def test_states_of_every_form_melt() -> None:
    """Arrays, several numbers, and those that skip nulls; of two keys, compiled."""
    chance = np.random.default_rng(3)
    times = np.sort(chance.integers(0, 400, 600))
    values = pa.array(chance.integers(0, 50, 600).astype(float), mask=chance.random(600) < 0.2)
    table = pa.table({"t": times, "k": chance.choice(["a", "b"], 600).tolist(), "v": values, "on": times % 3 == 0})
    aggregates = {
        "ids": agg.hyperloglog("v", precision=4),
        "mean": agg.mean("v", where="on"),
        "high": agg.max("v"),
        "n": agg.count("v"),
    }
    query = Query([window.trailing(60, hop=7), window.trailing(200, hop=50)], aggregates, "k", time="t", watermark=1)
    with melting((8, 4)):
        stream = query.stream()
        answers = [stream.push(table.slice(i, 37)) for i in range(0, 296, 37)]
        stream = query.stream(stream.snapshot())
        answers += [stream.push(table.slice(i, 37)) for i in range(296, 600, 37)]
        found = pa.concat_tables([*answers, stream.close()])
    order = [("k", "ascending"), ("window_id", "ascending"), ("end", "ascending")]
    ends = (each.add_column(0, "end", pc.struct_field(each["window"], "end")) for each in (found, query.run(table)))
    found, wanted = (each.sort_by(order) for each in ends)
    for name in ("k", "ids", "high", "n"):
        assert found[name].to_pylist() == wanted[name].to_pylist()
    assert found["mean"].to_pylist() == pytest.approx(wanted["mean"].to_pylist())


def test_a_silent_key_melts_when_its_rows_are_old() -> None:
    """Nothing of it is due by then, and nothing to be evicted: it is looked at for this alone."""
    stream = Query(window.trailing(1000, hop=500), {"n": agg.count()}, "k", time="t", allowed_lateness=50).stream()
    with uncompiled():
        stream.push({"t": range(100), "k": ["a"] * 100})
        held = []
        for t in (110, 130, 140, 149):
            stream.push({"t": [t], "k": ["b"]})
            held.append(int(group_of(stream).store.held(np.array([0]))[0]))
    assert held == [51, 20, 20, 1]


def test_a_key_that_comes_back_melts_as_a_new_one() -> None:
    """How many tiles it had before does not count once they are gone."""
    stream = Query(window.trailing(1000, hop=10), {"n": agg.count()}, time="t").stream()
    with uncompiled():
        stream.push({"t": range(1500)})
        assert len(group_of(stream).store) > 100
        for i in range(60):
            stream.push({"t": [10_000 + i // 10]})
    assert len(group_of(stream).store) <= 30


# ---------------------------------------------------------------- work


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count what kernels lift and combine, and the entries that melt or move."""
    counts: Counter[str] = Counter()
    modules: dict[Any, Any] = {}

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    def kernels(binding: Binding, functions: Any, *entries: str) -> Any:
        key = (id(binding), functions)
        if key not in modules:
            module = load_fresh(binding.generate(functions, *entries))
            for name in ("lift", "combine"):
                if hasattr(module, name):
                    setattr(module, name, counting(name, getattr(module, name)))
            modules[key] = module
        return modules[key]

    def melt(store: StateStore, keys: Any, sizes: Any, hops: Any, floors: Any) -> Any:
        counts["melted"] += sizes.sum()
        return original(store, keys, sizes, hops, floors)

    original = StateStore.melt
    with monkeypatch.context() as patch, uncompiled():
        patch.setattr(Binding, "kernels", kernels)
        patch.setattr(StateStore, "melt", melt)
        yield counts


def test_no_push_costs_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of 20 hops, however many rows are in them; and one late row moves those of its leaf."""
    for rows in (1_000, 16_000):
        query = Query(window.trailing(1_000, hop=50), SUMMED, time="t", allowed_lateness=100)
        stream = query.stream()
        with counted(monkeypatch) as counts:
            stream.push({"t": np.arange(2 * rows) * 1_000 // rows, "v": np.ones(2 * rows)})
            late = rows // 10  # as many are within the lateness
            assert counts["lift"] == 2 * rows
            counts.clear()
            for i in range(200):
                stream.push({"t": [2_000 + i // 16], "v": [1.0]})
                assert counts.total() <= 12 * LEAF
                counts["most"] = 0
                counts.clear()
            assert len(group_of(stream).store) <= late + 21 + 16 + 200
            revised = stream.push({"t": [1_999], "v": [1.0]}).num_rows
            assert counts.total() <= 12 * revised + 12 * LEAF
            assert group_of(stream).store.tree.marks[MOVES] <= 2 * LEAF


def test_tiles_are_copied_once_for_an_eighth_as_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a row costs the same, amortised, however many tiles there are."""
    for tiles_held in (100, 800):
        stream = Query(window.trailing(10 * tiles_held, hop=10), SUMMED, time="t").stream()
        with counted(monkeypatch) as counts:
            stream.push({"t": np.arange(20 * tiles_held), "v": np.ones(20 * tiles_held)})
            assert len(group_of(stream).store) <= tiles_held + 3
            counts.clear()
            pushes = tiles_held
            for i in range(pushes):
                stream.push({"t": 20 * tiles_held + 4 * i + np.arange(4), "v": np.ones(4)})
            assert len(group_of(stream).store) <= tiles_held * 9 // 8 + 20
            assert 0 < counts["melted"] <= 10 * 4 * pushes
            assert counts.total() <= 4 * LEAF * pushes


SUMMED = {"n": agg.count(), "s": agg.sum("v")}
