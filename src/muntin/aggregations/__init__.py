"""Aggregations: what to compute of a window. `from muntin import agg`.

Each is made by `define`, the tool that you use for your own.
"""

from importlib import import_module
from typing import Any

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.define import Factory, by_type, define
from muntin.kernels.runtime import hash64
from muntin.suggestions import AGGREGATIONS, no_attribute

_MEMBERS = {
    "arithmetic": ("count", "geometric_mean", "mean", "product", "sum"),
    "bins": ("histogram",),
    "by_time": ("ewm_mean", "time_weighted_mean"),
    "extremes": ("arg_max", "arg_min", "max", "max_count", "min", "min_count", "range"),
    "holistic": ("bottom_k", "count_distinct", "median", "mode", "quantile", "top_k"),
    "logic": ("all", "any", "bit_and", "bit_or", "bit_xor"),
    "per": ("per",),
    "order": ("first", "first_k", "last", "last_k", "m4"),
    "sequences": ("collect", "collect_distinct", "concat", "longest_increasing_run"),
    "sketches": ("bloom", "bloom_contains", "hyperloglog", "moment_sketch"),
    "statistics": (
        "correlation",
        "covariance",
        "kurtosis",
        "linear_regression",
        "skewness",
        "std",
        "std_pop",
        "var",
        "var_pop",
    ),
}
"""By module, the aggregations in it. A module is loaded when the first of them is used: to read all takes 0.1 s."""
_HOMES = {name: home for home, names in _MEMBERS.items() for name in names}

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
    "bottom_k",
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
    "first_k",
    "geometric_mean",
    "hash64",
    "histogram",
    "hyperloglog",
    "kurtosis",
    "last",
    "last_k",
    "linear_regression",
    "longest_increasing_run",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "moment_sketch",
    "per",
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


def __getattr__(name: str) -> Any:
    """Load the module of an aggregation, or say which name is meant."""
    if name not in _HOMES:
        raise no_attribute("agg", name, __all__, AGGREGATIONS)
    home = import_module(f"{__name__}.{_HOMES[name]}")
    found = globals()[name] = getattr(home, name)
    return found


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return [*__all__]
