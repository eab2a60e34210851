"""`Query.to_sql`: what is written is read as the same query, or refused."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sampling import examples

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.types import column_type

NANOSECONDS = column_type(pa.timestamp("ns"))

NAMES = st.one_of(
    st.sampled_from(["v", "watts", "end", "order", "window_size", "Group", "a b", "a`b", 'a"b', "a.b", "ä", "1st"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=6).filter(str.strip),
)
UNITS = st.sampled_from(["milliseconds", "seconds", "minutes", "hours", "days", "microseconds", "nanoseconds"])


@st.composite
def durations(draw: st.DrawFn, *, least: int = 1) -> str | int:
    """Return a duration in words, always of the same kind for one seed: see `lengths`."""
    return f"{draw(st.integers(least, 500))} {draw(UNITS)}"


@st.composite
def grouped(draw: st.DrawFn) -> window.Window:
    """Return windows to group by, in words or in integers."""
    words = draw(st.booleans())
    unit = f" {draw(UNITS)}" if words else ""

    def length(count: int) -> str | int:
        return f"{count}{unit}" if words else count

    every, times = draw(st.integers(1, 300)), draw(st.integers(1, 9))
    offset = length(draw(st.integers(-500, 500)))
    return draw(
        st.sampled_from(
            [
                window.tumbling(length(every), offset=offset),
                window.sliding(length(every * times), every=length(every), offset=offset),
                window.sliding(length(every + times), every=length(every)),
                window.cumulative(length(every * times), every=length(every), offset=offset),
                window.session(length(every)),
            ]
        )
    )


@st.composite
def framed(draw: st.DrawFn) -> window.Window:
    """Return frames that SQL has words for."""
    short, long = sorted(draw(st.lists(st.integers(1, 400), min_size=2, max_size=2, unique=True)))
    if draw(st.booleans()):
        of = rows
        kinds = [window.trailing(of(long)), window.leading(of(long)), window.trailing(of(short), delay=of(long))]
        return draw(
            st.sampled_from([*kinds, window.leading(of(2), delay=of(short)), window.frame(of(short), of(long))])
        )
    unit = draw(st.sampled_from([" minutes", " seconds", ""]))

    def of_time(count: int) -> str | int:
        return f"{count}{unit}" if unit else count

    return draw(
        st.sampled_from(
            [
                window.trailing(of_time(long), closed="both"),
                window.leading(of_time(long), closed="both"),
                window.trailing(of_time(short), delay=of_time(long), closed="both"),
                window.leading(of_time(long), delay=of_time(short), closed="both"),
                window.frame(of_time(short), of_time(long)),
                window.trailing(of_time(long), closed="left"),
                window.leading(of_time(long), closed="right"),
                window.frame(0, 0),
                window.lifetime(),
                window.lifetime(closed="left"),
            ]
        )
    )


NAMED = ["sum", "mean", "max", "std", "first", "collect", "count_distinct", "all", "any", "range", "arg_max"]
PARAMETERS = {
    "concat": st.text(max_size=3),
    "ewm_mean": durations(),
    "histogram": st.lists(st.integers(-9, 9), min_size=1, max_size=3, unique=True).map(sorted),
    "hyperloglog": st.just(10),
    "quantile": st.floats(0, 1),
    "top_k": st.integers(1, 9),
}


@st.composite
def aggregations(draw: st.DrawFn) -> agg.Aggregation:
    """Return aggregations, with parameters, filters and `skip_nan`."""
    options = {"where": draw(st.none() | NAMES)}
    name = draw(st.sampled_from(["count", "correlation", "linear_regression", *NAMED, *PARAMETERS]))
    if name == "count" and draw(st.booleans()):
        return agg.count(**options)
    make = getattr(agg, name)
    columns = [draw(NAMES) for _ in (("v",) if name == "count" else make.first.columns)]
    given = [draw(PARAMETERS[name])] if name in PARAMETERS else []
    return make(*columns, *given, skip_nan=draw(st.booleans()), **options)


@st.composite
def queries(draw: st.DrawFn, windows: st.SearchStrategy) -> Query:
    """Return queries whose columns have any names."""
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique=True))
    key = names[: draw(st.integers(0, len(names) - 1))]
    aggregates = {name: draw(aggregations()) for name in names[len(key) :]}
    return Query(draw(windows), aggregates, key=key, time=draw(NAMES))


def resolved(query: Query) -> list[window.Window]:
    return [each.resolve(NANOSECONDS) for each in query.windows]


def same(left: Query, right: Query) -> bool:
    """Say whether two queries are the same, whatever the units that durations are written in."""
    parts = [(each.aggregates, each.key, each.time, resolved(each)) for each in (left, right)]
    return parts[0] == parts[1]


@settings(max_examples=examples(60))
@given(queries(grouped()), NAMES)
def test_windows_to_group_by_come_back(query, table):
    assume(not {"window_start", "window_end", "window_time"} & set(query.key))
    assert same(muntin.sql(query.to_sql(table)), query)


@settings(max_examples=examples(60))
@given(queries(framed()), NAMES)
def test_frames_come_back(query, table):
    assert same(muntin.sql(query.to_sql(table)), query)


@settings(max_examples=examples(40))
@given(st.one_of(grouped(), framed()), st.sampled_from(["spark", "flink"]))
def test_dialects_come_back_or_are_refused(each, dialect):
    aggregates = {
        "n": agg.count(),
        "high": agg.max("v"),
        "mean": agg.mean("v", where="ok"),
        "d": agg.count("v"),
    }
    query = Query(each, aggregates, key=["a", "order"], time="at")
    try:
        statement = query.to_sql("t", dialect=dialect)
    except UnsupportedOperationError:
        assert refused(each, dialect)
    else:
        assert not refused(each, dialect)
        assert same(muntin.sql(statement, dialect=dialect), query)


def refused(each: window.Window, dialect: str) -> bool:
    """Say whether an engine has no words for a window of those above."""
    lengths = [length for length in each.resolve(NANOSECONDS).durations if length]
    unitless = any(isinstance(length, int) for length in each.durations if length)
    if each in (window.lifetime(), window.lifetime(closed="left")):
        return each.closed == "left"
    if each.is_frame and each.measure is window.Measure.TIME and each.closed != "both":
        return True
    if dialect == "spark":
        fine = not unitless and any(length % 1_000 for length in lengths)
        return "cumulative" in repr(each) or fine or (unitless and not each.is_frame)
    ends_later = each.is_frame and each.resolve(NANOSECONDS).held[1] != 1
    return unitless or ends_later or any(length % 1_000_000 for length in lengths)


WRITTEN = {
    "flink": (
        Query(window.session("5 minutes"), {"n": agg.count()}, key=["a", "b"]),
        """SELECT a, b, window_start, window_end, count(*) AS n
