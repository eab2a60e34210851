"""muntin: sliding-window aggregation at machine speed."""

from muntin import aggregations as agg
from muntin import aggregators
from muntin._version import __version__

__all__ = ["__version__", "agg", "aggregators"]
