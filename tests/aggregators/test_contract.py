"""The abstract data type at its edges: empty windows, errors that change nothing, snapshots, counts of combines."""

from __future__ import annotations

import datetime
import random
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import CASES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import agg, aggregators
from muntin.errors import (
    ColumnTypeError,
    InvalidArgumentError,
    InvariantError,
    MuntinError,
    NotInvertibleError,
    OutOfOrderError,
    SnapshotError,
    UnsupportedOperationError,
)

ALL = [
    aggregators.BaseIntervals,
    aggregators.Boundary,
    aggregators.Daba,
    aggregators.FlatFat,
    aggregators.FlatFit,
    aggregators.LogMonoidTree,
    aggregators.MonoidTree,
    aggregators.Recalculate,
    aggregators.SlickDeque,
    aggregators.SubtractOnEvict,
    aggregators.TwoStacks,
]
GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_empty_window(case: Case) -> None:
    counts = ("count", "count_distinct", "count_rows", "count_values", "max_count", "min_count", "hyperloglog")
    window = aggregators.TwoStacks(case.aggregation)
    answer = window.query()
    if case.aggregation.name == "histogram":
        assert answer.tolist() == [0] * len(answer)
    else:
        assert answer == (0 if case.aggregation.name in counts else None)
    assert len(window) == 0
    assert window.oldest is None
    assert window.youngest is None
    window.bulk_evict(5)
    assert repr(window.range_query(0, 9)) == repr(answer)
    with pytest.raises(IndexError):
        window.evict()
    window.check()


@pytest.mark.parametrize("kind", ALL)
class TestErrors:
    def test_out_of_order(self, kind: type) -> None:
        window: Any = kind(agg.sum("v"))
        window.bulk_insert([1, 5], [1, 2])
        before = window.snapshot()
        with pytest.raises(OutOfOrderError, match="the time 4 is before 5"):
            window.insert(4, 1)
        with pytest.raises(OutOfOrderError, match=r"row 2, 6, is before that of row 1, 7"):
            window.bulk_insert([5, 7, 6], [1, 2, 3])
        assert window.snapshot() == before
        window.insert(5, 3)
        assert window.query() == 6

    def test_bad_times(self, kind: type) -> None:
        window: Any = kind(agg.sum("v"))
        window.insert(1, 1)
        before = window.snapshot()
        for bad in (1.5, "now", None, True, 2**63, np.datetime64("NaT"), np.datetime64("2024-01-01")):
            with pytest.raises(InvalidArgumentError):
                window.insert(bad, 1)
        with pytest.raises(InvalidArgumentError, match="row 1 is null"):
            window.bulk_insert([5, None], [1, 2])
        with pytest.raises(InvalidArgumentError, match="3 rows"):
            window.bulk_insert([5, 6], [1, 2, 3])
        assert window.snapshot() == before

    def test_bad_values(self, kind: type) -> None:
        window: Any = kind(agg.sum("v"))
        window.insert(1, 1)
        before = window.snapshot()
        with pytest.raises(ColumnTypeError, match=r"'v'.*'word'"):
            window.insert(2, "word")
        with pytest.raises(ColumnTypeError, match="does not fit"):
            window.insert(2, 2**70)
        with pytest.raises(ColumnTypeError):
            window.bulk_insert([2, 3], ["a", "b"])
        assert window.snapshot() == before
        with pytest.raises(ColumnTypeError, match="2 values are needed"):
            kind(agg.covariance("a", "b")).insert(1, 5)

    def test_no_aggregation(self, kind: type) -> None:
        with pytest.raises(InvalidArgumentError, match=r"such as agg\.max"):
            kind(max)
        with pytest.raises(InvalidArgumentError, match="at least one"):
            kind({})

    def test_combines_only_when_asked_for(self, kind: type) -> None:
        with pytest.raises(InvalidArgumentError, match="count_combines=True"):
            _ = kind(agg.sum("v")).combines

    def test_not_nullable(self, kind: type) -> None:
        window: Any = kind(agg.sum("v"), nullable=False)
        window.bulk_insert([1, 2], [1.5, 2.5])
        with pytest.raises(ColumnTypeError, match="nullable=False"):
            window.insert(3, None)
        with pytest.raises(ColumnTypeError, match="nullable=False"):
            window.bulk_insert([3], [None])
        assert window.query() == 4.0
        window.evict()
        window.check()
        assert kind.restore(window.snapshot(), agg.sum("v")).query() == 2.5


