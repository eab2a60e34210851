"""What once went wrong, each as small as it can be shown."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from muntin import agg, aggregators, slide
from muntin.errors import (
    AggregationOverflowError,
    ColumnTypeError,
    DefinitionError,
    InvalidArgumentError,
    MuntinError,
    NotInvertibleError,
    SnapshotError,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: agg.quantile("v", 1.5),
        lambda: agg.quantile("v", float("nan")),
        lambda: agg.moment_sketch("v", -0.1),
        lambda: agg.bloom("v", bits=12),
        lambda: agg.bloom("v", bits=0),
        lambda: agg.hyperloglog("v", precision=30),
        lambda: agg.top_k("v", 0),
    ],
)
def test_parameters_that_mean_nothing_are_refused(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()


def test_a_sorted_window_is_indexed_like_a_list() -> None:
    @agg.define(state="sorted", result="f8")
    class greatest:
        def lower(s):
            return float(s[-1])

    @agg.define(state="sorted", result="f8")
    class outside:
        def lower(s):
            return float(s[10])

    values = np.arange(100.0)
    assert slide(values, greatest("v"), range=5).tolist() == values.tolist()
    with pytest.raises(IndexError):
        slide(values, outside("v"), range=5)


def test_sum_and_mean_of_one_window_share_a_state_from_the_first_row() -> None:
    for first in (1, 1.0):
        window = aggregators.TwoStacks({"s": agg.sum("v"), "m": agg.mean("v")})
        window.insert(1, first)
        window.insert(2, 2.0)
        window.check()
        assert window.query() == {"s": 3.0, "m": 1.5}


@pytest.mark.parametrize("compiled", [True, False])
def test_arrays_that_change_places_inside_a_state(compiled: bool) -> None:
    @agg.define(state={"best": ("f8", 2), "second": ("f8", 2)}, result="f8")
    class runner_up:
        def lift(v):
            return (np.full(2, v), np.full(2, -1.0))

        def combine(a, b):
            return (b.best, a.best)

        def lower(s):
            return s.second[0]

    for kind in (aggregators.TwoStacks, aggregators.Recalculate):
        window = kind(runner_up("v"), compiled=compiled)
        window.bulk_insert([1, 2, 3], [1.0, 2.0, 3.0])
        assert window.query() == 2.0


def test_outer_values_are_told_apart() -> None:
    def make(table: Any, scale: float) -> Any:
        def helper(x):
            return x * scale

        @agg.define(state="f8")
        class scaled:
            def lift(v):
                return helper(v) + table[-1]

            def combine(a, b):
                return a + b

        return scaled("v")

    wide = np.zeros(2000)
    other = wide.copy()
    other[1000] = 1.0
    near = np.array([1.0])
    assert make(wide, 1.0).fingerprint != make(other, 1.0).fingerprint
    assert make(near, 1.0).fingerprint != make(near + 1e-12, 1.0).fingerprint
    assert make(near, 2.0) != make(near, 3.0)
    assert make(near, 2.0) == make(near, 2.0)
    both = slide([1.0], {"a": make(near, 2.0), "b": make(near, 3.0)}, range=1)
    assert (both["a"][0], both["b"][0]) == (3.0, 4.0)


def test_the_fingerprint_of_decimals_does_not_change_with_use() -> None:
    before = agg.mean("v").fingerprint
    slide([Decimal(1), Decimal(2), Decimal("0.1")], agg.mean("v"), range=3)
    fresh = pickle.loads(pickle.dumps(agg.mean("v")))
    assert fresh.fingerprint == before


def test_range_of_unsigned_integers() -> None:
    with pytest.raises(AggregationOverflowError):
        slide(np.array([0, 2**64 - 1], np.uint64), agg.range("v"), range=2)
    assert slide(np.array([3, 2**63], np.uint64), agg.range("v"), range=2).tolist() == [0, 2**63 - 3]


def test_windows_that_never_were_do_not_overflow() -> None:
    fused = {"s": agg.sum("v"), "m": agg.max("v")}
    out = slide([2**62, 2**62, -(2**62)], fused, range=1, times=[0, 0, 0])
    assert out["s"].tolist() == [2**62] * 3
    gaps = pa.array([None, 2**62, 2**62, -(2**62)])
    out = slide(pa.table({"v": gaps}), fused, range=1, times=[0, 0, 0, 0])
    assert out["s"].to_pylist() == [2**62] * 4, "the first attempt saw a null in the first row"


def test_durations_of_numpy_and_pandas() -> None:
    times = np.array([0, 3, 7], "M8[s]")
    assert slide([1, 2, 4], agg.sum("v"), range=np.timedelta64(5 * 10**9, "ns"), times=times).tolist() == [1, 3, 6]
    assert slide([1, 2, 4], agg.sum("v"), range=np.timedelta64(1, "h"), times=times).tolist() == [1, 3, 7]
    fine = np.array([0, 1400], "M8[ns]")
    assert slide([1, 2], agg.sum("v"), range=pd.Timedelta("1us 500ns"), times=fine).tolist() == [1, 3]
    with pytest.raises(InvalidArgumentError):
        slide([1, 2, 4], agg.sum("v"), range=np.timedelta64(1, "M"), times=times)


def test_collected_times_are_times_beside_any_other_aggregation() -> None:
    table = {"ts": np.array([0, 60], "M8[s]"), "k": [1, 2], "w": ["a", "b"]}
    out = slide(table, {"c": agg.collect("ts"), "w": agg.arg_max("k", "w")}, range=2)
    assert out["c"][1] == [datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 0, 1)]
    one, many = aggregators.TwoStacks(agg.collect("v")), aggregators.TwoStacks(agg.collect("v"))
    one.insert(1, np.datetime64(60, "s"))
    many.bulk_insert([1], np.array([60], "M8[s]"))
    assert one.query() == many.query() == [datetime.datetime(1970, 1, 1, 0, 1)]


class TestRefusedInsertsChangeNothing:
    def test_time_type(self) -> None:
        window = aggregators.TwoStacks(agg.sum("v"))
        with pytest.raises(ColumnTypeError):
            window.insert(np.datetime64("2024-01-01"), "word")
        window.insert(1, 1)
        assert window.query() == 1

    def test_other_columns(self) -> None:
        window = aggregators.TwoStacks({"a": agg.sum("a"), "b": agg.sum("b")})
        window.insert(1, (1, 2))
        before = window.snapshot()
        with pytest.raises(ColumnTypeError):
            window.insert(2, (1.5, "word"))
        assert window.snapshot() == before
        window.insert(3, (2.5, 3))
        assert window.query() == {"a": 3.5, "b": 5}

    def test_out_of_order_float_among_integers(self) -> None:
        window = aggregators.TwoStacks(agg.sum("v"))
        window.insert(5, 1)
        before = window.snapshot()
        with pytest.raises(MuntinError):
            window.insert(4, 2.5)
        assert window.snapshot() == before

    def test_a_first_value_that_does_not_fit(self) -> None:
        window = aggregators.TwoStacks(agg.max("v"))
        with pytest.raises(ColumnTypeError):
            window.insert(1, 2**70)
        window.insert(1, "word")
        assert window.query() == "word"

    def test_a_combine_that_fails_half_way(self) -> None:
        window = aggregators.TwoStacks(agg.max("v"))
        window.insert(1, (1,))
        before = window.snapshot()
        with pytest.raises(TypeError):
            window.bulk_insert([2, 3, 4], [(5,), (6,), ("a",)])
        assert window.snapshot() == before
        window.check()


def test_declared_types_stay() -> None:
    window: Any = aggregators.TwoStacks(agg.max("v"), dtype="u8")
    window.insert(1, 5)
    window.insert(2, 2**63 + 1)
    window.bulk_insert([3], [7])
    assert window.query() == 2**63 + 1
    with pytest.raises(ColumnTypeError):
        window.insert(4, -1)
    with pytest.raises(ColumnTypeError):
        window.insert(4, 1.5)
    with pytest.raises(ColumnTypeError):
        window.bulk_insert([4], [-1])
    narrow = aggregators.TwoStacks(agg.max("v"), dtype="i1")
    with pytest.raises(ColumnTypeError, match="does not fit"):
        narrow.insert(1, 200)
    stamps = aggregators.TwoStacks(agg.max("v"), dtype="M8[ms]")
    stamps.insert(1, datetime.datetime(2024, 1, 1))
    assert stamps.query() == datetime.datetime(2024, 1, 1)
    mixed = aggregators.TwoStacks(agg.max("v"))
    mixed.insert(1, 2**53 + 1)
    with pytest.raises(ColumnTypeError):
        mixed.bulk_insert([2], np.array([2**63 + 5], np.uint64))


def test_times_of_pandas_and_unsigned_ones() -> None:
    window = aggregators.TwoStacks(agg.count())
    with pytest.raises(InvalidArgumentError):
        window.insert(pd.NaT, 1)
    with pytest.raises(InvalidArgumentError):
        window.bulk_insert(np.array([2**63 + 1], np.uint64), [1])
    window.insert(pd.Timestamp("2024-01-01T00:00:00.123456789"), 1)
    assert window.oldest == np.datetime64("2024-01-01T00:00:00.123456789", "ns")


def test_missing_scalars_are_nulls() -> None:
    window = aggregators.TwoStacks(agg.max("v"))
    for time, value in enumerate([pd.NA, pd.NaT, np.datetime64("NaT"), None, np.datetime64("2024-01-01", "s")]):
        window.insert(time, value)
    assert window.query() == datetime.datetime(2024, 1, 1)


def test_overflows_are_ours() -> None:
    window = aggregators.TwoStacks(agg.sum("v"))
    window.bulk_insert([1, 2], [2**62, 2**62])
    with pytest.raises(AggregationOverflowError, match="agg.sum"):
        window.query()
    with pytest.raises(AggregationOverflowError):
        window.range_query(0, 9)
    with pytest.raises(ColumnTypeError):
        aggregators.TwoStacks(agg.sum("v"), dtype="f8").insert(1, 10**400)


@pytest.mark.parametrize("name", ["std", "var", "skewness", "kurtosis", "product", "geometric_mean", "moment_sketch"])
def test_statistics_take_numbers_only(name: str) -> None:
    for values in (["1", "2"], np.array([1, 2], "M8[s]")):
        with pytest.raises(ColumnTypeError, match=f"{name} of column 'v'"):
            slide(values, getattr(agg, name)("v"), range=2)


@pytest.mark.parametrize("width", [2**31, 2**62, 2**63, 2**64, 10**30])
def test_ranges_longer_than_anything(width: int) -> None:
    for each in (agg.sum("v"), agg.max("v"), agg.median("v")):
        assert slide([1, 2, 3], each, range=width).tolist()[0] == 1
        assert len(slide([1, 2, 3], each, range=width, partial=False)) == 0
        assert slide([1, 2, 3], each, range=width, times=[1, 2, 3]).tolist()[0] == 1
    slide([1, 2], agg.sum("v"), range=width, times=[1, 2], return_windows=True)


def test_nan_is_a_null_that_was_promised_not_to_come() -> None:
    window = aggregators.TwoStacks(agg.max("v", skip_nan=True), nullable=False)
    with pytest.raises(ColumnTypeError):
        window.bulk_insert([1, 2], [1.0, float("nan")])


class Point(NamedTuple):
    """A value of the user's own."""

    x: int
    y: int