FROM TABLE(SESSION(TABLE t PARTITION BY (a, b), DESCRIPTOR(ts), INTERVAL '5' MINUTE))
GROUP BY a, b, window_start, window_end""",
    ),
    "spark": (
        Query(
            window.sliding("10 minutes", every="5 minutes", offset="2 minutes"),
            {"who": agg.arg_max("len", "caller"), "p": agg.quantile("len", 0.9, where="ok")},
            key="region",
        ),
        """SELECT region, window, max_by(caller, len) AS who, percentile(len, 0.9) FILTER (WHERE ok) AS p
FROM t
GROUP BY region, window(ts, '10 minutes', '5 minutes', '2 minutes')""",
    ),
}


@pytest.mark.parametrize("dialect", WRITTEN)
def test_what_is_written(dialect):
    query, statement = WRITTEN[dialect]
    assert query.to_sql("t", dialect=dialect) == statement


def test_several_windows_are_named():
    windows = {"recent": window.trailing(rows(3)), "wide": window.trailing("1 day", closed="both")}
    query = Query(windows, {"spent": agg.sum("v"), "n": agg.count()}, key="card")
    assert query.to_sql("pays") == (
        "SELECT ts, card, sum(v) OVER recent AS spent_recent, count(*) OVER recent AS n_recent, "
        "sum(v) OVER wide AS spent_wide, count(*) OVER wide AS n_wide\n"
        "FROM pays\n"
        "WINDOW recent AS (PARTITION BY card ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW),\n"
        "       wide AS (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)"
    )
    found = muntin.sql(query.to_sql("pays"))
    assert same(found, query)
    assert found.windows.names == ("recent", "wide")


def test_what_is_for_streams_is_left_out():
    query = Query(window.tumbling(10), {"n": agg.count()}, watermark=5, allowed_lateness=3)
    assert muntin.sql(query.to_sql(), watermark=5, allowed_lateness=3) == query


def test_a_timedelta_is_a_duration():
    query = Query(window.tumbling(datetime.timedelta(minutes=90)), {"n": agg.count()})
    assert "INTERVAL '90' MINUTE" in query.to_sql()


@agg.define(state="f8")
class mean:
    """One of the user's own, by a name that is taken."""

    def lift(v):
        return v

    def combine(a, b):
        return a + b