def test_invert_is_needed_at_construction() -> None:
    with pytest.raises(NotInvertibleError, match=r"agg\.max"):
        aggregators.SubtractOnEvict(agg.max("v"))
    for case in CASES:
        if not case.aggregation.invertible:
            with pytest.raises(NotInvertibleError):
                aggregators.SubtractOnEvict(case.aggregation)


def test_slick_deque_takes_what_suits_one_of_its_halves() -> None:
    for case in CASES:
        if case.aggregation.selective or case.aggregation.invertible:
            aggregators.SlickDeque(case.aggregation)
        else:
            with pytest.raises(NotInvertibleError, match="selective"):
                aggregators.SlickDeque(case.aggregation)


def test_every_error_is_a_muntin_error() -> None:
    for error in (OutOfOrderError, NotInvertibleError, SnapshotError, ColumnTypeError, InvariantError):
        assert issubclass(error, MuntinError)


NEXT = np.arange(10, 13)
"""Times for the second bulk of a window: arrays whose types it knows are taken without a look at each value."""


@pytest.mark.parametrize("kind", [aggregators.TwoStacks, aggregators.MonoidTree, aggregators.Fiba])
@pytest.mark.parametrize(
    ("times", "values", "total"),
    [
        (NEXT, np.array([4.0, 5.0, 6.0]), 21.0),
        (NEXT, np.array([4.0, np.nan, 6.0]), float("nan")),
        (NEXT[::-1][::-1], np.arange(4.0, 10.0)[::2], 24.0),
        (NEXT.astype("i4"), np.array([4, 5, 6]), 21.0),
        (NEXT.astype(">i8"), np.array([4.0, 5.0, 6.0], ">f8"), 21.0),
        (NEXT, np.ma.masked_array([4.0, 5.0, 6.0], [False, True, False]), 16.0),
        (NEXT, [4.0, None, 6.0], 16.0),
        (NEXT[:0], np.array([]), 6.0),
    ],
)
def test_a_second_bulk_of_any_array(kind: Any, times: Any, values: Any, total: float) -> None:
    window = kind(agg.sum("v"), compiled=False)
    window.bulk_insert(np.arange(3), np.array([1.0, 2.0, 3.0]))
    before = [np.array(times), np.array(values)]
    window.bulk_insert(times, values)
    assert window.query() == pytest.approx(total, nan_ok=True)
    window.check()
    np.testing.assert_array_equal(np.array(times), before[0])
    assert not isinstance(times, np.ndarray) or times.flags.writeable == NEXT.flags.writeable
    np.testing.assert_array_equal(np.array(values), before[1])


@pytest.mark.parametrize("kind", [aggregators.TwoStacks, aggregators.MonoidTree, aggregators.Fiba])
@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        (NEXT, np.array([1.0, 2.0]), "2 rows, and there are 3 times"),
        (NEXT, np.array([[1.0], [2.0], [3.0]]), "2 dimensions"),
        (NEXT.reshape(3, 1), np.array([[1.0], [2.0], [3.0]]), "2 dimensions"),
        (NEXT.astype("f8"), np.array([1.0, 2.0, 3.0]), "times are integers"),
        (NEXT.astype("M8[s]"), np.array([1.0, 2.0, 3.0]), "times are int64"),
        (NEXT, np.array(["a", "b", "c"]), "holds double"),
        (NEXT, np.array([1.0, np.nan, 3.0]), "holds a null"),
    ],
)
def test_a_second_bulk_that_is_refused(kind: Any, times: Any, values: Any, message: str) -> None:
    window = kind(agg.sum("v", skip_nan=True), nullable=False, compiled=False)
    window.bulk_insert(np.arange(3), np.array([1.0, 2.0, 3.0]))
    with pytest.raises(MuntinError, match=message):
        window.bulk_insert(times, values)
    assert (window.query(), len(window)) == (6.0, 3)
    window.check()


@pytest.mark.parametrize("kind", ALL)
def test_types_widen(kind: type) -> None:
    window: Any = kind(agg.sum("v"))
    for time, value in enumerate([None, True, 2, 2.5, None]):
        window.insert(time, value)
        window.check()
    assert window.query() == 5.5
    window.bulk_evict(1)
    assert window.query() == 4.5
    settled: Any = kind(agg.sum("v"), dtype="f8")
    settled.insert(1, 1)
    assert isinstance(settled.query(), float)


