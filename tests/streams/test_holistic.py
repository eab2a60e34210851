"""Holistic aggregates of windows that move: multisets against counters, streams against recomputation, and the work."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sampling import examples

from muntin import Query, agg, rows, window
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.errors import InvariantError
from muntin.kernels.cache import load_fresh, uncompiled
from muntin.kernels.generate import standalone
from muntin.query.plan import Plan
from muntin.streams.plan import STRATEGIES
from muntin.streams.rows import holistic, multisets, numbering
from muntin.streams.rows.holistic import MovingWindows
from muntin.streams.rows.multisets import SET, USED, Multisets, add_value, clear, remove_value, value_at
from muntin.streams.rows.numbering import Tokens
from muntin.streams.rows.rows import Rows


class ReadAgain(Rows):
    """Rows in order whose holistic aggregates read all rows of their windows again."""

    def _bound(self, plan: Plan) -> tuple[list[Binding], dict[str, Aggregation], dict[str, Aggregation]]:
        bindings, apart, moving = super()._bound(plan)
        return bindings, {**apart, **moving}, {}


@pytest.fixture(autouse=True, scope="module")
def reads_again() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STRATEGIES, "read again", ReadAgain)
        yield


SETS = 3
KERNELS = load_fresh(
    standalone(add_value, remove_value, clear, value_at, within=(*multisets.ARENA, *multisets.CHANGES, multisets.reach))
)


class Sets(RuleBasedStateMachine):
    """Values added to three multisets and removed from them, in small nodes, with reads by rank in between."""

    @initialize(width=st.sampled_from([4, 4, 8, 64]))
    def begin(self, width: int) -> None:
        self.held = multisets.with_sets(Multisets.empty(width), SETS)
        self.model: list[Counter[int]] = [Counter() for _ in range(SETS)]

    @rule(
        which=st.integers(0, SETS - 1),
        values=st.one_of(
            st.lists(st.integers(-20, 20), max_size=60),
            st.integers(-500, 500).map(lambda first: list(range(first, first + 60))),
            st.lists(st.sampled_from([-(2**63), -1, 0, 2**63 - 1]), max_size=4),
        ),
    )
    def add(self, which: int, values: list[int]) -> None:
        self.held = multisets.with_room(self.held, len(values))
        for value in values:
            KERNELS.add_value(self.held, which * SET, value)
            self.model[which][value] += 1

    @rule(which=st.integers(0, SETS - 1), data=st.data(), share=st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    def remove(self, which: int, data: st.DataObject, share: float) -> None:
        values = sorted(self.model[which].elements())
        for value in data.draw(st.permutations(values))[: int(len(values) * share)]:
            KERNELS.remove_value(self.held, which * SET, value)
            self.model[which][value] -= 1
        self.model[which] += Counter()

    @rule(which=st.integers(0, SETS - 1))
    def empty(self, which: int) -> None:
        KERNELS.clear(self.held, which * SET)
        self.model[which].clear()

    @rule(which=st.integers(0, SETS - 1), data=st.data())
    def read(self, which: int, data: st.DataObject) -> None:
        values = sorted(self.model[which].elements())
        ranks = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=9)) if values else []
        assert [KERNELS.value_at(self.held, which * SET, rank) for rank in ranks] == [values[rank] for rank in ranks]

    @invariant()
    def values_are_those_of_the_model(self) -> None:
        for which in range(SETS) if hasattr(self, "held") else ():
            assert multisets.wrong(self.held, which) is None
            values, weights = multisets.contents(self.held, which)
            assert dict(zip(values.tolist(), weights.tolist(), strict=True)) == self.model[which]


TestSets = Sets.TestCase
TestSets.settings = settings(max_examples=examples(60), stateful_step_count=20, deadline=None)


def test_nodes_of_emptied_sets_are_used_again() -> None:
    held = multisets.with_room(multisets.with_sets(Multisets.empty(4), 1), 2_000)
    for _ in range(5):
        for value in range(200):
            KERNELS.add_value(held, 0, value)
        KERNELS.clear(held, 0)
        used = int(held.marks[USED])
    for value in range(200):
        KERNELS.add_value(held, 0, value)
    assert held.marks[USED] == used


@pytest.mark.parametrize("at", [multisets.COUNT, multisets.DISTINCT, multisets.BEFORE])
def test_check_finds_what_is_wrong(at: int) -> None:
    held = multisets.with_room(multisets.with_sets(Multisets.empty(4), 1), 100)
    for value in range(40):
        KERNELS.add_value(held, 0, value)
    KERNELS.value_at(held, 0, 20)
    assert multisets.wrong(held, 0) is None
    held.sets[at] += 1
    assert multisets.wrong(held, 0) is not None


# ---------------------------------------------------------------- streams


@agg.define(state="sorted", result={"lowest": "f8", "highest": "f8", "n": "i8"}, commutative=True)
class spread_of:
    def lower(s):
        return float(s[0]), float(s[-1]), len(s)


@agg.define(state="sorted", result="object", commutative=True)
class first_and_last:
    def lower(s):
        return [s[0], s[len(s) - 1]]


@agg.define(state="distinct", result="f8")
class half_of_distinct:
    def lower(s):
        return len(s) / 2


AGGREGATES = {
    "median": agg.median("v"),
    "q": agg.quantile("v", 0.9),
    "of_some": agg.median("v", where="flag"),
    "no_nan": agg.median("v", skip_nan=True),
    "spread": spread_of("v", skip_nan=True),
    "ends": first_and_last("i", where="flag"),
    "distinct": agg.count_distinct("v"),
    "of_some_distinct": agg.count_distinct("v", where="flag", skip_nan=True),
    "names": agg.count_distinct("name"),
    "some_names": agg.count_distinct("name", where="flag"),
    "half": half_of_distinct("i"),
    "top": agg.top_k("v", 2, skip_nan=True),
    "price": agg.median("price"),
    "total": agg.sum("i"),
    "first_name": agg.first("name"),
    "last_name": agg.max("name", where="flag"),
    "dear": agg.max("price"),
}
WINDOWS = [
    window.trailing(8),
    window.trailing(30, closed="left", delay=2),
    window.leading(6),
    window.frame(9, 4),
    window.trailing(rows(5)),
    window.frame(rows(6), rows(3)),
    window.sliding(rows(7), every=rows(2)),
    window.sliding(rows(4), every=rows(4)),
]
SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "t": pa.int64(),
        "v": pa.float64(),
        "i": pa.int16(),
        "name": pa.string(),
        "price": pa.decimal128(9, 2),
        "flag": pa.bool_(),
    }
)
ROWS = st.tuples(
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 1, 5, 25]),
    st.one_of(
        st.sampled_from([None, math.nan, math.inf, 1.0, 1.0, 2.0, -3.5]), st.floats(-9, 9).map(lambda v: v + 0.0)
    ),
    st.one_of(st.none(), st.integers(-4, 4)),
    st.one_of(st.none(), st.sampled_from(["a", "b", "c", "", "ö"])),
    st.one_of(st.none(), st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100)),
    st.one_of(st.none(), st.booleans(), st.just(value=True)),
)


def pushes(data: st.DataObject, most: int) -> Iterator[pa.Table]:
    """Yield pushes of rows, some of them late."""
    now = 0
    for drawn in data.draw(st.lists(st.lists(ROWS, max_size=most), min_size=2, max_size=8)):
        table = []
        for key, late, *values in drawn:
            now += late == 0
            table.append(dict(zip(SCHEMA.names, (key, now - late, *values), strict=True)))
        yield pa.Table.from_pylist(table, SCHEMA)


def shown(answers: pa.Table) -> list[str]:
    return sorted(map(repr, answers.to_pylist()))


def compare(query: Query, data: st.DataObject, most: int) -> None:
    """Compare each push with windows that are answered from all their rows; restore, fail and check on the way."""
    ours, other = query.stream(), query.stream(strategy="read again")
    for table in pushes(data, most):
        assert shown(ours.push(table)) == shown(other.push(table))
        ours.check()
        what = data.draw(st.sampled_from(["", "", "", "restore", "fail", "ahead", "forget"]))
        if what == "restore":
            ours = query.stream(ours.snapshot())
        elif what == "fail" and table.num_rows:
            point = strategy_of(ours).restore_point()
            strategy_of(ours).restore_point()
            point()
        elif what == "forget" and table.num_rows:
            time = table["t"][-1].as_py() + 100
            assert shown(ours.advance(time)) == shown(other.advance(time))
    assert shown(ours.close()) == shown(other.close())


def strategy_of(stream: Any) -> Rows:
    (strategy,) = stream._state.core.strategies
    assert isinstance(strategy, Rows)
    return strategy


@given(data=st.data())
@settings(max_examples=examples(60))
def test_random_streams(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True))
    windows = data.draw(st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=2, unique_by=repr))
    lateness = data.draw(st.sampled_from([0, 5, 30]))
    key = data.draw(st.sampled_from([None, "k"]))
    query = Query(windows, {n: AGGREGATES[n] for n in names}, key=key, time="t", allowed_lateness=lateness)
    with uncompiled():
        compare(query, data, 12)


@given(data=st.data())
@settings(max_examples=examples(9))
@pytest.mark.compiled
def test_random_streams_compiled(data: st.DataObject) -> None:
    """Many rows, so that windows move over several leaves of the tree, and nodes of a multiset."""
    windows = [window.trailing(300), window.frame(rows(250), rows(40))]
    query = Query(windows, {n: AGGREGATES[n] for n in FEW}, key="k", time="t", allowed_lateness=200)
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    ours, other = query.stream(), query.stream(strategy="read again")
    now = 0
    for _ in range(5):
        count = int(random.integers(1, 700))
        late = np.where(random.random(count) < 0.1, random.integers(0, 250, count), 0)
        values = random.integers(-50, 50, count) / 8 if random.random() < 0.5 else random.random(count)
        table = pa.table(
            {
                "k": random.integers(0, 2, count),
                "t": now + np.arange(count) - late,
                "v": pa.array(values, mask=random.random(count) < 0.1),
                "name": pa.array(random.integers(0, 40, count)).cast(pa.string()),
                "flag": random.random(count) < 0.7,
            }
        )
        now += count
        assert shown(ours.push(table)) == shown(other.push(table))
        ours.check()
    assert shown(ours.close()) == shown(other.close())


FEW = ("median", "q", "of_some", "distinct", "names")
TYPES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.decimal128(30, 2)),
)
OTHER_TYPES = (pa.string(), pa.binary(), pa.timestamp("us"), pa.date32(), pa.duration("s"), pa.list_(pa.int8()))


def of_type(kind: pa.DataType) -> pa.Array:
    """Return values of a type, the least and greatest of integers among them."""
    if pa.types.is_list(kind):
        return pa.array([[1], [1, 2], [1], None, [], [2], [1], []], kind)
    if pa.types.is_binary(kind):
        return pa.array([b"a", b"b", b"a", None, b"", b"c", b"a", b""], kind)
    if pa.types.is_boolean(kind):
        return pa.array([True, False, True, None, True, False, False, True], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else Decimal(v) for v in (0, 1, 3, None, -2, 0, 7, 5)], kind)
    if not pa.types.is_integer(kind):
        whole = pa.int32() if kind == pa.date32() else pa.int64()
        return pa.array([0, 1, 3, None, 2, 0, 7, 5], whole).cast(kind)
    info = np.iinfo(kind.to_pandas_dtype())
    least, most = int(info.min), int(info.max)
    return pa.array([least, most, 3, None, most - 1, least, 7, 5], kind)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", [*TYPES, *OTHER_TYPES], ids=str)
def test_values_of_every_type(kind: pa.DataType) -> None:
    """Compiled and plain kernels answer like `run` over the same rows."""
    aggregates: dict[str, Any] = {"distinct": agg.count_distinct("v")}
    if kind in TYPES:
        aggregates |= {"median": agg.median("v"), "q": agg.quantile("v", 0.4)}
        aggregates |= {} if kind == pa.uint64() else {"top": agg.top_k("v", 2)}  # Arrow makes no list of great ones
    query = Query(window.trailing(rows(4)), aggregates, time="t")
    table = pa.table({"t": [1, 2, 2, 4, 5, 6, 7, 8], "v": of_type(kind)})
    wanted = query.run(table)
    for context in (nullcontext(), uncompiled()):
        with context:
            stream = query.stream()
            pushed = [stream.push(table.slice(i, 2)) for i in (0, 2, 4, 6)]
            stream.check()
            pushed.append(stream.close())
        emitted = pa.concat_tables([each.select(wanted.column_names) for each in pushed])
        assert shown(emitted) == shown(wanted)


# ---------------------------------------------------------------- work


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the values that enter multisets and leave them, and the nodes that are searched for these."""
    found: Counter[str] = Counter()
    kernels: dict[Any, Any] = {}

    def counted(module: Any) -> Any:
        for name in ("add_value", "remove_value", "last_up_to"):
            setattr(module, name, counting(name, getattr(module, name)))
        return module

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            found[name] += 1
            return function(*arguments)

        return call

    def following(compiled: bool) -> Any:
        if "following" not in kernels:
            made = standalone(*holistic.FOLLOWING, within=holistic.WITHIN, counted=False)
            kernels["following"] = counted(load_fresh(made))
        return kernels["following"]

    def of_binding(binding: Binding, functions: Any, *entries: str, **flags: Any) -> Any:
        if functions is not holistic.ANSWERING:
            return kernels_of(binding, functions, *entries, **flags)
        key = id(binding)
        if key not in kernels:
            kernels[key] = counted(load_fresh(binding.generate(functions, *entries, **flags)))
        return kernels[key]

    kernels_of = Binding.kernels
    with uncompiled():
        monkeypatch.setattr(holistic, "following", following)
        monkeypatch.setattr(Binding, "kernels", of_binding)
        yield found


