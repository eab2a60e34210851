"""muntin: sliding-window aggregation at machine speed."""

from muntin import aggregations as agg
from muntin import aggregators, policies, spark, stores
from muntin import windows as window
from muntin._version import __version__
from muntin.arrays.slide import explain, slide
from muntin.arrays.warm import warm
from muntin.kernels.cache import cache_info, clear_cache
from muntin.plotting import plot
from muntin.query import Query
from muntin.query.query import ProcessingTime
from muntin.windows import rows

__all__ = [
    "ProcessingTime",
    "Query",
    "__version__",
    "agg",
    "aggregators",
    "cache_info",
    "clear_cache",
    "explain",
    "plot",
    "policies",
    "rows",
    "slide",
    "spark",
    "stores",
    "warm",
    "window",
]