def test_many_types_of_values() -> None:
    day = datetime.date(2024, 1, 1)
    stamp = datetime.datetime(2024, 1, 1, 12)
    for values, least in [
        (["b", "a"], "a"),
        ([day, day - datetime.timedelta(1)], day - datetime.timedelta(1)),
        ([stamp, stamp - datetime.timedelta(hours=1)], stamp - datetime.timedelta(hours=1)),
        ([Decimal("1.5"), Decimal("0.25")], Decimal("0.25")),
        ([b"x", b"a"], b"a"),
        ([(2, "a"), (1, "z")], (1, "z")),
        ([True, False], False),
    ]:
        window = aggregators.TwoStacks(agg.min("v"))
        for time, value in enumerate(values):
            window.insert(time, value)
        assert window.query() == least
        again = aggregators.TwoStacks.restore(window.snapshot(), agg.min("v"))
        assert again.query() == least
        again.check()


def test_times_may_be_datetimes() -> None:
    window = aggregators.TwoStacks(agg.longest_increasing_run("v"))
    start = np.datetime64("2024-01-01T00:00", "m")
    window.bulk_insert(start.astype("M8[s]") + np.arange(4) * np.timedelta64(60, "s"), [1, 2, 1, 5])
    assert window.oldest == start
    assert window.youngest == start + 3
    window.insert(datetime.datetime(2024, 1, 1, 0, 4), 7)
    assert window.query().length == 3
    window.bulk_evict(start + 1)
    assert len(window) == 3
    assert window.range_query(start + 2, start + 9).length == 3
    again = aggregators.TwoStacks.restore(window.snapshot(), agg.longest_increasing_run("v"))
    assert again.oldest == start + 2
    with pytest.raises(InvalidArgumentError, match="is int64"):
        window.insert(5, 1)


def test_several_aggregations_share_a_window() -> None:
    window = aggregators.TwoStacks({"most": agg.max("v"), "who": agg.arg_max("v", "name"), "n": agg.count()})
    window.bulk_insert([1, 2, 3], {"v": [5, 9, 7], "name": ["a", "b", "c"]})
    assert window.query() == {"most": 9, "who": "b", "n": 3}
    window.insert(4, (8, "d"))
    window.bulk_evict(2)
    assert window.query() == {"most": 8, "who": "d", "n": 2}
    assert window.range_query(4, 4) == {"most": 8, "who": "d", "n": 1}
    assert aggregators.TwoStacks({"n": agg.count()}).query() == {"n": 0}


def test_what_two_stacks_cannot_answer() -> None:
    window = aggregators.TwoStacks(agg.concat("v"))
    window.bulk_insert(range(6), "abcdef")
    assert window.range_query(2, 4) == "cde"
    window.evict()  # turns all rows over
    assert window.range_query(3, 9) == "def"
    with pytest.raises(UnsupportedOperationError, match="FlatFat and Fiba"):
        window.range_query(1, 2)


# ---------------------------------------------------------------- bounds, counted


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 777])
def test_two_stacks_takes_at_most_three_combines_a_slide(size: int) -> None:
    window = aggregators.TwoStacks(agg.concat("v"), count_combines=True)
    window.bulk_insert(range(size), ["x"] * size)
    before, slides = window.combines, 5 * size
    for i in range(slides):
        window.insert(size + i, "y")
        window.evict()
        window.query()
    assert window.combines - before <= 3 * slides


def test_subtract_on_evict_takes_two_a_slide_and_recalculate_n() -> None:
    window: Any = aggregators.SubtractOnEvict(agg.sum("v"), count_combines=True)
    window.bulk_insert(range(50), range(50))
    before = window.combines
    for i in range(500):
        window.insert(50 + i, i)
        window.evict()
        window.query()
    assert window.combines - before == 1000
    window = aggregators.Recalculate(agg.sum("v"), count_combines=True)
    window.bulk_insert(range(50), range(50))
    assert window.combines == 0
    window.query()
    assert window.combines == 49


@pytest.mark.compiled
def test_two_stacks_holds_one_state_a_row() -> None:
    window = aggregators.TwoStacks(agg.max("v"), dtype="f8", nullable=False)
    rows = 1 << 12
    window.bulk_insert(range(rows), np.zeros(rows))
    state = window._binding.dtype.itemsize
    assert state == 8
    held = sum(array.nbytes for array in window._window)
    assert held <= rows * (state + 8) + 200, "a state and a time for each row, and O(1)"
    for i in range(3 * rows):
        window.insert(rows + i, 1.0)
        window.evict()
    assert sum(array.nbytes for array in window._window) <= 2 * rows * (state + 8) + 200


