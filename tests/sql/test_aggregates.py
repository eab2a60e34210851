"""Functions as aggregations: SQL's names, our own, one's own; and what a query cannot say, with its place."""

from __future__ import annotations

import pytest

import muntin
from muntin import agg
from muntin.aggregations import Factory
from muntin.errors import SqlError

MEANT = {
    "COUNT(*)": agg.count(),
    "count(1)": agg.count(),
    "count()": agg.count(),
    "COUNT(v)": agg.count("v"),
    "COUNT(ALL v)": agg.count("v"),
    "COUNT(DISTINCT v)": agg.count_distinct("v"),
    "COUNT_IF(f)": agg.count(where="f"),
    "SUM(v)": agg.sum("v"),
    "SUM(t.v)": agg.sum("v"),
    "SUM(`v`)": agg.sum("v"),
    'SUM("two words")': agg.sum("two words"),
    "AVG(v)": agg.mean("v"),
    "MEAN(v)": agg.mean("v"),
    "MIN(v)": agg.min("v"),
    "max(v)": agg.max("v"),
    "STDDEV(v)": agg.std("v"),
    "STDDEV_SAMP(v)": agg.std("v"),
    "STD(v)": agg.std("v"),
    "STDDEV_POP(v)": agg.std_pop("v"),
    "VARIANCE(v)": agg.var("v"),
    "VAR_SAMP(v)": agg.var("v"),
    "VAR_POP(v)": agg.var_pop("v"),
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY v)": agg.quantile("v", 0.9),
    "PERCENTILE(v, 0.9)": agg.quantile("v", 0.9),
    "MEDIAN(v)": agg.median("v"),
    "APPROX_COUNT_DISTINCT(v)": agg.hyperloglog("v"),
    "APPROX_PERCENTILE(v, 0.9)": agg.moment_sketch("v", 0.9),
    "MAX_BY(who, v)": agg.arg_max("v", "who"),
    "MIN_BY(who, v)": agg.arg_min("v", "who"),
    "arg_max(v, who)": agg.arg_max("v", "who"),
    "FIRST(v)": agg.first("v"),
    "FIRST_VALUE(v)": agg.first("v"),
    "FIRST_VALUE(v) IGNORE NULLS": agg.first("v"),
    "FIRST_VALUE(v IGNORE NULLS)": agg.first("v"),
    "LAST_VALUE(v)": agg.last("v"),
    "CORR(x, y)": agg.correlation("x", "y"),
    "COVAR_SAMP(x, y)": agg.covariance("x", "y"),
    "SKEWNESS(v)": agg.skewness("v"),
    "KURTOSIS(v)": agg.kurtosis("v"),
    "BOOL_AND(f)": agg.all("f"),
    "EVERY(f)": agg.all("f"),
    "ALL(f)": agg.all("f"),
    "BOOL_OR(f)": agg.any("f"),
    "SOME(f)": agg.any("f"),
    "ANY(f)": agg.any("f"),
    "BIT_XOR(v)": agg.bit_xor("v"),
    "COLLECT_LIST(v)": agg.collect("v"),
    "ARRAY_AGG(v)": agg.collect("v"),
    "COLLECT_SET(v)": agg.collect_distinct("v"),
    "LISTAGG(v, ', ')": agg.concat("v", ", "),
    "STRING_AGG(v, 'it''s')": agg.concat("v", "it's"),
    "range(v)": agg.range("v"),
    "top_k(v, 3)": agg.top_k("v", 3),
    "LAST_K(v, 3)": agg.last_k("v", 3),
    "mode(v)": agg.mode("v"),
    "MODE() WITHIN GROUP (ORDER BY v)": agg.mode("v"),
    "histogram(v, edges => ARRAY[-1.5, 0, 10])": agg.histogram("v", edges=[-1.5, 0, 10]),
    "HISTOGRAM(v, ARRAY(0, 10))": agg.histogram("v", edges=[0, 10]),
    "top_k(v, k => 3)": agg.top_k("v", 3),
    "TOP_K(v, K => 3)": agg.top_k("v", 3),
    "quantile(v, q => 0.25)": agg.quantile("v", 0.25),
    "ewm_mean(v, half_life => INTERVAL '1' HOUR)": agg.ewm_mean("v", half_life="1 hour"),
    "ewm_mean(v, '90 seconds')": agg.ewm_mean("v", half_life="90 seconds"),
    "max(v, skip_nan => TRUE)": agg.max("v", skip_nan=True),
    "sum(v) FILTER (WHERE f)": agg.sum("v", where="f"),
    "sum(v) FILTER (WHERE t.f = TRUE)": agg.sum("v", where="f"),
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY v) FILTER (WHERE f)": agg.quantile("v", 0.5, where="f"),
}


def asked(*items: str) -> str:
    return f"SELECT {', '.join(items)} FROM t GROUP BY TUMBLE(ts, 10)"


@pytest.mark.parametrize("function", MEANT)
def test_functions(function):
    assert muntin.sql(asked(f"{function} AS x")).aggregates == {"x": MEANT[function]}


