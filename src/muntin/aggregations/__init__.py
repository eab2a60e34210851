"""Aggregations: what to compute of a window. `from muntin import agg`.

Each is made by `define`, the tool that you use for your own.
"""

from typing import NoReturn

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.arithmetic import count, geometric_mean, mean, product, sum
from muntin.aggregations.by_time import ewm_mean, time_weighted_mean
from muntin.aggregations.define import Factory, by_type, define
from muntin.aggregations.extremes import arg_max, arg_min, max, max_count, min, min_count, range
from muntin.aggregations.holistic import count_distinct, median, quantile, top_k
from muntin.aggregations.logic import all, any, bit_and, bit_or, bit_xor
from muntin.aggregations.order import first, last, m4
from muntin.aggregations.sequences import collect, collect_distinct, concat, longest_increasing_run
from muntin.aggregations.sketches import bloom, bloom_contains, hyperloglog, moment_sketch
from muntin.aggregations.statistics import (
    correlation,
    covariance,
    kurtosis,
    linear_regression,
    skewness,
    std,
    std_pop,
    var,
    var_pop,
)
from muntin.kernels.runtime import hash64
from muntin.suggestions import AGGREGATIONS, no_attribute

__all__ = [
    "Aggregation",
    "Factory",
    "all",
    "any",
    "arg_max",
    "arg_min",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bloom",
    "bloom_contains",
    "by_type",
    "collect",
    "collect_distinct",
    "concat",
    "correlation",
    "count",
    "count_distinct",
    "covariance",
    "define",
    "ewm_mean",
    "first",
    "geometric_mean",
    "hash64",
    "hyperloglog",
    "kurtosis",
    "last",
    "linear_regression",
    "longest_increasing_run",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "moment_sketch",
    "product",
    "quantile",
    "range",
    "skewness",
    "std",
    "std_pop",
    "sum",
    "time_weighted_mean",
    "top_k",
    "var",
    "var_pop",
]


def __getattr__(name: str) -> NoReturn:
    """Say which name is meant."""
    raise no_attribute("agg", name, __all__, AGGREGATIONS)