def test_bulk_evict_in_the_front_takes_no_combine() -> None:
    window = aggregators.TwoStacks(agg.max("v"), count_combines=True)
    window.bulk_insert(range(1000), range(1000))
    window.evict()
    before = window.combines
    window.bulk_evict(900)
    assert len(window) == 99
    assert window.combines == before


# ---------------------------------------------------------------- snapshots


def _window(kind: Any, aggregation: Any, values: list[Any]) -> Any:
    window = kind(aggregation)
    window.bulk_insert(range(len(values)), values)
    window.evict()
    return window


@pytest.mark.parametrize("kind", ALL)
def test_damaged_snapshots_are_refused(kind: Any) -> None:
    data = _window(kind, agg.sum("v"), [1.5, None, 3.0, 4.0]).snapshot()

    @given(st.integers(0, len(data) - 1), st.integers(1, 255))
    @settings(max_examples=examples(60))
    def flip(at: int, bits: int) -> None:
        broken = bytearray(data)
        broken[at] ^= bits
        with pytest.raises(SnapshotError):
            kind.restore(bytes(broken), agg.sum("v"))

    flip()
    for cut in (0, 5, len(data) // 2, len(data) - 1):
        with pytest.raises(SnapshotError):
            kind.restore(data[:cut], agg.sum("v"))
    with pytest.raises(SnapshotError):
        kind.restore(data + b"x", agg.sum("v"))


def test_snapshots_of_others_are_refused() -> None:
    data = _window(aggregators.TwoStacks, agg.sum("v"), [1, 2]).snapshot()
    with pytest.raises(SnapshotError, match="of TwoStacks, not of Recalculate"):
        aggregators.Recalculate.restore(data, agg.sum("v"))
    with pytest.raises(SnapshotError, match="another aggregation"):
        aggregators.TwoStacks.restore(data, agg.mean("v"))
    with pytest.raises(SnapshotError, match="another aggregation"):
        aggregators.TwoStacks.restore(data, {"a": agg.sum("v")})
    newer = bytearray(data)
    newer[8] = 99
    with pytest.raises(SnapshotError, match="format 99"):
        aggregators.TwoStacks.restore(bytes(newer), agg.sum("v"))


class Custom:
    """A value that only pickle can write."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and other.x == self.x

    def __hash__(self) -> int:
        return hash(self.x)


sys.modules.setdefault("muntin_test_custom", sys.modules[__name__])
Custom.__module__ = "muntin_test_custom"


def test_pickle_is_read_only_when_allowed() -> None:
    window = _window(aggregators.TwoStacks, agg.collect("v"), [Custom(1), Custom(2)])
    with pytest.raises(SnapshotError, match="allow_pickle=True"):
        aggregators.TwoStacks.restore(window.snapshot(), agg.collect("v"))
    again = aggregators.TwoStacks.restore(window.snapshot(), agg.collect("v"), allow_pickle=True)
    assert again.query() == [Custom(2)]


GOLDEN_CASES = {
    "two_stacks_sum": (aggregators.TwoStacks, agg.sum("v"), [1.5, None, 3.0, 4.0], 7.0),
    "two_stacks_concat": (aggregators.TwoStacks, agg.concat("v"), ["a", "b", None, "d"], "bd"),
    "recalculate_max": (aggregators.Recalculate, agg.max("v"), [7, 2, 5], 5),
    "subtract_on_evict_count": (aggregators.SubtractOnEvict, agg.count(), [0, 0, 0], 2),
    "daba_sum": (aggregators.Daba, agg.sum("v"), [1.5, None, 3.0, 4.0], 7.0),
    "flat_fit_concat": (aggregators.FlatFit, agg.concat("v"), ["a", "b", None, "d"], "bd"),
    "slick_deque_max": (aggregators.SlickDeque, agg.max("v"), [7, 2, 5], 5),
    "slick_deque_count": (aggregators.SlickDeque, agg.count(), [0, 0, 0], 2),
    "flat_fat_concat": (aggregators.FlatFat, agg.concat("v"), ["a", "b", None, "d"], "bd"),
    "base_intervals_sum": (aggregators.BaseIntervals, agg.sum("v"), [1.5, None, 3.0, 4.0], 7.0),
    "fiba_concat": (aggregators.Fiba, agg.concat("v"), ["a", "b", None, "d"], "bd"),
    "boundary_max": (aggregators.Boundary, agg.max("v"), [7, 2, 5], 5),
    "monoid_tree_sum": (aggregators.MonoidTree, agg.sum("v"), [1.5, None, 3.0, 4.0], 7.0),
    "log_monoid_tree_concat": (aggregators.LogMonoidTree, agg.concat("v"), ["a", "b", None, "d"], "bd"),
    "two_stacks_bloom": (aggregators.TwoStacks, agg.bloom("v", bits=16), [1, 2], None),
}


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_snapshots_of_earlier_releases_are_read(name: str) -> None:
    """The files were written by the release that made the format; a release that cannot read them must say so here."""
    kind, aggregation, values, answer = GOLDEN_CASES[name]
    window = kind.restore((GOLDEN / f"{name}.snapshot").read_bytes(), aggregation)
    window.check()
    assert len(window) == len(values) - 1
    if answer is not None:
        assert window.query() == answer
    else:
        assert agg.bloom_contains(window.query(), values[-1])
    window.insert(99, values[0])
    window.check()


# ---------------------------------------------------------------- errors of a definition itself


class Moody:
    """A combine that fails when it is told to."""

    left = 10**9

    @classmethod
    def spend(cls) -> None:
        cls.left -= 1
        if cls.left < 0:
            raise ArithmeticError("not today")


@agg.define(state="object")
class moody:
    def lift(v):
        return v

    def combine(a, b):
        Moody.spend()
        return a + b


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.__name__ not in ("SlickDeque", "SubtractOnEvict")])
@pytest.mark.parametrize("patience", range(3))
def test_a_combine_that_fails_changes_nothing(kind: type, patience: int) -> None:
    """Wherever it fails: the call raises its error, and the window is as it was, and goes on."""
    chance = random.Random(patience)
    window: Any = kind(moody("v"))
    rows: list[str] = []
    failures = 0
    for t in range(200):
        Moody.left = 10**9 if chance.random() < 0.6 else patience
        action, new = chance.choice(["insert", "insert", "bulk", "evict", "leave", "query"]), [chr(97 + t % 26)] * 5
        try:
            if action == "insert":
                window.insert(t, new[0])
                rows.append(new[0])
            elif action == "bulk":
                window.bulk_insert([t] * 5, new)
                rows += new
            elif action == "evict" and rows:
                window.evict()
                del rows[0]
            elif action == "leave" and rows:
                until = window.oldest + chance.randrange(8)
                window.bulk_evict(until)
                rows = rows[len(rows) - len(window) :]
            else:
                window.query()
        except ArithmeticError:
            failures += 1
        Moody.left = 10**9
        assert len(window) == len(rows)
        if chance.random() < 0.2:
            assert window.query() == ("".join(rows) or None)
            window.check()
    assert failures
    assert window.query() == ("".join(rows) or None)


# ---------------------------------------------------------------- check() itself


def test_check_finds_what_is_broken() -> None:
    window: Any = aggregators.TwoStacks(agg.sum("v"))
    window.bulk_insert([1, 2, 3], [1.0, 2.0, 4.0])
    window.check()
    window._window.back["p0_total"] = 99.0
    with pytest.raises(InvariantError, match="back's aggregate"):
        window.check()
    window = aggregators.SubtractOnEvict(agg.sum("v"))
    window.bulk_insert([1, 2], [1.0, 2.0])
    window._window.running["p0_total"] = 99.0
    with pytest.raises(InvariantError, match="running aggregate"):
        window.check()
    window = aggregators.Recalculate(agg.sum("v"))
    window.bulk_insert([1, 2], [1.0, 2.0])
    window._window.times[0] = 50
    with pytest.raises(InvariantError, match="times in the ring descend"):
        window.check()
    window = aggregators.TwoStacks(agg.sum("v"))
    window.bulk_insert([1, 2], [1.0, 2.0])
    window._marks[2] = 9
    with pytest.raises(InvariantError, match="marks out of order"):
        window.check()


def test_repr() -> None:
    window = aggregators.TwoStacks(agg.sum("v"))
    window.insert(3, 1)
    assert repr(window) == "<TwoStacks agg.sum('v'): 1 rows, 3 .. 3>"