def test_snapshots_know_their_columns_and_keep_values() -> None:
    window = aggregators.TwoStacks(agg.sum("v"))
    window.insert(1, 1)
    with pytest.raises(SnapshotError):
        aggregators.TwoStacks.restore(window.snapshot(), agg.sum("w"))
    pair = aggregators.TwoStacks({"x": agg.sum("a"), "y": agg.sum("b")})
    pair.insert(1, (1, 2))
    with pytest.raises(SnapshotError):
        aggregators.TwoStacks.restore(pair.snapshot(), {"x": agg.sum("b"), "y": agg.sum("a")})
    for aggregation, value in [
        (agg.median("v"), Decimal("1.5")),
        (agg.collect("v"), datetime.timedelta(days=-2, microseconds=5)),
        (agg.collect("v"), datetime.time(12, 30)),
    ]:
        window = aggregators.TwoStacks(aggregation)
        window.insert(1, value)
        assert aggregators.TwoStacks.restore(window.snapshot(), aggregation).query() == window.query()
    window = aggregators.TwoStacks(agg.collect("v"))
    window.insert(1, Point(1, 2))
    with pytest.raises(SnapshotError, match="allow_pickle"):
        aggregators.TwoStacks.restore(window.snapshot(), agg.collect("v"))


def test_invertible_only_if_all_types_are() -> None:
    mixed = agg.by_type("mixed", integer=agg.sum, floating=agg.max)
    with pytest.raises(NotInvertibleError):
        aggregators.SubtractOnEvict(mixed("v"))


