"""Which name was meant: what other libraries call a thing, and names that are spelt nearly the same."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_MOST_SHOWN = 60
"""Longer lists of names help nobody."""

AGGREGATIONS = {
    name: ours
    for ours, names in {
        "all": "bool_and every logical_and",
        "any": "bool_or logical_or some",
        "arg_max": "argmax idxmax max_by maxby",
        "arg_min": "argmin idxmin min_by minby",
        "bit_and": "bitand",
        "bit_or": "bitor",
        "bit_xor": "bitxor",
        "bottom_k": "bottomk nsmallest smallest",
        "collect": "array_agg collect_list group_array implode list to_list",
        "collect_distinct": "collect_set distinct group_uniq_array set unique",
        "concat": "group_concat join listagg str_concat string_agg",
        "correlation": "corr pearson",
        "count": "len n num_rows row_count rows size",
        "count_distinct": "countdistinct distinct_count n_unique nunique num_unique uniq unique_count",
        "covariance": "cov covar covar_samp",
        "ewm_mean": "ema ewm ewma exponential_moving_average",
        "first": "first_value",
        "first_k": "firstk head",
        "geometric_mean": "geomean gmean",
        "histogram": "bin_counts bins hist histogram_numeric",
        "hyperloglog": "approx_count_distinct approx_distinct approx_n_unique hll",
        "kurtosis": "kurt",
        "last": "last_value",
        "last_k": "lastk tail",
        "linear_regression": "linregress regr regr_slope regression slope",
        "m4": "candle ohlc",
        "max": "greatest highest maximum",
        "mean": "average avg",
        "min": "least lowest minimum",
        "mode": "most_common most_frequent modal",
        "moment_sketch": "approx_percentile approx_quantile percentile_approx",
        "per": "by by_value group group_by groupby",
        "product": "prod",
        "quantile": "percentile percentile_cont quantile_cont",
        "range": "peak_to_peak ptp",
        "skewness": "skew",
        "std": "sd standard_deviation stddev stddev_samp stdev",
        "std_pop": "pstdev stddev_pop",
        "sum": "total",
        "time_weighted_mean": "time_weighted_average tw_mean twa twap",
        "top_k": "largest nlargest topk",
        "var": "var_samp variance",
        "var_pop": "pvariance variance_pop",
    }.items()
    for name in names.split()
}
"""Names of pandas, polars, SQL and Spark, and those that mean the same here."""

WINDOWS = {
    name: ours
    for ours, names in {
        "calendar": "day month quarter week year",
        "cumulative": "accumulate cumulate",
        "delta": "threshold",
        "lifetime": "all_time cum_count cum_max cum_min cum_sum cummax cummin cumsum expanding running unbounded",
        "policy": "programmable",
        "punctuated": "punctuation",
        "session": "session_window sessions",
        "sliding": "hop hopping slide",
        "trailing": "moving roll rolling",
        "tumbling": "fixed tumble window",
    }.items()
    for name in names.split()
}
"""The same for windows: names of pandas, polars, Flink, Beam and SQL."""

MUNTIN = {"aggregations": "agg", "roll": "slide", "rolling": "slide", "sliding": "slide", "windows": "window"}
"""The same for the package itself."""


def hint(name: str, known: Iterable[str], meant: Mapping[str, str] | None = None) -> str:
    """Return the end of an error about a name that is not known: which one was meant, or else which there are.

    `meant` are names that others use for those that are known. O(all names).

    >>> hint("quantil", ["max", "quantile"]), hint("avg", ["mean"], AGGREGATIONS), hint("xyz", ["a", "b"])
    ('; did you mean quantile?', '; did you mean mean?', '; there are a, b')
    """
    names = sorted(known)
    found = _nearest(name, names, meant or {})
    if found is not None:
        return f"; did you mean {found}?"
    return f"; there are {', '.join(names)}" if 0 < len(names) <= _MOST_SHOWN else ""


def near(name: object, known: Iterable[object]) -> str:
    """Return the end of an error that lists the known names already: which of them was meant, if one is near.

    >>> near("lenght", ["length", "width"]), near("x", ["length"])
    ("; did you mean 'length'?", '')
    """
    found = _nearest(str(name), [each for each in known if isinstance(each, str)], {})
    return "" if found is None else f"; did you mean {found!r}?"


def _nearest(name: str, names: list[str], meant: Mapping[str, str]) -> str | None:
    if meant.get(name.lower()) in names:
        return meant[name.lower()]
    by_letters = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_letters, 1)
    return by_letters[found[0]] if found else None


def no_attribute(module: str, name: str, known: Iterable[str], meant: Mapping[str, str]) -> AttributeError:
    """Return the error for a name that a module does not have.

    >>> no_attribute("agg", "avg", ["mean"], AGGREGATIONS)
    AttributeError('there is no agg.avg; did you mean agg.mean?')
    """
    if name.startswith("_"):  # Python asks for such names by itself
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    end = hint(name, known, meant).replace("did you mean ", f"did you mean {module}.")
    return AttributeError(f"there is no {module}.{name}{end}", name=name)
