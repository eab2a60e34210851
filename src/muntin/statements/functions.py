"""The functions of SQL and the aggregations that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muntin import aggregations
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.define import Factory
from muntin.suggestions import AGGREGATIONS

_OF_SQL = """
    approx_count_distinct approx_percentile array_agg avg bool_and bool_or collect_list collect_set corr covar_samp
    every first_value last_value listagg percentile percentile_approx quantile_cont some stddev stddev_pop stddev_samp
    string_agg var_samp variance
"""
SYNONYMS = {name: AGGREGATIONS[name] for name in _OF_SQL.split()}
"""Names of SQL, and those that they have here. The arguments are the same, in the same order."""
SWAPPED = {name: AGGREGATIONS[name] for name in ("max_by", "min_by")}
"""Functions that take the value first, and then by what it is chosen."""
_FIXED = {
    "approx_count_distinct": (1, "a column alone"),
    "listagg": (2, "a column and the text between values"),
    "string_agg": (2, "a column and the text between values"),
}
"""How many arguments some functions must have: with others they mean different things to different databases."""
WRITTEN: Mapping[str, Mapping[str, str]] = {
    "spark": {
        "all": "bool_and",
        "any": "bool_or",
        "arg_max": "max_by",
        "arg_min": "min_by",
        "correlation": "corr",
        "covariance": "covar_samp",
        "mean": "avg",
        "quantile": "percentile",
        "std": "stddev_samp",
        "std_pop": "stddev_pop",
        "var": "var_samp",
    }
    | {name: name for name in ("bit_and", "bit_or", "bit_xor", "kurtosis", "max", "median", "min", "skewness")}
    | {name: name for name in ("sum", "var_pop")},
    "flink": {
        "max": "max",
        "mean": "avg",
        "min": "min",
        "std": "stddev_samp",
        "std_pop": "stddev_pop",
        "sum": "sum",
        "var": "var_samp",
        "var_pop": "var_pop",
    },
}
"""What Spark and Flink call the aggregations that give the same there, whatever the order of the rows."""
NOT_OVER = ("count_distinct", "median")
"""What Spark has functions for, but not for frames."""

Make = Callable[..., Aggregation]


@dataclass(frozen=True)
class Function:
    """A function of SQL that makes an aggregation."""

    make: Make
    swapped: bool = False
    """Whether its columns are in the other order."""
    takes: tuple[int, str] | None = None
    """How many arguments it must have, and what they are; None where `make` tells."""

    @property
    def columns(self) -> int | None:
        """How many columns it reads before its parameters; None where only its call tells."""
        return len(self.make.first.columns) if isinstance(self.make, Factory) else None

    def parameter(self, word: str) -> str:
        """Return the name of a parameter, which may be written in upper case."""
        exact = isinstance(self.make, Factory) and word in self.make.first.parameters
        return word if exact else word.lower()


def known(own: Mapping[str, Make] | None) -> dict[str, Function]:
    """Return every function that makes an aggregation, by its name in lower case: ours, SQL's and one's own.

    >>> functions = known(None)
    >>> functions["avg"].make("v"), functions["top_k"].make("v", 3), functions["max_by"].swapped
    (agg.mean('v'), agg.top_k('v', k=3), True)
    """
    ours: dict[str, Make] = {
        name: made for name in dir(aggregations) if isinstance(made := getattr(aggregations, name), Factory)
    }
    ours["count"] = aggregations.count
    found = {name: Function(make) for name, make in ours.items()}
    for name, meant in (SYNONYMS | SWAPPED).items():
        found[name] = Function(ours[meant], name in SWAPPED, _FIXED.get(name))
    return found | {name.lower(): Function(make) for name, make in (own or {}).items()}