def test_an_empty_answer_may_be_nan() -> None:
    @agg.define(state="f8", empty=float("nan"))
    class total:
        def lift(v):
            return v

        def combine(a, b):
            return a + b

    out = slide([1.0, 2.0], total("v"), range=1, slide=1, times=[0, 3])
    assert str(out.tolist()) == "[1.0, nan, nan, 2.0]"


def test_columns_of_nulls_only() -> None:
    for each in (agg.max("v"), agg.first("v"), agg.m4("v"), agg.sum("v"), agg.range("v")):
        assert slide(pa.nulls(3), each, range=1).null_count == 3
    assert slide(pd.Series([None, None]), agg.max("v"), range=1).isna().all()


def test_pandas_objects_and_digits() -> None:
    things = pd.Series([(1, 2), None, (3,)], dtype=object)
    assert slide(things, agg.collect("v"), range=3).tolist()[-1] == [(1, 2), (3,)]
    big = pd.Series([2**53 + 1, None], dtype="Int64")
    assert slide(big, agg.max("v"), range=1).tolist()[0] == 2**53 + 1


def test_other_containers() -> None:
    days = np.array(["2024-01-02", "2024-01-01"], "M8[D]")
    record = slide(days, agg.m4("v"), range=2)
    assert record["min"].tolist() == [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)]
    batch = pa.record_batch({"v": [1, 2]})
    assert isinstance(slide(batch, {"a": agg.max("v"), "b": agg.min("v")}, range=1), pa.RecordBatch)
    with pytest.raises(ColumnTypeError):
        slide(np.array([1, 2], "M8[ps]"), agg.max("v"), range=1)
    exact = slide(pa.array([Decimal("1.10"), Decimal("2.25")]), agg.sum("v"), range=2)
    assert exact.type == pa.decimal128(13, 2)
    assert slide([2**63, -1], agg.max("v"), range=1).tolist() == [2**63, -1]
    assert slide(iter([1, 2]), agg.max("v"), range=1).tolist() == [1, 2]


def test_quantiles_of_infinities_and_giants() -> None:
    assert slide([float("inf")] * 2, agg.quantile("v", 0.25), range=2).tolist() == [float("inf")] * 2
    assert slide([1.7e308] * 2, agg.median("v"), range=2).tolist() == [1.7e308] * 2


def test_a_shift_without_a_slide_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="offset"):
        slide([1, 2], agg.sum("v"), range=1, offset=1)