def spent(found: Counter[str]) -> Counter[str]:
    taken = Counter(found)
    found.clear()
    return taken


MOVING = [window.trailing, lambda n: window.trailing(rows(n)), window.leading, lambda n: window.frame(rows(n), rows(2))]


@pytest.mark.parametrize("kind", range(len(MOVING)))
@pytest.mark.parametrize("name", ["median", "distinct", "names"])
def test_no_push_costs_what_is_held(kind: int, name: str, counts: Counter[str]) -> None:
    """A row in order enters and leaves once, and searches a node of each level, however many rows are held."""
    for n in (200, 1_600):
        query = Query(MOVING[kind](n), {name: AGGREGATES[name]}, time="t", allowed_lateness=n)
        values = np.random.default_rng(n).permutation(3 * n)
        names = pa.array(values).cast(pa.string())
        table = pa.table({"t": np.arange(3 * n), "v": values.astype(float), "name": names})
        stream = query.stream()
        stream.push(table[: 2 * n])
        spent(counts)
        for i in range(2 * n, 2 * n + 20):
            stream.push(table.slice(i, 1))
            taken = spent(counts)
            assert taken["add_value"] <= 2
            assert taken["remove_value"] <= 2
            assert taken["last_up_to"] <= 4 * 3
        stream.push(table.slice(2 * n + 20, n // 2))
        taken = spent(counts)
        assert taken["add_value"] <= n // 2 + 2
        assert taken["remove_value"] <= n // 2 + 2
        stream.check()


def test_a_late_row_walks_back_over_the_frames_that_hold_it(counts: Counter[str]) -> None:
    """Not over the whole frame: the 40 frames after it are revised, and the multiset goes there and back."""
    query = Query(window.trailing(rows(500)), {"x": agg.median("v")}, time="t", allowed_lateness=500)
    stream = query.stream()
    stream.push({"t": np.arange(1_000), "v": np.arange(1_000.0)})
    spent(counts)
    revised = stream.push({"t": [960], "v": [3.0]})
    assert revised.num_rows == 40
    assert spent(counts)["add_value"] <= 2 * 40 + 2


def test_keys_are_read_one_by_one(counts: Counter[str]) -> None:
    """Each key has a multiset of its own: rows that alternate between keys read nothing again."""
    query = Query(window.trailing(rows(100)), {"x": agg.median("v")}, key="k", time="t")
    stream = query.stream()
    stream.push({"t": np.arange(1_000), "v": np.arange(1_000.0), "k": np.arange(1_000) % 5})
    spent(counts)
    for i in range(1_000, 1_020):
        stream.push({"t": [i], "v": [1.0], "k": [i % 5]})
        assert spent(counts)["add_value"] <= 1


# ---------------------------------------------------------------- undone, forgotten, added


@agg.define(state="sorted", result="f8")
class below_hundred:
    def lower(s):
        if s[len(s) - 1] > 100:
            raise ValueError("it is too high")
        return float(s[0])


def test_a_push_that_fails_is_undone() -> None:
    query = Query(window.trailing(rows(4)), {"x": below_hundred("v"), "m": agg.median("v")}, key="k", time="t")
    with uncompiled():
        stream, other = query.stream(), query.stream(strategy="read again")
        for first in (0, 6, 12):
            table = {"t": range(first, first + 6), "v": [3, 1, 2, 9, 4, 7], "k": [0, 1, 0, 1, 0, 0]}
            with pytest.raises(Exception, match="it is too high"):
                stream.push({"t": [first, first + 1, first + 2], "v": [1, 2, 101], "k": [0, 1, 0]})
            stream.check()
            assert shown(stream.push(table)) == shown(other.push(table))


def test_values_of_forgotten_keys_leave() -> None:
    """Also where a key's last rows would stay, and where time alone takes them out of all frames."""
    windows = {"time": window.trailing(5), "rows": window.trailing(rows(3))}
    query = Query(windows, {"x": agg.median("v")}, key="k", time="t", forget_after=20)
    with uncompiled():
        stream = query.stream()
        stream.push({"t": [1, 2, 3], "v": [1.0, 2.0, 3.0], "k": ["a", "a", "b"]})
        stream.push({"t": [100], "v": [5.0], "k": ["c"]})
        stream.check()
        held = [each for group in moving(stream)._groups for each in group.held.values()]
        assert [int(each.sets[multisets.COUNT :: SET].sum()) for each in held] == [1, 1]
        assert stream.push({"t": [101], "v": [7.0], "k": ["a"]}).to_pylist()[0]["x"] == 7.0


def moving(stream: Any) -> MovingWindows:
    (group,) = strategy_of(stream).groups
    return group.store.moving


def test_integers_of_values_that_are_gone_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "_SPARE", 8)
    query = Query(window.trailing(rows(4)), {"x": agg.count_distinct("name")}, time="t")
    with uncompiled():
        stream, other = query.stream(), query.stream(strategy="read again")
        for first in range(0, 120, 6):
            table = {"t": range(first, first + 6), "name": [f"{(first + i) // 2}" for i in range(6)]}
            assert shown(stream.push(table)) == shown(other.push(table))
            stream.check()
    (group,) = moving(stream)._groups
    assert isinstance(group.numbering, Tokens)
    assert len(group.numbering._known) <= 2 * 12 + 8


def test_check_finds_other_values() -> None:
    with uncompiled():
        stream = Query(window.trailing(rows(3)), {"x": agg.median("v")}, time="t").stream()
        stream.push({"t": range(9), "v": [float(i) for i in range(9)]})
        store = strategy_of(stream).groups[0].store
        store.values["v"][:] = 5.0
        with pytest.raises(InvariantError, match="other values than its rows"):
            stream.check()


def test_a_definition_that_goes_takes_its_multisets_along() -> None:
    query = Query([window.trailing(rows(3)), window.trailing(rows(5))], {"x": agg.median("v")}, time="t")
    with uncompiled():
        stream = query.stream()
        stream.push({"t": range(9), "v": [float(i) for i in range(9)]})
        (group,) = moving(stream)._groups
        assert sorted(group.held) == [0, 1]
        stream.remove(0)
        assert sorted(group.held) == [1]
