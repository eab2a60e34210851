"""Every built-in aggregation, with columns, and the values that suit it: what the tests loop over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from sampling import examples

from muntin import agg

NUMBERS = st.one_of(st.integers(-50, 50).map(float), st.sampled_from([0.0, 0.5, -3.25, 1e6, -1e6]))
SMALL = st.integers(-50, 50).map(float)
INTEGERS = st.integers(-(2**40), 2**40)
BOOLEANS = st.booleans()
STRINGS = st.text("abc", max_size=3)
POSITIVE = st.sampled_from([0.0, 0.5, 1.0, 2.0, 8.0, 100.0, -1.0])
DTYPES = {NUMBERS: "f8", SMALL: "f8", POSITIVE: "f8", INTEGERS: "i8", BOOLEANS: "?"}


def pairs(x: Any, y: Any) -> Any:
    """Values of two columns."""
    return (x, y)


@dataclass(frozen=True)
class Case:
    """One aggregation and the values to try it on: a strategy, or one for each column."""

    name: str
    aggregation: Any
    columns: Any
    costly: bool = False
    """Whether an answer takes many milliseconds as plain Python, so that few are asked for."""

    def examples(self, count: int) -> int:
        """Return how many random examples to try where others try `count`."""
        return examples(min(count, 2) if self.costly else count)

    @property
    def dtypes(self) -> dict[str, str]:
        """The types of the columns: kernels are compiled for them alone, and for none of a column of nulls."""
        columns = self.columns if isinstance(self.columns, tuple) else (self.columns,)
        return {name: DTYPES[each] for name, each in zip(self.aggregation.reads, columns, strict=False)}

    @property
    def values(self) -> Any:
        """Values without nulls."""
        return st.tuples(*self.columns) if isinstance(self.columns, tuple) else self.columns

    @property
    def nullable(self) -> Any:
        """Values among which there are nulls."""
        if isinstance(self.columns, tuple):
            return st.tuples(*(st.one_of(st.none(), each) for each in self.columns))
        return st.one_of(st.none(), self.columns)

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("all", agg.all("v"), BOOLEANS),
    Case("any", agg.any("v"), BOOLEANS),
    Case("arg_max", agg.arg_max("a", "b"), pairs(NUMBERS, NUMBERS)),
    Case("arg_max_text", agg.arg_max("a", "b"), pairs(NUMBERS, STRINGS)),
    Case("arg_min", agg.arg_min("a", "b"), pairs(INTEGERS, INTEGERS)),
    Case("bit_and", agg.bit_and("v"), INTEGERS),
    Case("bit_or", agg.bit_or("v"), INTEGERS),
    Case("bit_xor", agg.bit_xor("v"), INTEGERS),
    Case("bloom", agg.bloom("v", bits=64, hashes=2), NUMBERS),
    Case("bloom_text", agg.bloom("v", bits=64), STRINGS),
    Case("bottom_k", agg.bottom_k("v", 3), NUMBERS),
    Case("collect", agg.collect("v"), NUMBERS),
    Case("collect_distinct", agg.collect_distinct("v"), INTEGERS),
    Case("concat", agg.concat("v"), STRINGS),
    Case("concat_where", agg.concat("v", where="ok"), pairs(STRINGS, BOOLEANS)),
    Case("concat_separated", agg.concat("v", "-"), STRINGS),
    Case("correlation", agg.correlation("a", "b"), pairs(NUMBERS, NUMBERS)),
    Case("count", agg.count(), NUMBERS),
    Case("count_where", agg.count(where="ok"), BOOLEANS),
    Case("count_distinct", agg.count_distinct("v"), st.sampled_from([0.0, -0.0, 1.5, float("nan"), -7.0])),
    Case("count_distinct_integer", agg.count_distinct("v"), st.integers(0, 4)),
    Case("count_distinct_text", agg.count_distinct("v"), STRINGS),
    Case("count_distinct_where", agg.count_distinct("v", where="ok"), pairs(STRINGS, BOOLEANS)),
    Case("count_values", agg.count("v"), NUMBERS),
    Case("covariance", agg.covariance("a", "b"), pairs(NUMBERS, NUMBERS)),
    Case("any_where", agg.any("ok", where="ok"), BOOLEANS),
    Case("ewm_mean", agg.ewm_mean("v", half_life=3), NUMBERS),
    Case("first", agg.first("v"), NUMBERS),
    Case("first_k", agg.first_k("v", 3), NUMBERS),
    Case("first_k_text", agg.first_k("v", 2), STRINGS),
    Case("geometric_mean", agg.geometric_mean("v"), POSITIVE),
    Case("histogram", agg.histogram("v", edges=[-3.25, 0, 0.5, 20]), NUMBERS),
    Case("histogram_integer", agg.histogram("v", edges=[-(2**39), 0.5, 2**39]), INTEGERS),
    Case("hyperloglog", agg.hyperloglog("v", precision=4), INTEGERS),
    Case("kurtosis", agg.kurtosis("v"), SMALL),
    Case("last", agg.last("v"), NUMBERS),
    Case("last_text", agg.last("v"), STRINGS),
    Case("last_k", agg.last_k("v", 3), NUMBERS),
    Case("last_k_where", agg.last_k("v", 2, where="ok"), pairs(STRINGS, BOOLEANS)),
    Case("linear_regression", agg.linear_regression("a", "b"), pairs(NUMBERS, NUMBERS)),
    Case("longest_increasing_run", agg.longest_increasing_run("v"), NUMBERS),
    Case("m4", agg.m4("v"), NUMBERS),
    Case("max", agg.max("v"), NUMBERS),
    Case("max_integer", agg.max("v"), INTEGERS),
    Case("max_text", agg.max("v"), STRINGS),
    Case("max_where", agg.max("v", where="ok"), pairs(INTEGERS, BOOLEANS)),
    Case("max_count", agg.max_count("v"), NUMBERS),
    Case("mean", agg.mean("v"), NUMBERS),
    Case("mean_integer", agg.mean("v"), INTEGERS),
    Case("median", agg.median("v"), NUMBERS),
    Case("min", agg.min("v"), NUMBERS),
    Case("min_count", agg.min_count("v"), INTEGERS),
    Case("mode", agg.mode("v"), st.sampled_from([0.0, -0.0, 1.5, float("nan"), -7.0])),
    Case("mode_integer", agg.mode("v"), st.integers(0, 4)),
    Case("mode_text", agg.mode("v"), STRINGS),
    Case("moment_sketch", agg.moment_sketch("v", 0.5), POSITIVE, costly=True),
    Case("per", agg.per("a", agg.sum("b")), pairs(STRINGS, INTEGERS)),
    Case("per_top", agg.per("a", agg.mean("b"), top=2), pairs(SMALL, SMALL)),
    Case("per_median", agg.per("a", agg.median("b")), pairs(st.integers(0, 3), NUMBERS)),
    Case("per_text", agg.per("a", agg.concat("b", "-"), top=2), pairs(BOOLEANS, STRINGS)),
    Case("per_last", agg.per("a", agg.last("b"), where="ok"), (st.integers(0, 3), NUMBERS, BOOLEANS)),
    Case("product", agg.product("v"), POSITIVE),
    Case("median_where", agg.median("v", where="ok"), pairs(NUMBERS, BOOLEANS)),
    Case("quantile", agg.quantile("v", 0.9), NUMBERS),
    Case("range", agg.range("v"), NUMBERS),
    Case("range_integer", agg.range("v"), INTEGERS),
    Case("skewness", agg.skewness("v"), SMALL),
    Case("std", agg.std("v"), NUMBERS),
    Case("std_pop", agg.std_pop("v"), NUMBERS),
    Case("sum", agg.sum("v"), NUMBERS),
    Case("sum_integer", agg.sum("v"), INTEGERS),
    Case("sum_where", agg.sum("v", where="ok"), pairs(NUMBERS, BOOLEANS)),
    Case("time_weighted_mean", agg.time_weighted_mean("v"), NUMBERS),
    Case("top_k", agg.top_k("v", 3), NUMBERS),
    Case("var", agg.var("v"), NUMBERS),
    Case("var_pop", agg.var_pop("v"), NUMBERS),
]

NOT_AGGREGATIONS = {"Aggregation", "Factory", "bloom_contains", "by_type", "define", "hash64"}
