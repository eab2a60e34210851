"""One of each kind of addition, made from outside the package with nothing but its public seams.

Each is a class (and, where it needs a name, one call of `register`), and is compared with plain recomputation wherever
it can be used: in `run`, `stream` and `explain`. CONTRIBUTING.md points here.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, aggregators, window
from muntin.aggregators.choose import Chosen
from muntin.aggregators.ring import RingAggregator
from muntin.aggregators.table import TABLE
from muntin.errors import InvalidArgumentError, LeaseError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.kernels.vocabulary import combine, emit, hold, inlined, kernel, load, store
from muntin.stores.base import Lease, Store, numbered
from muntin.streams.plan import STRATEGIES
from muntin.streams.plan import register as register_strategy
from muntin.streams.strategy import Strategy
from muntin.tables.answers import Answers

SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64(), "departs": pa.bool_()})


@pytest.fixture(autouse=True)
def _plain(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("compiled"):
        yield
        return
    with uncompiled():
        yield


def rows_of(seed: int, count: int = 60, *, ordered: bool = True) -> list[dict[str, Any]]:
    """Return random rows of `SCHEMA`, whose times are unique; out of order by up to ten units unless `ordered`."""
    chance = random.Random(seed)
    times = sorted(chance.sample(range(200), count))
    rows = [{"t": t, "v": chance.randrange(-50, 50), "departs": chance.random() < 0.2} for t in times]
    return rows if ordered else sorted(rows, key=lambda row: row["t"] + chance.randrange(10))


def in_pushes(stream: Any, rows: list[dict[str, Any]], size: int = 7) -> list[dict[str, Any]]:
    """Push rows in small tables and close the stream; return all that it emits."""
    tables = [pa.Table.from_pylist(rows[i : i + size], SCHEMA) for i in range(0, len(rows), size)]
    return [row for part in (*map(stream.push, tables), stream.close()) for row in part.to_pylist()]


def spans(answers: list[dict[str, Any]], name: str, window_id: int = 0) -> dict[tuple[int, int], Any]:
    """Return the last answer for each window, by its start and end."""
    mine = [row for row in answers if row["window_id"] == window_id]
    return {(row["window"]["start"], row["window"]["end"]): row[name] for row in mine}


def recomputed(rows: list[dict[str, Any]], windows: list[tuple[int, int]], fold: Any) -> dict[tuple[int, int], Any]:
    """Return what a function makes of the values in each window, of those that hold a row."""
    values = {span: [row["v"] for row in rows if span[0] <= row["t"] < span[1]] for span in windows}
    return {span: fold(each) for span, each in values.items() if each}


# ---------------------------------------------------------------- an aggregation


@agg.define(state={"total": "i8", "squares": "i8"})
class power:
    """The sum of squares, and the square of the sum less it."""

    def lift(v):
        return (v, v * v)

    def combine(a, b):
        return (a.total + b.total, a.squares + b.squares)

    def lower(s):
        return s.total * s.total - s.squares

    def invert(a, b):
        return (a.total - b.total, a.squares - b.squares)

    def neutral():
        return (0, 0)


def power_of(values: list[int]) -> int:
    return sum(values) ** 2 - sum(v * v for v in values)


@pytest.mark.parametrize("seed", range(3))
def test_an_aggregation(seed: int) -> None:
    rows = rows_of(seed, ordered=False)
    query = Query(window.sliding(20, every=5), {"power": power("v")}, time="t", watermark=20)
    expected = recomputed(rows, [(start, start + 20) for start in range(-20, 220, 5)], power_of)
    assert spans(query.run(pa.Table.from_pylist(rows, SCHEMA)).to_pylist(), "power") == expected
    assert spans(in_pushes(query.stream(), rows), "power") == expected
    assert "power('v')" in str(query.explain(SCHEMA))


# ---------------------------------------------------------------- an aggregator


@inlined
def push(window: Any, time: int, state: Any) -> None:
    slots, times, marks = window.slots, window.times, window.marks
    at = marks[1] & (len(slots) - 1)
    store(slots, at, state)
    times[at] = time
    marks[1] += 1


@inlined
def pop(window: Any) -> None:
    window.marks[0] += 1


@inlined
def fold_back(slots: Any, begin: int, end: int) -> Any:
    last = len(slots) - 1
    state = hold(load(slots, (end - 1) & last))
    for at in range(end - 2, begin - 1, -1):
        state = combine(load(slots, at & last), state)
    return state


@inlined
def total(window: Any) -> Any:
    return fold_back(window.slots, window.marks[0], window.marks[1])


@kernel
def answer_range(window: Any, begin: int, end: int, outputs: Any) -> None:
    emit(outputs, 0, fold_back(window.slots, begin, end))


class Backwards(RingAggregator):
    """Folds the window at each query, from the youngest row to the oldest."""

    structure: ClassVar[tuple[Any, ...]] = (push, pop, fold_back, total, answer_range)
    entries: ClassVar[tuple[str, ...]] = ("answer_range",)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        self._module.answer_range(self._window, begin, end, outputs)


@pytest.fixture
def _backwards() -> Iterator[None]:
    aggregators.register(aggregators.Entry("backwards", Backwards, insert="0", evict="0", query="n - 1", memory="n"))
    yield
    del TABLE["backwards"]


def test_an_aggregator_by_itself() -> None:
    held = Backwards(agg.concat("v"))
    held.bulk_insert(range(5), "abcde")
    held.evict()
    assert (held.query(), held.range_query(2, 3)) == ("bcde", "cd")
    again = Backwards.restore(held.snapshot(), agg.concat("v"))
    again.check()
    assert again.query() == "bcde"


@pytest.mark.compiled
@pytest.mark.usefixtures("_backwards")
def test_an_aggregator_in_slide() -> None:
    values = np.random.default_rng(1).integers(-50, 50, 40)
    expected = [power_of(values[max(0, i - 6) : i + 1].tolist()) for i in range(40)]
    for name in ("backwards", "Backwards"):
        assert muntin.slide(values, power("v"), range=7, aggregator=name).tolist() == expected
    assert "by backwards, as was asked for" in muntin.explain(values, power("v"), range=7, aggregator="backwards")
    words = [chr(97 + i) for i in range(10)]
    joined = muntin.slide(words, agg.concat("v"), range=3, aggregator="backwards")
    assert list(joined) == ["".join(words[max(0, i - 2) : i + 1]) for i in range(10)]


@pytest.mark.usefixtures("_backwards")
@pytest.mark.parametrize("seed", range(3))
def test_an_aggregator_that_merges_slices(seed: int) -> None:
    rows = rows_of(seed, ordered=False)
    query = Query(window.sliding(20, every=5), {"power": power("v")}, time="t", watermark=20)
    expected = recomputed(rows, [(start, start + 20) for start in range(-20, 220, 5)], power_of)
    assert spans(in_pushes(query.stream(merge="backwards"), rows), "power") == expected
    assert query.explain(SCHEMA, merge="backwards").stores[0].merge[0].aggregator == "backwards"


def test_an_aggregator_that_is_not_registered() -> None:
    query = Query(window.sliding(20, every=5), {"n": agg.count()}, time="t")
    with pytest.raises(InvalidArgumentError, match="there is no merge 'backwards'"):
        query.stream(merge="backwards")
    with pytest.raises(InvalidArgumentError, match="there is no aggregator 'backwards'"):
        muntin.slide(np.arange(3), agg.count(), range=2, aggregator="backwards")


# ---------------------------------------------------------------- windows


class Shifts(window.ContextFree):
    """Shifts of eight: from 6 to 14, 14 to 22, 22 to 30, ..."""

    def next_edge(self, t: int) -> int:
        return (t - 6) // 8 * 8 + 14

    def ended(self, previous: int, watermark: int) -> Iterator[tuple[int, int]]:
        end = self.next_edge(previous)
        while end <= watermark:
            yield end - 8, end
            end += 8


class Trips(window.ContextAware):
    """A trip begins with each row that says so."""

    columns = ("departs",)

    def on_tuple(self, t: int, values: Any, edges: Any) -> None:
        if values["departs"]:
            edges.add(t)


SHIFTS = [(start, start + 8) for start in range(-2, 220, 8)]


@pytest.mark.parametrize("seed", range(3))
def test_a_window_of_fixed_edges(seed: int) -> None:
    rows = rows_of(seed, ordered=False)
    query = Query([window.tumbling(24), Shifts()], {"total": agg.sum("v")}, time="t", watermark=20)
    expected = recomputed(rows, SHIFTS, sum)
    assert spans(query.run(pa.Table.from_pylist(rows, SCHEMA)).to_pylist(), "total", 1) == expected
    assert spans(in_pushes(query.stream(), rows), "total", 1) == expected
    explained = query.explain(SCHEMA).windows[1]
    assert (explained.strategy, explained.kept, explained.context) == ("slices", "nothing", "context free")


@pytest.mark.parametrize("seed", range(3))
def test_a_window_whose_edges_rows_tell(seed: int) -> None:
    rows = rows_of(seed)
    rows[0]["departs"] = True
    query = Query([Trips(), window.tumbling(24)], {"total": agg.sum("v")}, time="t", watermark=20)
    edges = [row["t"] for row in rows if row["departs"]]
    expected = list(recomputed(rows, [*zip(edges, [*edges[1:], 1000], strict=True)], sum).values())
    answers = query.run(pa.Table.from_pylist(rows, SCHEMA)).to_pylist()
    assert list(spans(answers, "total").values()) == expected
    assert list(spans(in_pushes(query.stream(), rows), "total").values()) == expected
    explained = query.explain(SCHEMA).windows[0]
    assert (explained.must_keep, explained.edges) == ("rows", None)
    assert "where the rows put them" in str(query.explain(SCHEMA))


# ---------------------------------------------------------------- a strategy


class Hoard(Strategy):
    """Keeps all rows of shifts until these end, and then hands them to an aggregator. No row may be late."""

    keeps = "rows"

    def __init__(self, plan: Any) -> None:
        super().__init__(plan)
        self.rows: list[tuple[int, ...]] = []
        self.columns = sorted(plan.types)

    @classmethod
    def can(cls, plan: Any) -> str | None:
        for each in plan.windows.values():
            if not isinstance(each, Shifts):
                return f"a hoard answers shifts, and {each!r} is none"
        return "a hoard is complete, or it is none" if plan.early or plan.lateness else None

    def take(self, batch: Any, watermark: int) -> Any:
        taken = np.array([Shifts().next_edge(t) > watermark for t in batch.times.tolist()], np.bool_)
        columns = [batch.columns[name].values for name in self.columns]
        rows = zip(*(each[taken].tolist() for each in (batch.keys, batch.times, *columns)), strict=True)
        self.rows = sorted([*self.rows, *rows])
        return taken

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        due: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
        for row in self.rows:
            due[row[0], Shifts().next_edge(row[1])].append(row)
        self.rows = [row for (_, end), rows in due.items() if end > watermark for row in rows]
        return [self._answer(key, end, rows) for (key, end), rows in due.items() if end <= watermark]

    def _answer(self, key: int, end: int, rows: list[tuple[int, ...]]) -> Answers:
        held = aggregators.Recalculate(self.plan.aggregates)
        columns = {name: [row[2 + i] for row in rows] for i, name in enumerate(self.columns)}
        held.bulk_insert([row[1] for row in rows], columns)
        (i,) = self.plan.windows
        one = [np.array([each]) for each in (key, i, end - 8, end)]
        return Answers(*one, {n: pa.array([v]) for n, v in held.query().items()}, np.zeros(1, int), np.zeros(1, bool))

    def held_keys(self) -> Any:
        return np.unique(np.array([row[0] for row in self.rows], np.int64))

    def save(self) -> dict[str, Any]:
        return {"rows": np.array(self.rows, np.int64).ravel()}

    def load(self, state: Any) -> None:
        self.rows = [tuple(row) for row in state["rows"].reshape(-1, 2 + len(self.columns)).tolist()]

    def merged_by(self) -> Iterator[Chosen]:
        yield Chosen(tuple(self.plan.aggregates), "recalculate", "a hoard is folded once")

    def metrics(self) -> dict[str, int]:
        return {"kept": len(self.rows)}

    def check(self) -> None:
        assert self.rows == sorted(self.rows)


@pytest.fixture
def _hoard() -> Iterator[None]:
    register_strategy("hoard", Hoard)
    yield
    del STRATEGIES["hoard"]


@pytest.mark.usefixtures("_hoard")
@pytest.mark.parametrize("seed", range(3))
def test_a_strategy(seed: int) -> None:
    rows = rows_of(seed, ordered=False)
    query = Query([Shifts(), window.session(5)], {"power": power("v")}, time="t", watermark=10)
    expected = recomputed(rows, SHIFTS, power_of)
    stream = query.stream(strategy="hoard")
    head, tail = rows[:30], rows[30:]
    answers = stream.push(pa.Table.from_pylist(head, SCHEMA)).to_pylist()
    stream = query.stream(stream.snapshot(), strategy="hoard")
    answers += in_pushes(stream, tail)
    assert spans(answers, "power") == expected
    sessions = spans(in_pushes(query.stream(), rows), "power", 1)
    assert spans(answers, "power", 1) == sessions


@pytest.mark.usefixtures("_hoard")
def test_a_strategy_explains_itself() -> None:
    query = Query([Shifts(), window.session(5)], {"power": power("v")}, time="t")
    explained = query.explain(SCHEMA, "hoard")
    assert [each.strategy for each in explained.windows] == ["hoard", "slices"]
    assert explained.windows[0].kept == "rows"
    assert "a hoard answers shifts" in explained.windows[1].not_by["hoard"]
    assert "power by recalculate (a hoard is folded once)" in str(explained)
    assert query.explain(SCHEMA).windows[0].strategy == "slices"  # it is taken only when it is asked for
    with pytest.raises(UnsupportedOperationError, match="'hoard' can answer none"):
        Query(window.session(5), {"n": agg.count()}, time="t").explain(SCHEMA, "hoard")


# ---------------------------------------------------------------- a store


class Shelf(Store):
    """A dict, in which values are kept backwards."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.held: set[bytes] = set()

    def get_many(self, keys: Any) -> list[bytes | None]:
        found = [self.values.get(key) for key in keys]
        return [None if each is None else each[::-1] for each in found]

    def put_many(self, items: Any) -> None:
        self.values.update({key: value[::-1] for key, value in items.items()})

    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        return sum(self.values.pop(numbered(prefix, n), None) is not None for n in range(start, stop))

    def flush(self) -> None:
        """Nothing is more durable than it is at once."""

    def lease(self, name: bytes) -> Lease:
        if name in self.held:
            raise LeaseError(f"{name!r} is on the shelf")
        self.held.add(name)
        return ShelfLease(self.held, name)


class ShelfLease(Lease):
    def __init__(self, held: set[bytes], name: bytes) -> None:
        self.held, self.name = held, name

    def release(self) -> None:
        self.held.discard(self.name)


def test_a_store() -> None:
    shelf, values = Shelf(), np.random.default_rng(2).integers(-50, 50, 500).tolist()
    with aggregators.MonoidTree(power("v"), store=shelf, window_id="w", chunk_pairs=4) as held:
        held.bulk_insert(range(400), values[:400])
        held.bulk_evict(99)
        assert held.query() == power_of(values[100:400])
        with pytest.raises(LeaseError):
            aggregators.MonoidTree.open(shelf, "w", power("v"))
    assert shelf.values
    assert not shelf.held
    with aggregators.MonoidTree.open(shelf, "w", power("v")) as again:
        again.bulk_insert(range(400, 500), values[400:])
        again.bulk_evict(249)
        assert again.query() == power_of(values[250:])
        assert again.range_query(300, 449) == power_of(values[300:450])
