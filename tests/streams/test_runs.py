"""Runs against sorted lists: random rows added, moved, freed, saved and read, compiled and as plain Python."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import agg
from muntin.columns import Column, read_column
from muntin.errors import InvariantError, UnsupportedOperationError
from muntin.kernels import cache
from muntin.streams.sorted_runs import arena as arena_module
from muntin.streams.sorted_runs import runs as runs_module
from muntin.streams.sorted_runs.order_keys import OrderKeys
from muntin.streams.sorted_runs.runs import Runs, keeps_runs
from muntin.streams.sorted_runs.selection import SELECTION
from muntin.types import FLOAT64, INT64, column_type, numpy_type


@agg.define(state="sorted", result={"lowest": "f8", "highest": "f8", "n": "i8"}, commutative=True)
class spread_of:
    def lower(s):
        return float(s[0]), float(s[-1]), len(s)


@agg.define(state="sorted", result="f8", commutative=True)
class trimmed_mean:
    def lower(s, *, cut):
        if len(s) <= 2 * cut:
            return None
        total = 0.0
        for i in range(cut, len(s) - cut):
            total += float(s[i])
        return total / (len(s) - 2 * cut)


@agg.define(state="sorted", result="i8", commutative=True)
class upper_middle:
    def lower(s):
        return s[len(s) // 2]


QUANTILES = {f"q{q}": agg.quantile("v", q) for q in (0.0, 0.1, 0.25, 0.5, 0.9, 0.999, 1.0)}
ALL = {"median": agg.median("v"), **QUANTILES, "spread": spread_of("v"), "trimmed": trimmed_mean("v", 1)}
FEW = {"median": agg.median("v"), "q": agg.quantile("v", 0.9), "trimmed": trimmed_mean("v", 1)}
SLOTS = 6

FLOATS = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.0, 2.5, 1.7e308, -1.7e308, 5e-324]), st.floats()
)
INTS = st.one_of(st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1, 7]), st.integers(-(2**63), 2**63 - 1))
ROWS = {FLOAT64: FLOATS, INT64: INTS}


def slots_of(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def column_of(values: list, kind: object) -> Column:
    valid = np.array([v is not None for v in values], np.bool_)
    filled = np.array([0 if v is None else v for v in values], kind.physical)
    return Column(filled, None if valid.all() else valid, kind)


def operations(rows: st.SearchStrategy) -> st.SearchStrategy:
    slot = st.integers(0, SLOTS - 1)
    added = st.lists(st.tuples(slot, st.one_of(st.none(), rows, rows, rows)), max_size=30)
    window = st.tuples(st.integers(0, SLOTS), st.integers(0, SLOTS)).map(sorted)
    return st.lists(
        st.one_of(
            st.tuples(st.just("add"), added),
            st.tuples(st.just("add"), added),
            st.tuples(st.just("merge"), st.lists(st.tuples(slot, slot), max_size=4)),
            st.tuples(st.just("free"), st.lists(slot, max_size=3)),
            st.tuples(st.just("answer"), st.tuples(st.permutations(range(SLOTS)), st.lists(window, max_size=4))),
            st.tuples(st.just("reload"), st.none()),
        ),
        max_size=12,
    )


def expected(aggregation: object, values: list, kind: object) -> object:
    """What the definition says of the sorted values, by itself."""
    if aggregation.skip_nan:
        values = [v for v in values if v == v]
    if not values:
        return None
    return aggregation.lower(np.sort(np.array(values, kind.physical)))


def same(got: object, wanted: object) -> bool:
    if wanted is None or got is None:
        return got is wanted
    if isinstance(wanted, tuple):
        return all(same(x, y) for x, y in zip(got.item(), wanted, strict=True))
    return got == wanted or (got != got and wanted != wanted)


class Pair:
    """Runs, and lists that say what they must hold."""

    def __init__(self, aggregations: dict, kind: object, *, plain: bool) -> None:
        self.aggregations, self.kind, self.plain = aggregations, kind, plain
        self.runs = Runs(aggregations, {"v": kind}, plain=plain)
        self.lists: list[list] = [[] for _ in range(SLOTS)]

    def add(self, rows: list) -> None:
        self.runs.add(slots_of([slot for slot, _ in rows]), {"v": column_of([v for _, v in rows], self.kind)})
        for slot, value in rows:
            if value is not None:
                self.lists[slot].append(value)

    def merge(self, pairs: list) -> None:
        self.runs.merge(slots_of([a for a, _ in pairs]), slots_of([b for _, b in pairs]))
        for a, b in pairs:
            if a != b:
                self.lists[a] += self.lists[b]
                self.lists[b] = []

    def free(self, slots: list) -> None:
        self.runs.free(slots_of(slots))
        for slot in slots:
            self.lists[slot] = []

    def reload(self, _: None) -> None:
        state = self.runs.save()
        kept = {name: array.copy() for name, array in state.items()}
        fresh = Runs(self.aggregations, {"v": self.kind}, plain=self.plain)
        fresh.add(slots_of([1]), {"v": column_of([1], self.kind)})
        fresh.load(state)
        self.add([(0, 1)])
        self.lists[0].pop()
        assert all(np.array_equal(state[name], kept[name]) for name in kept)
        self.runs = fresh

    def answer(self, asked: tuple) -> None:
        slots, windows = asked
        first, last = slots_of([a for a, _ in windows]), slots_of([b for _, b in windows])
        raw = self.runs.answer(first, last, slots_of(list(slots)))
        for (name, aggregation), (values, valid) in zip(self.aggregations.items(), raw, strict=True):
            for i, (a, b) in enumerate(windows):
                held = [v for slot in slots[a:b] for v in self.lists[slot]]
                got = None if valid is not None and not valid[i] else values[i]
                wanted = expected(aggregation, held, self.kind)
                assert same(got, wanted), f"{name} of {held}: {got!r}, not {wanted!r}"

    def play(self, script: list) -> None:
        for word, argument in script:
            getattr(self, word)(argument)
            self.runs.check()
        self.answer((list(range(SLOTS)), [(0, SLOTS), *((i, i + 1) for i in range(SLOTS))]))
        self.runs.check()


@settings(max_examples=examples(60))
@given(operations(FLOATS))
@example([("add", [(0, math.nan)] * 2 + [(1, -math.inf), (1, math.inf)]), ("merge", [(0, 1), (0, 1), (2, 0)])])
def test_floats_as_plain_python(script: list) -> None:
    Pair({**ALL, "skipped": agg.median("v", skip_nan=True)}, FLOAT64, plain=True).play(script)


@settings(max_examples=examples(60))
@given(operations(st.one_of(FLOATS, st.integers(0, 5).map(float))))
def test_selection_by_pivots_alone(script: list) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_FEW", 1)
        Pair({**ALL, "skipped": agg.median("v", skip_nan=True)}, FLOAT64, plain=True).play(script)


@settings(max_examples=examples(100))
@given(operations(INTS))
def test_integers_as_plain_python(script: list) -> None:
    Pair(FEW, INT64, plain=True).play(script)


@settings(max_examples=examples(60))
@given(st.sampled_from([FLOAT64, INT64]), st.data())
@pytest.mark.compiled
def test_compiled(kind: object, data: st.DataObject) -> None:
    Pair(FEW, kind, plain=False).play(data.draw(operations(ROWS[kind])))


@pytest.mark.parametrize("dtype", ["f4", "u8", "i4", "u1", "i2", "?"])
def test_every_type_of_number_keeps_its_order(dtype: str) -> None:
    kind = numpy_type(dtype)
    rng = np.random.default_rng(3)
    if kind.physical.kind == "f":
        values = [*rng.standard_normal(50).astype(dtype).tolist(), math.inf, -math.inf, math.nan, 0.0]
    elif dtype == "?":
        values = [True, False, True]
    else:
        info = np.iinfo(kind.physical)
        values = [info.min, info.max, 0, *rng.integers(info.min, info.max, 50, kind.physical, endpoint=True).tolist()]
    pair = Pair(FEW, kind, plain=True)
    pair.play([("add", [(i % SLOTS, v) for i, v in enumerate(values)])])
    keys = OrderKeys(kind.physical).of(np.sort(np.array(values, dtype)))
    assert (np.diff(keys.astype(object)) >= 0).all()


@pytest.mark.parametrize(
    ("logical", "plain"),
    [(pa.timestamp("us"), True), (pa.date32(), True), (pa.duration("ms"), True), (pa.date32(), False)],
)
def test_times(logical: pa.DataType, plain: bool) -> None:
    kind = column_type(logical)
    runs = Runs({"middle": upper_middle("v")}, {"v": kind}, plain=plain)
    ticks = pa.array([30, None, -10, 20], pa.int32() if kind.physical.itemsize == 4 else pa.int64())
    runs.add(slots_of([0, 0, 1, 0]), {"v": read_column(ticks.cast(logical), "v")})
    [(values, valid)] = runs.answer(slots_of([0, 1, 2]), slots_of([2, 2, 3]), slots_of([0, 1, 2]))
    assert values[:2].tolist() == [20, -10]
    assert valid.tolist() == [True, True, False]


@pytest.mark.compiled
def test_types_compiled() -> None:
    for dtype in ("f4", "?"):
        kind = numpy_type(dtype)
        pair = Pair({"q": agg.quantile("v", 0.5)}, kind, plain=False)
        pair.play([("add", [(i % SLOTS, i % 2) for i in range(20)])])
        assert len(pair.runs) == SLOTS  # the rows of a slot are all odd, or all even


def test_the_uncompiled_block_runs_the_same_source() -> None:
    with cache.uncompiled():
        Pair(FEW, FLOAT64, plain=False).play([("add", [(0, 3.0), (1, None), (1, 1.0)]), ("free", [0])])


def test_a_users_own_answer_may_be_any_object() -> None:
    @agg.define(state="sorted", commutative=True)
    class ends_of:
        def lower(s):
            return [float(s[0]), float(s[-1])]

    runs = Runs({"ends": ends_of("v")}, {"v": FLOAT64})
    runs.add(slots_of([0, 1]), {"v": column_of([2.0, 1.0], FLOAT64)})
    [(values, _)] = runs.answer(slots_of([0]), slots_of([2]), slots_of([0, 1]))
    assert values[0] == [1.0, 2.0]


SHAPES = {
    "alike": lambda rng, run: rng.standard_normal(2000),
    "apart": lambda rng, run: run * 10.0 + rng.random(500),
    "few values": lambda rng, run: rng.integers(0, 37, 2000).astype(float),
    "one value": lambda rng, run: np.full(300, 4.0),
    "one heavy": lambda rng, run: np.where(rng.random(1000) < 0.99, 5.0, rng.standard_normal(1000)),
    "single rows": lambda rng, run: rng.standard_normal(1),
    "uneven": lambda rng, run: rng.exponential(1.0 + run, 1 + run % 7 * 400),
    "denormal": lambda rng, run: rng.standard_normal(500) * 10.0 ** rng.integers(-300, 300, 500),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 60, 1000])
@pytest.mark.compiled
def test_windows_of_many_runs(shape: str, count: int) -> None:
    rng = np.random.default_rng(5)
    rows = [SHAPES[shape](rng, run) for run in range(count)]
    values = np.concatenate(rows)
    slots = np.repeat(np.arange(count), [len(each) for each in rows])
    runs = Runs(FEW, {"v": FLOAT64})
    mixed = rng.permutation(len(values))
    for part in np.array_split(mixed, 3):
        runs.add(slots[part], {"v": Column(values[part], None, FLOAT64)})
    raw = runs.answer(slots_of([0, count // 2]), slots_of([count, count]), np.arange(count))
    runs.check()
    for i, held in enumerate((values, np.concatenate(rows[count // 2 :]))):
        ordered = np.sort(held)
        assert raw[0][0][i] == np.median(held)
        assert raw[1][0][i] == FEW["q"].lower(ordered)
        if len(held) > 2:
            assert raw[2][0][i] == pytest.approx(math.fsum(ordered[1:-1]) / (len(held) - 2), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 7, 60])
@pytest.mark.slow
def test_a_value_takes_few_pivots(shape: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    rows = [SHAPES[shape](rng, run) for run in range(count)]
    values = np.concatenate(rows)
    runs = Runs(QUANTILES, {"v": FLOAT64}, plain=True)
    runs.add(np.repeat(np.arange(count), [len(each) for each in rows]), {"v": Column(values, None, FLOAT64)})
    module = runs._groups[0].binding.kernels(SELECTION, "answer_windows", sorted_store=True)
    pivots = []
    look_up = module.look_up
    monkeypatch.setattr(module, "look_up", lambda *given: pivots.append(given[-1]) or look_up(*given))
    raw = runs.answer(slots_of([0]), slots_of([count]), np.arange(count))
    assert [each[0][0] for each in raw] == [each.lower(np.sort(values)) for each in QUANTILES.values()]
    # Two neighbours may lie on both sides of what was sorted, so that each quantile may select twice.
    assert len(pivots) <= 2 * len(QUANTILES) * (8 + 2 * math.log2(len(values)))


@settings(max_examples=examples(60))
@given(st.lists(INTS, min_size=49, max_size=400), st.integers(0, 62))
def test_sorting_by_digits(keys: list[int], shift: int) -> None:
    kernels = cache.load(arena_module._generated(), compiled=True)
    array = np.array(keys, np.int64) >> shift
    wanted = np.sort(array)
    kernels.sort_many(array, np.zeros_like(array), 0, len(array), np.zeros(2048, np.int64))
    assert np.array_equal(array, wanted)


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_sorting_many_rows_by_wide_digits(scale: float) -> None:
    kernels = cache.load(arena_module._generated(), compiled=True)
    values = np.random.default_rng(1).standard_normal(10_000) * scale
    keys = OrderKeys(np.dtype("f8")).of(values)
    kernels.sort_many(keys, np.zeros_like(keys), 0, len(keys), np.zeros(2048, np.int64))
    assert np.array_equal(keys, OrderKeys(np.dtype("f8")).of(np.sort(values)))


@pytest.mark.compiled
def test_the_log_is_merged_before_it_outgrows_the_runs() -> None:
    runs = Runs(FEW, {"v": INT64})
    values = np.arange(100_000) % 37
    for _ in range(40):
        runs.add(np.zeros(100_000, np.int64), {"v": Column(values, None, INT64)})
    assert len(runs) <= 3 * 2**18
    assert runs.bytes < 32e6  # the four million rows alone are 32 MB
    runs.answer(slots_of([0]), slots_of([1]), slots_of([0]))
    assert len(runs) == 37


@pytest.mark.compiled
def test_space_of_freed_slots_is_used_again() -> None:
    runs = Runs(FEW, {"v": INT64})
    sizes = []
    for push in range(300):
        slot = slots_of([push % 10])
        runs.free(slot)
        runs.add(np.repeat(slot, 5000), {"v": Column(np.arange(5000) * push, None, INT64)})
        [(values, _), *_] = runs.answer(slots_of([0]), slots_of([1]), slot)
        assert values[0] == 2499.5 * push
        sizes.append(runs.bytes)
    runs.check()
    assert max(sizes[150:]) == sizes[149]


def test_slots_never_seen_are_empty() -> None:
    runs = Runs(FEW, {"v": INT64})
    raw = runs.answer(slots_of([0, 0]), slots_of([0, 2]), slots_of([5, 1000]))
    assert not raw[0][1].any()
    runs.free(slots_of([7]))
    runs.merge(slots_of([3]), slots_of([4000]))
    assert len(runs) == 0


@pytest.mark.parametrize("dtype", ["f8", "f4", "u8"])
def test_a_push_of_nulls_only_adds_nothing(dtype: str) -> None:
    runs = Runs(FEW, {"v": numpy_type(dtype)}, plain=True)
    runs.add(slots_of([0, 1]), {"v": read_column(pa.nulls(2), "v")})
    raw = runs.answer(slots_of([0]), slots_of([2]), slots_of([0, 1]))
    assert len(runs) == 0
    assert not any(valid.any() for _, valid in raw)


def test_what_is_not_kept_as_runs_is_refused() -> None:
    assert not keeps_runs(agg.quantile("v", 0.5), {"v": column_type(pa.decimal128(5, 2))})
    with pytest.raises(UnsupportedOperationError, match=r"agg\.sum\('v'\) over int64"):
        Runs({"s": agg.sum("v")}, {"v": INT64})


@pytest.mark.parametrize("damage", ["keys", "ends", "lengths", "_pending", "_counters"])
def test_check_finds_damage(damage: str) -> None:
    runs = Runs(FEW, {"v": INT64}, plain=True)
    runs.add(slots_of([0, 0, 1]), {"v": column_of([1, 2, 3], INT64)})
    runs.answer(slots_of([0]), slots_of([1]), slots_of([0]))
    array = getattr(runs._groups[0].arena, damage)
    array[1] += 5
    with pytest.raises(InvariantError, match="it is not so that"):
        runs.check()