COUNTED = {"n": agg.count()}
REFUSED = {
    "several windows": (Query([window.tumbling(1), window.session(2)], COUNTED), None, "2 windows"),
    "several frames of Flink": (
        Query([window.trailing(rows(1)), window.trailing(rows(2))], COUNTED),
        "flink",
        "2 windows",
    ),
    "windows by rows": (Query(window.tumbling(rows(5)), COUNTED), None, r"no words for window.tumbling\(rows\(5\)\)"),
    "calendars": (Query(window.calendar("1 month"), COUNTED), None, "no words for window.calendar"),
    "values": (Query(window.delta("x", 5.0, every=5.0), COUNTED), None, "no words for window.delta"),
    "a frame without a bound": (Query(window.trailing("1 hour"), COUNTED), None, "RANGE holds both of its bounds"),
    "a frame without peers in Spark": (
        Query(window.trailing("1 hour", closed="left"), COUNTED),
        "spark",
        "Spark has no EXCLUDE GROUP",
    ),
    "no unit in Spark": (Query(window.tumbling(5), COUNTED), "spark", "Spark's windows have units"),
    "nanoseconds in Flink": (Query(window.tumbling("5 ns"), COUNTED), "flink", "finer than the times of Flink"),
    "tiles": (Query(window.trailing("1 hour", hop="5 minutes"), COUNTED), None, "RANGE holds both of its bounds"),
    "rows closed otherwise": (
        Query(window.trailing(rows(3), closed="left"), COUNTED),
        None,
        r"it has them for window.trailing\(rows\(3\), delay=rows\(1\)\)",
    ),
    "a frame that is a trailing one": (
        Query(window.frame("1 hour", 0), COUNTED),
        None,
        "it has them for window.trailing",
    ),
    "units and none": (Query(window.tumbling("1 hour", offset=5), COUNTED), None, "with and without a unit"),
    "the clock": (Query(window.tumbling(5), COUNTED, time=None), None, "the clock's time"),
    "empty windows": (Query(window.tumbling(5), COUNTED, emit_empty=True), None, "emit_empty is True"),
    "one's own": (Query(window.tumbling(5), {"x": mean("v")}), None, "SQL cannot say this"),
    "what Spark has not": (
        Query(window.tumbling("5s"), {"x": agg.m4("v")}),
        "spark",
        r"Spark has no function for agg.m4",
    ),
    "what Spark has not with OVER": (Query(window.trailing(rows(5)), {"x": agg.median("v")}), "spark", "with OVER"),
    "what Flink has not": (Query(window.tumbling("5s"), {"x": agg.median("v")}), "flink", "Flink has no function"),
    "growing windows in Spark": (Query(window.cumulative(6, every=2), COUNTED), "spark", "Spark has no words for"),
    "a key like the start of a window": (
        Query(window.tumbling(5), COUNTED, key="window_start"),
        None,
        "cannot say this",
    ),
}


@pytest.mark.parametrize("example", REFUSED)
def test_what_sql_cannot_say(example):
    query, dialect, reason = REFUSED[example]
    with pytest.raises(UnsupportedOperationError, match=reason):
        query.to_sql("t", dialect=dialect)


def test_names_that_are_none():
    query = Query(window.tumbling(5), COUNTED)
    with pytest.raises(InvalidArgumentError, match="table is ''; give the name of a table"):
        query.to_sql("")
    with pytest.raises(InvalidArgumentError, match="dialect is 'mysql'"):
        query.to_sql("t", dialect="mysql")
