"""Window definitions: how they are written, what they say of themselves, their edges, and what they refuse."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import agg, policies, rows, window
from muntin.errors import InvalidArgumentError
from muntin.types import INT64, column_type
from muntin.windows import Context, Measure

SECONDS = column_type(pa.timestamp("s"))
FREE, FORWARD_FREE, FORWARD_AWARE = Context.FREE, Context.FORWARD_FREE, Context.FORWARD_AWARE

WRITTEN = [
    ("window.tumbling('1 minute')", FREE, Measure.TIME, True, False),
    ("window.tumbling(60, offset=-5)", FREE, Measure.TIME, True, False),
    ("window.sliding('24 hours', every='1 minute')", FREE, Measure.TIME, True, False),
    ("window.sliding('1 hour', every='1 minute', offset='30 seconds')", FREE, Measure.TIME, True, False),
    ("window.cumulative('1 day', every='1 hour')", FREE, Measure.TIME, True, False),
    ("window.session('5 minutes')", FORWARD_FREE, Measure.TIME, False, False),
    ("window.calendar('1 day', zone_column='zone')", FREE, Measure.TIME, False, False),
    ("window.session(gap_column='gap')", FORWARD_FREE, Measure.TIME, False, False),
    ("window.trailing('1 hour')", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.trailing('1 hour', closed='left', delay='1 minute')", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.trailing('30 days', hop='5 minutes')", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.lifetime()", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.lifetime(closed='left')", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.leading('1 hour', closed='both', delay=5)", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.frame('1 hour', 0, closed='neither')", FORWARD_AWARE, Measure.TIME, False, True),
    ("window.trailing(rows(100), closed='left', delay=rows(3))", FREE, Measure.ROWS, True, True),
    ("window.leading(rows(5), delay=rows(1))", FREE, Measure.ROWS, True, True),
    ("window.frame(rows(2), 0, closed='left')", FREE, Measure.ROWS, True, True),
    ("window.tumbling(rows(100))", FREE, Measure.ROWS, True, True),
    ("window.sliding(rows(1000), every=rows(10))", FREE, Measure.ROWS, True, True),
    ("window.trailing(rows(1000))", FREE, Measure.ROWS, True, True),
    ("window.sliding(rows(10), every='5 seconds')", FORWARD_AWARE, Measure.MULTI, False, True),
    ("window.sliding('1 hour', every=rows(10))", FORWARD_AWARE, Measure.MULTI, False, True),
    ("window.delta('odometer', 100.0, every=10.0)", FREE, Measure.DELTA, True, False),
    ("window.delta('km', 5, offset=1)", FREE, Measure.DELTA, True, False),
    ("window.punctuated('is_marker')", FORWARD_FREE, Measure.PUNCTUATION, False, True),
]


@pytest.mark.parametrize(("text", "context", "measure", "known", "splits"), WRITTEN)
def test_as_written(text: str, context: Context, measure: Measure, known: bool, splits: bool) -> None:
    made = eval(text)
    assert repr(made) == text
    assert made == eval(text)
    assert hash(made) == hash(eval(text))
    assert (made.context, made.measure, made.edges_known, made.splits) == (context, measure, known, splits)
    assert made.resolve(SECONDS) == made.resolve(SECONDS).resolve(SECONDS)
    assert isinstance(made, window.Window)


def test_a_policy_is_a_window() -> None:
    made = window.policy(policies.sum_at_most("v", 10))
    assert made == window.policy(policies.sum_at_most("v", 10)) != window.policy(policies.sum_at_most("v", 11))
    assert len({made, window.policy(policies.sum_at_most("v", 10)), window.policy(policies.sum_at_most("v", 11))}) == 2
    assert (made.context, made.measure, made.edges_known) == (FORWARD_AWARE, Measure.POLICY, False)
    assert made.columns == ("v",)
    assert repr(made) == "window.policy(<policy sum_at_most>)"


def test_one_result_for_each_row() -> None:
    each = [window.trailing(5), window.trailing(rows(5)), window.policy(policies.at_most_rows(5))]
    assert all(w.each_row for w in each)
    frames = ("trailing", "leading", "frame", "lifetime")
    for text, *_ in WRITTEN:
        made, is_frame = eval(text), any(f"window.{name}" in text for name in frames)
        assert made.each_row == made.is_frame == is_frame


def test_columns() -> None:
    assert window.delta("km", 5).columns == ("km",)
    assert window.punctuated("mark").columns == ("mark",)
    assert window.tumbling(5).columns == ()

    @policies.define(a=agg.sum("x"), b=agg.max("y"), c=agg.min("x"))
    def choosy(whole, old):
        return whole.a > old.b

    assert window.policy(choosy).columns == ("x", "y")


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        (window.tumbling("1 minute"), window.tumbling(60)),
        (window.tumbling(datetime.timedelta(minutes=1)), window.tumbling(60)),
        (window.tumbling(np.timedelta64(1, "m")), window.tumbling(60)),
        (window.tumbling(np.int32(7)), window.tumbling(7)),
        (window.tumbling("1 hour", offset="-1 minute"), window.tumbling(3600, offset=3540)),
        (window.tumbling("1 hour", offset="61 minutes"), window.tumbling(3600, offset=60)),
        (window.sliding("1 hour", every=60), window.sliding(3600, every=60)),
        (
            window.cumulative("1 day", every="1 hour", offset="25 hours"),
            window.cumulative(86400, every=3600, offset=3600),
        ),
        (window.session("5 minutes"), window.session(300)),
        (window.trailing("90 seconds"), window.trailing(90)),
        (window.trailing("1 hour", delay="1 minute", hop=7), window.trailing(3600, delay=60, hop=7)),
        (window.lifetime(closed="left"), window.lifetime(closed="left")),
        (window.leading("1 hour", delay="1 minute"), window.leading(3600, delay=60)),
        (window.frame("1 minute", 0, closed="left"), window.frame(60, 0, closed="left")),
        (window.sliding(rows(10), every="5 seconds", offset=-1), window.sliding(rows(10), every=5, offset=4)),
        (window.sliding("1 hour", every=rows(10)), window.sliding(3600, every=rows(10))),
        (window.tumbling(rows(3)), window.tumbling(rows(3))),
        (window.delta("km", 2.5), window.delta("km", 2.5)),
    ],
)
def test_resolved(written: Any, resolved: Any) -> None:
    assert written.resolve(SECONDS) == resolved


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: window.tumbling(0), "window.tumbling: range is 0; it must be positive"),
        (lambda: window.tumbling("-1 minute"), "'-1 minute'; it must be positive"),
        (lambda: window.tumbling(datetime.timedelta(0)), "must be positive"),
        (lambda: window.tumbling("1 month"), "months and years differ in length; say days"),
        (lambda: window.session("1 year"), "months and years"),
        (lambda: window.tumbling("soon"), "'soon' is no duration; write it like"),
        (lambda: window.tumbling(1.5), "range is 1.5; give a duration like"),
        (lambda: window.tumbling(None), "range is None"),
        (lambda: window.tumbling(True), "range is True"),
        (lambda: window.tumbling(5, offset="x"), "'x' is no duration"),
        (lambda: window.tumbling(rows(5), offset=1), "windows by rows begin with the first"),
        (lambda: window.sliding(5, every=10), "every is 10, longer than the range 5"),
        (lambda: window.sliding("1 minute", every="61 seconds"), "longer than the range '1 minute'"),
        (lambda: window.sliding(rows(5), every=rows(6)), r"every is rows\(6\), longer"),
        (
            lambda: window.sliding("1 hour", every=rows(5), offset=1),
            "offset is 1; windows by rows begin with the first",
        ),
        (lambda: window.sliding(rows(5), every=0), "every is 0; it must be positive"),
        (lambda: window.sliding(10, every=-1), "every is -1; it must be positive"),
        (lambda: window.session(rows(5)), r"gap is rows\(5\); give a duration"),
        (lambda: window.session(0), "gap is 0"),
        (lambda: window.trailing(-3), "range is -3"),
        (lambda: window.trailing(3, closed="rigth"), "closed is 'rigth'; it is one of right, left, both, neither"),
        (lambda: window.trailing(3, delay=-1), "delay is -1; it must not be negative"),
        (lambda: window.trailing(3, delay=rows(1)), r"delay is rows\(1\); give a duration"),
        (lambda: window.trailing(3, hop=0), "hop is 0; it must be positive"),
        (lambda: window.trailing(3, closed="both", hop=1), "a frame with a hop begins with a multiple of it"),
        (lambda: window.trailing(rows(3), hop=1), r"hop is 1 and the range is rows\(3\); only durations have a hop"),
        (lambda: window.trailing(rows(3), delay=1), "delay is 1 and the range is rows.*give it in rows, too"),
        (lambda: window.trailing(rows(3), closed=None), "closed is None"),
        (lambda: window.lifetime(closed="both"), "window.lifetime: closed is 'both'; it is one of right, left"),
        (lambda: window.leading(0), "window.leading: range is 0; it must be positive"),
        (lambda: window.leading(rows(3), delay="1 hour"), "delay is '1 hour' and the range is rows"),
        (lambda: window.leading(3, closed=True), "window.leading: closed is True"),
        (lambda: window.frame(-1, 1), "window.frame: before is -1; it must not be negative"),
        (lambda: window.frame(rows(1), "1 hour"), "after is '1 hour', and the other bound is in rows"),
        (lambda: window.frame("1 hour", rows(1)), "before is '1 hour', and the other bound is in rows"),
        (lambda: window.cumulative("1 day", every="7 hours"), "give one that divides the range, '1 day'"),
        (lambda: window.cumulative(10, every=20), "longer than the range"),
        (lambda: window.delta("km", 0), "range is 0; it must be positive"),
        (lambda: window.delta("km", float("nan")), "range is nan; give a number"),
        (lambda: window.delta("km", "5"), "range is '5'; give a number, in the unit of column 'km'"),
        (lambda: window.delta("km", 5, every=6), "every is 6, longer"),
        (lambda: window.delta(5, 5), "the column is 5; give its name"),
        (lambda: window.punctuated(""), "the column is ''"),
        (lambda: window.policy(len), "is no policy; make one with policies.define"),
        (lambda: rows(0), r"rows\(0\): a window needs at least one row"),
        (lambda: rows(1.5), r"rows\(1.5\): give a positive integer"),
        (lambda: rows(True), r"rows\(True\)"),
        (lambda: window.sliding("1 minute", every=61).resolve(SECONDS), "every is 61, longer"),
        (lambda: window.cumulative("1 minute", every=7).resolve(SECONDS), "every is 7; give one that divides"),
        (lambda: window.tumbling("1 minute").resolve(INT64), "but the times are integers"),
        (lambda: window.tumbling("1 millisecond").resolve(SECONDS), "no whole number of the times' unit"),
        (lambda: window.policy(policies.at_most_duration("1 hour")).resolve(INT64), "the times are integers"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


@given(
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n), st.integers(-30, 30))),
    st.integers(-60, 60),
    st.integers(0, 40),
)
def test_edges_of_sliding_windows(shape: tuple[int, int, int], previous: int, more: int) -> None:
    length, every, offset = shape
    made = window.sliding(length, every=every, offset=offset).resolve(INT64)
    starts = [k * every + offset for k in range(-200, 200)]
    edges = sorted({*starts, *(s + length for s in starts)})
    assert made.next_edge(previous) == min(e for e in edges if e > previous)
    expected = [(s, s + length) for s in starts if previous < s + length <= previous + more]
    assert list(made.ended(previous, previous + more)) == expected


@given(st.integers(1, 6), st.integers(1, 5), st.integers(-30, 30), st.integers(-60, 60), st.integers(0, 40))
def test_edges_of_cumulative_windows(every: int, steps: int, offset: int, previous: int, more: int) -> None:
    length = every * steps
    made = window.cumulative(length, every=every, offset=offset).resolve(INT64)
    starts = [k * length + offset for k in range(-200, 200)]
    spans = [(s, s + k * every) for s in starts for k in range(1, steps + 1)]
    assert made.next_edge(previous) == min(e for span in spans for e in span if e > previous)
    assert list(made.ended(previous, previous + more)) == [w for w in spans if previous < w[1] <= previous + more]


def test_ones_own_must_be_whole() -> None:
    class Half(window.ContextFree):
        def next_edge(self, t):
            return t + 1

    with pytest.raises(TypeError, match="ended"):
        Half()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))), st.integers(-1, 10))
def test_edges_are_a_sorted_set(steps: list[tuple[bool, int]], t: int) -> None:
    edges, model = window.Edges(), set()
    for add, at in steps:
        (edges.add if add else edges.remove)(at)
        (model.add if add else model.discard)(at)
    assert list(edges) == sorted(model)
    assert len(edges) == len(model)
    assert edges.before(t) == max((e for e in model if e <= t), default=None)
    assert edges.after(t) == min((e for e in model if e > t), default=None)
    assert (t in edges) == (t in model)