@pytest.mark.parametrize("name", [name for name in agg.__all__ if isinstance(getattr(agg, name), Factory)])
def test_every_aggregation_is_a_function(name):
    needed = {"half_life": "'1 hour'", "q": "0.5", "k": "2", "edges": "ARRAY[0, 10]"}
    first = getattr(agg, name).first
    given = [*first.columns, *(needed[each] for each in first.parameters if each in needed)]
    found = muntin.sql(asked(f"{name.upper()}({', '.join(given)}) AS x")).aggregates["x"]
    assert found.factory is getattr(agg, name)
    assert found.columns == first.columns


def test_an_aggregation_of_ones_own():
    @agg.define(state="f8")
    class squares:
        def lift(v, *, power=2.0):
            return v**power

        def combine(a, b):
            return a + b

    query = muntin.sql(asked("SQUARES(v) AS a", "squares(v, power => 3) AS b"), functions={"squares": squares})
    assert query.aggregates == {"a": squares("v"), "b": squares("v", power=3)}
    found = query.run({"ts": [1, 2], "v": [2.0, 3.0]})
    assert (found["a"].to_pylist(), found["b"].to_pylist()) == ([13.0], [35.0])


def test_ones_own_come_before_all_others():
    found = muntin.sql(
        asked("max_by(a, b) AS x", "COUNT(v) AS y", "percentile_cont(v, 0.5) AS z", "COUNT_IF(v) AS n"),
        functions={"MAX_BY": agg.arg_max, "count": agg.sum, "percentile_cont": agg.quantile, "count_if": agg.any},
    ).aggregates
    assert found == {"x": agg.arg_max("a", "b"), "y": agg.sum("v"), "z": agg.quantile("v", 0.5), "n": agg.any("v")}


REFUSED = {
    "an unknown function": (asked("avgg(v)"), 8, "no aggregation avgg; did you mean avg"),
    "a function of numbers": (asked("CAST(v AS INT)"), 8, "no aggregation CAST"),
    "an expression in a function": (asked("sum(v * sqrt(2))"), 16, "there is no function sqrt"),
    "an expression of functions": (asked("max(v) - min(v) AS d"), 8, "'max.v. - min.v.' is no column and no agg"),
    "a function of a function": (asked("sum(max(v))"), 12, "there is no function max"),
    "a literal": (asked("1 AS one"), 8, "'1' is no column and no aggregation"),
    "a condition": (asked("sum(v) FILTER (WHERE v > now())"), 33, "there is no function now"),
    "a where": (asked("sum(v, where => f)"), 15, "write FILTER"),
    "a distinct sum": (asked("sum(DISTINCT v)"), 12, "sum has no DISTINCT"),
    "two distinct columns": (asked("count(DISTINCT a, b)"), 26, "takes one column"),
    "an order": (asked("collect_list(v ORDER BY w)"), 32, "in the order of their times"),
    "nulls": (asked("first_value(v) RESPECT NULLS"), 23, "skips nulls"),
    "an error of relative size": (asked("approx_count_distinct(v, 0.05)"), 8, "takes a column alone here"),
    "no separator": (asked("listagg(v)"), 8, "the text between values"),
    "a fraction of rows": (asked("percentile_cont(0.5)"), 8, "WITHIN GROUP .ORDER BY v."),
    "from the greatest": (asked("percentile_cont(0.5) WITHIN GROUP (ORDER BY v DESC)"), 52, "DESC"),
    "a group of something else": (asked("sum(v) WITHIN GROUP (ORDER BY v)"), 29, "for PERCENTILE_CONT"),
    "a fraction that is none": (asked("quantile(v, 1.5)"), 8, "1.5"),
    "a column as a parameter": (asked("quantile(v, q)"), 20, "a parameter of quantile is a number"),
    "a parameter that is not there": (asked("max(v, n => 3)"), 8, "no parameter 'n'"),
    "too many arguments": (asked("max(v, 3)"), 8, "max takes v"),
    "no arguments": (asked("max()"), 8, "needs the name of its column"),
    "a window of something else": (asked("window.start", "count(*)"), 8, "window.start is no column of t"),
    "another table": (asked("sum(u.v)"), 12, "u.v is no column of t"),
    "a column of no group": (asked("v", "count(*)"), 8, "v is not in GROUP BY"),
    "a star": (asked("*", "count(*)"), 8, "instead of [*]"),
    "one name twice": (asked("sum(v) AS x", "max(v) AS x"), 31, "two columns x"),
    "one call twice": (asked("sum(v)", "sum(v)"), 16, "two columns sum.v."),
    "a column of the answer": (asked("sum(v) AS revision"), 18, "revision is a column of the answer"),
    "no aggregate": ("SELECT k FROM t GROUP BY k, TUMBLE(ts, 10)", 1, "no aggregation"),
    "a key and an aggregate": ("SELECT sum(v) AS k FROM t GROUP BY k, TUMBLE(ts, 1)", 18, "two columns k"),
    "a key by another name": (
        "SELECT k AS l, sum(v) FROM t GROUP BY k, TUMBLE(ts, 1)",
        13,
        "AS l: the answer has it as k",
    ),
}


@pytest.mark.parametrize("example", REFUSED)
def test_what_a_query_cannot_say(example):
    statement, column, reason = REFUSED[example]
    with pytest.raises(SqlError, match=f"^line 1, column {column}: .*{reason}") as caught:
        muntin.sql(statement)
    assert (caught.value.line, caught.value.column) == (1, column)
