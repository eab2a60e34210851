"""KeyTable against a dict of tuples: any types, any sequence of pushes, releases, undone pushes and snapshots."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin.errors import ColumnTypeError, InvalidArgumentError, InvariantError, SnapshotError
from muntin.kernels.cache import uncompiled
from muntin.keys.table import KeyTable, key_numbers
from muntin.snapshots import Snapshot

NAN, OTHER_NAN = np.array([0x7FF8000000000000, 0xFFF8000000000123], np.uint64).view(np.float64).tolist()
DAY = datetime.date(1969, 7, 20)
NOON = datetime.datetime(2024, 2, 28, 12, tzinfo=datetime.UTC)
PAIR = pa.struct([("a", pa.float64()), ("b", pa.string())])

VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.uint16(): [0, 1, 2**16 - 1],
    pa.int64(): [-(2**63), -1, 0, 1, 2**32, 2**33, 2**63 - 1],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.float16(): [np.float16(each) for each in (0.0, -0.0, math.nan, 1.5)],
    pa.float32(): [0.0, -0.0, NAN, OTHER_NAN, 1.5, math.inf],
    pa.float64(): [0.0, -0.0, NAN, OTHER_NAN, 1.5, -math.inf, 5e-324],
    pa.decimal128(5, 2): [decimal.Decimal("1.50"), decimal.Decimal("-1.50"), decimal.Decimal(0)],
    pa.decimal256(50, 1): [decimal.Decimal("1e40"), decimal.Decimal("0.1")],
    pa.string(): ["", "a", "\0", "a\0", "ß", "abcdefgh", "abcdefghi", "abcdefghj", "x" * 40, "x" * 39 + "y"],
    pa.large_string(): ["", "a", "long enough to be two words", "long enough to be two wordz"],
    pa.string_view(): ["", "a", "too long for the inside of a view"],
    pa.binary(): [b"", b"\0", b"\0\0", b"\xff" * 9],
    pa.large_binary(): [b"", b"\0"],
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.date32(): [DAY, DAY + datetime.timedelta(1)],
    pa.date64(): [DAY, DAY + datetime.timedelta(1)],
    pa.time32("s"): [datetime.time(1), datetime.time(2)],
    pa.time64("us"): [datetime.time(1, 2, 3, 4), datetime.time(2)],
    pa.timestamp("us", "Europe/Berlin"): [NOON, NOON.replace(year=1900)],
    pa.duration("ms"): [datetime.timedelta(1), datetime.timedelta(-1)],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([0, 30, 0])],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", ""],
    pa.dictionary(pa.int32(), pa.float64()): [0.5, 1.5],
    pa.run_end_encoded(pa.int32(), pa.string()): ["a", "b"],
    PAIR: [{"a": NAN, "b": "x"}, {"a": OTHER_NAN, "b": "x"}, {"a": None, "b": None}, {"a": 0.0, "b": ""}],
    pa.struct([]): [{}],
    pa.list_(pa.float64()): [[], [None], [0.0], [-0.0], [NAN, 1.0], [OTHER_NAN, 1.0]],
    pa.large_list(pa.string()): [["ab"], ["a", "b"], ["a", None], []],
    pa.list_(pa.list_(pa.string())): [[["a"], ["b"]], [["a", "b"]], [[], None], []],
    pa.list_(PAIR): [[{"a": 1.0, "b": "x"}], [{"a": 1.0, "b": None}], [None], []],
    pa.list_(pa.int8(), 2): [[1, 2], [2, 1], [None, 1]],
    pa.list_view(pa.int16()): [[1, 2], [1], []],
    pa.map_(pa.string(), pa.int8()): [[("a", 1)], [("a", None)], [("b", 1)], []],
    pa.null(): [],
    pa.uuid(): [b"0123456789abcdef", b"0123456789abcdeg"],
}
TYPES = list(VALUES)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type), run_end_type=kind.run_end_type)
    return pa.array(values, kind)


def canonical(value: Any) -> Any:
    """Return what stands for a value in a dict: equal where the keys are."""
    if isinstance(value, float | np.floating):
        return "nan" if math.isnan(value) else float(value) + 0.0
    if isinstance(value, dict):
        return "struct", *((name, canonical(each)) for name, each in value.items())
    if isinstance(value, list | tuple) and not isinstance(value, pa.MonthDayNano):
        return "list", *map(canonical, value)
    return value


def keys_of(columns: list[pa.Array], rows: int) -> list[Any]:
    """Return each row's key; the values as Arrow gives them, so that they are of the column's precision."""
    lists = [[canonical(value) for value in each.to_pylist()] for each in columns]
    return list(zip(*lists, strict=True)) if lists else [()] * rows


class Model:
    """A table beside a dict that says what it must answer."""

    def __init__(self, kinds: list[pa.DataType]) -> None:
        self.kinds, self.table, self.numbers = kinds, KeyTable(kinds), {}

    def push(self, columns: list[Any], rows: int) -> None:
        capacity = self.table.capacity
        numbers = self.table.numbers(columns, rows)
        assert numbers.dtype == np.int64
        for key, number in zip(keys_of(columns, rows), numbers.tolist(), strict=True):
            if key not in self.numbers:
                assert number not in self.numbers.values()
                self.numbers[key] = number
            assert self.numbers[key] == number
        assert self.table.capacity <= max(capacity, len(self.numbers)), "numbers below the capacity come first"
        self.agree()

    def undo(self, columns: list[Any], rows: int) -> None:
        restore, saved = self.table.restore_point(), self.table.save()
        self.table.numbers(columns, rows)
        restore()
        after = self.table.save()
        assert all(np.array_equal(saved[name], after[name]) for name in saved)
        self.agree()

    def release(self, places: list[int]) -> None:
        known = list(self.numbers)
        gone = {known[place % len(known)] for place in places} if known else set()
        self.table.release(np.array([self.numbers.pop(key) for key in gone], np.int64))
        self.agree()

    def restore(self) -> None:
        state = Snapshot.decode(Snapshot({}, [], "", self.table.save()).encode()).arrays
        other = KeyTable(self.kinds)
        other.load(state)
        again = other.save()
        assert all(np.array_equal(state[name], again[name]) for name in state)
        self.table = other
        self.agree()

    def agree(self) -> None:
        self.table.check()
        assert len(self.table) == len(self.numbers)
        assert self.table.capacity == max(self.numbers.values(), default=-1) + 1
        taken = self.table.take(np.array(list(self.numbers.values()), np.int64))
        assert [each.type for each in taken] == self.kinds
        for each in taken:
            each.validate(full=True)
        assert keys_of(taken, len(self.numbers)) == list(self.numbers)


@st.composite
def histories(draw: st.DrawFn, kinds: list[pa.DataType]) -> list[tuple[str, Any]]:
    row = st.tuples(*(st.sampled_from([None, *VALUES[kind]]) for kind in kinds))
    rows = st.lists(row, max_size=12)
    release = st.lists(st.integers(0, 100), max_size=6)
    step = st.one_of(
        st.tuples(st.just("push"), rows),
        st.tuples(st.just("undo"), rows),
        st.tuples(st.just("release"), release),
        st.just(("restore", None)),
    )
    return draw(st.lists(step, max_size=8))


def play(kinds: list[pa.DataType], history: list[tuple[str, Any]]) -> None:
    model = Model(kinds)
    for name, what in history:
        if name in ("push", "undo"):
            columns = [column([row[i] for row in what], kind) for i, kind in enumerate(kinds)]
            getattr(model, name)(columns, len(what))
        elif name == "release":
            model.release(what)
        else:
            model.restore()


@pytest.mark.parametrize(
    "compiled", [pytest.param(True, marks=pytest.mark.compiled), False], ids=["compiled", "uncompiled"]
)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_any_history(compiled: bool, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(TYPES), max_size=3))
    with nullcontext() if compiled else uncompiled():
        play(kinds, data.draw(histories(kinds)))


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_type(kind: pa.DataType) -> None:
    values = [None, *VALUES[kind]]
    model = Model([kind])
    model.push([column([], kind)], 0)
    model.push([column(values + values[::-1], kind)], 2 * len(values))
    model.restore()
    model.release([0, 2])
    model.push([column(values, kind).slice(1)], len(values) - 1)
    model.undo([column(values, kind)], len(values))
    chunks = pa.chunked_array([column(values, kind), column(values[1:], kind)], kind)
    assert len(model.table.numbers([chunks], len(chunks))) == len(chunks)
    assert model.table.numbers([pa.chunked_array([], kind)], 0).tolist() == []


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        (pa.int64(), lambda i: i << 40),
        (pa.string(), lambda i: f"{i:04}" * 4),
        (pa.list_(pa.string()), lambda i: ["x" * (i // 500), str(i)]),
    ],
    ids=["int64", "string", "list"],
)
@pytest.mark.compiled
def test_many_keys(kind: pa.DataType, write: Callable[[int], Any]) -> None:
    chance = np.random.default_rng(3)
    table, numbers = KeyTable([kind]), {}
    for push in range(12):
        values = [write(each) for each in chance.integers(1000 * push, 1000 * push + 4000, 3000).tolist()]
        given = table.numbers([pa.array(values, kind)], len(values)).tolist()
        for value, number in zip(map(canonical, values), given, strict=True):
            assert numbers.setdefault(value, number) == number
        assert len(set(numbers.values())) == len(numbers) == len(table)
        gone = [key for key in numbers if chance.random() < 0.6]
        table.release(np.array([numbers.pop(key) for key in gone]))
        table.check()
    table.release(np.array(list(numbers.values())))
    assert (len(table), table.capacity) == (0, 0)
    assert table.nbytes <= KeyTable([kind]).nbytes + 4096, "what nobody uses is given back"


@pytest.mark.parametrize("kinds", [[pa.int64()], [pa.string()], [pa.int8(), PAIR]], ids=str)
@pytest.mark.compiled
def test_compiled_as_uncompiled(kinds: list[pa.DataType]) -> None:
    chance = np.random.default_rng(4)
    saved = []
    rows = [[VALUES[kind][i % len(VALUES[kind])] for i in chance.integers(0, 50, 200)] for kind in kinds]
    columns = [column(each, kind) for each, kind in zip(rows, kinds, strict=True)]
    for context in (nullcontext(), uncompiled()):
        with context:
            table = KeyTable(kinds)
            numbers = table.numbers(columns, 200)
            table.release(numbers[:3])
            table.numbers(columns, 200)
            saved.append({"given": numbers, "slots": table._slots, **table.save()})
    assert all(np.array_equal(saved[0][name], saved[1][name]) for name in saved[0])


def test_no_columns() -> None:
    table = KeyTable([])
    assert table.numbers([], 0).tolist() == []
    assert table.find([], 2).tolist() == [-1, -1]
    assert len(table) == 0
    assert table.numbers([], 3).tolist() == [0, 0, 0]
    assert (len(table), table.capacity, table.take(np.array([0]))) == (1, 1, [])
    assert table.find([], 2).tolist() == [0, 0]
    table.load(table.save())
    table.check()
    table.release(np.array([0]))
    assert table.numbers([], 2).tolist() == [0, 0]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_keys_are_found_and_none_is_new(kind: pa.DataType) -> None:
    """Before any key is known, when half of them are, and after some were released."""
    values = column([None, *VALUES[kind]], kind)
    table = KeyTable([kind])
    for known in (0, (len(values) + 1) // 2, len(values)):
        with uncompiled():
            numbers = dict(enumerate(table.numbers([values.slice(0, known)], known).tolist()))
            before = {name: array.tolist() for name, array in table.save().items()}, table.nbytes
            truth = KeyTable([kind])
            same = truth.numbers([values], len(values)).tolist()
            expected = [numbers.get(same.index(each), -1) for each in same]
            assert table.find([values], len(values)).tolist() == expected
            assert ({name: array.tolist() for name, array in table.save().items()}, table.nbytes) == before
    table.release(np.array([0]))
    with uncompiled():
        assert table.find([values.slice(0, 1)], 1).tolist() == [-1]


def test_null_is_no_value() -> None:
    """The word under a null, and the empty string, are keys of their own."""
    under = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([5, 5]))])
    assert KeyTable([pa.int64()]).numbers([under], 2).tolist() == [0, 1]
    assert KeyTable([pa.int64()]).numbers([pa.array([None, 0, None])], 3).tolist() == [0, 1, 0]
    assert KeyTable([pa.string()]).numbers([pa.array([None, "", None])], 3).tolist() == [0, 1, 0]
    both = [pa.array([None, "", "a"]), pa.array(["a", "a", None])]
    assert KeyTable([pa.string(), pa.string()]).numbers(both, 3).tolist() == [0, 1, 2]


def test_a_dictionary_outgrows_its_indices() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    table = KeyTable([kind])
    for push in range(3):
        values = pa.array([f"{push} {i}" for i in range(100)])
        encoded = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), values)
        assert table.numbers([encoded], 100).tolist() == list(range(100 * push, 100 * push + 100))
    assert table.take(np.arange(10))[0].type == kind
    assert table.take(np.arange(300))[0].type == pa.dictionary(pa.int64(), pa.string())
    table.load(table.save())
    table.check()
    inside = KeyTable([pa.struct([("d", kind)])])
    for push in range(3):
        values = pa.array([f"{push} {i}" for i in range(100)]).dictionary_encode().cast(kind)
        inside.numbers([pa.StructArray.from_arrays([values], ["d"])], 100)
    with pytest.raises(ColumnTypeError, match="'d' has too many values"):
        inside.take(np.arange(300))


def test_refusals() -> None:
    with pytest.raises(ColumnTypeError, match="cannot be a key"):
        KeyTable([pa.list_(pa.dense_union([pa.field("a", pa.int8())]))])
    table = KeyTable([pa.int64()])
    table.numbers([pa.array([1, 2, 3])], 3)
    with pytest.raises(ColumnTypeError, match="must stay int64"):
        table.numbers([pa.array(["a"])], 1)
    with pytest.raises(InvalidArgumentError, match="1 columns, not 0"):
        table.numbers([], 1)
    with pytest.raises(InvalidArgumentError, match="has 1 rows, not 2"):
        table.numbers([pa.array([4])], 2)
    for number in (-1, 3):
        with pytest.raises(InvalidArgumentError, match=f"{number} is not the number"):
            table.release(np.array([0, number]))
    restore = table.restore_point()
    table.release(np.array([1, 1]))
    with pytest.raises(InvalidArgumentError, match="1 is not the number"):
        table.take(np.array([0, 1]))
    with pytest.raises(InvalidArgumentError, match="released since"):
        restore()
    assert len(table) == 2
    table.check()


def test_a_push_that_fails_halfway_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = KeyTable([pa.int64()])
    table.numbers([pa.array(range(60))], 60)
    table.release(np.arange(0, 60, 2))
    saved = table.save()

    def no_memory(length: int) -> None:
        raise MemoryError

    monkeypatch.setattr(table, "_grow", no_memory)
    with pytest.raises(MemoryError):
        table.numbers([pa.array(range(1000))], 1000)
    assert all(np.array_equal(saved[name], table.save()[name]) for name in saved)
    table.check()


def test_damage_is_seen() -> None:
    table = KeyTable([pa.string()])
    table.numbers([pa.array(["a", "b", "c"])], 3)
    saved = table.save()
    with pytest.raises(SnapshotError, match="number is there twice"):
        table.load({**saved, "free": np.array([2])})
    twice = KeyTable([pa.string()])
    twice.numbers([pa.array(["a", "b"])], 2)
    with pytest.raises(SnapshotError):
        table.load({**saved, "keys": twice.save()["keys"]})
    with pytest.raises(SnapshotError):
        KeyTable([pa.int64()]).load(saved)
    table.check()
    table._fingerprints[1] += np.uint64(1)
    table._slots[table._slots[:, 1] == 2, 0] += np.uint64(1)
    with pytest.raises(InvariantError, match="not found under its number"):
        table.check()


def test_equal_fingerprints_are_told_apart() -> None:
    """Where hashes are equal the bytes decide. A forged fingerprint stands for a collision."""
    table = KeyTable([pa.string()])
    table.numbers([pa.array(["abcdefghij"])], 1)
    table._arena[9] = ord("k")  # now another key has the hash of this one
    assert table.numbers([pa.array(["abcdefghij", "abcdefghik"])], 2)[0] == 1
    assert table.take(np.array([0, 1]))[0].to_pylist() == ["abcdefghik", "abcdefghij"]


def test_keys_of_one_table_are_numbered_as_they_appear() -> None:
    columns = [pa.array(["b", "a", "b", None, "b"]), pa.array([[1.0], [], [-0.0], [], [0.0]])]
    numbers, count = key_numbers(columns, 5)
    assert (numbers.tolist(), count) == ([0, 1, 2, 3, 2], 4)
    assert key_numbers([], 0)[1] == 0
    assert key_numbers([], 2)[1] == 1


def test_a_few_keys_are_remembered_until_some_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.keys.table._MOST_RECENT", 4)
    monkeypatch.setattr("muntin.keys.table._MOST_TAKEN", 2)
    table = KeyTable([pa.string(), pa.int64()])
    for i in range(20):  # more than are remembered
        assert table.numbers([pa.array([f"{i}", None]), pa.array([i, 7])], 2).tolist() == [i + (i > 0), 1]
        assert table.remembered([(None, 7)]) == [1]
        assert table.take(np.array([1, i + (i > 0)], np.int32))[1].to_pylist() == [7, i]
    assert table.remembered([("0", 1)]) is None
    table.release(np.array([1]))
    assert table.remembered([(None, 7)]) is None
    with pytest.raises(InvalidArgumentError, match="1 is not the number of a key"):
        table.take(np.array([1, 2]))
    restore = table.restore_point()
    assert table.numbers([pa.array(["new"]), pa.array([0])], 1) == [1]
    restore()
    assert table.remembered([("new", 0)]) is None
    table.check()
