"""`muntin.warm`: compile before the data comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin import aggregators
from muntin.aggregations.aggregation import Aggregation
from muntin.arrays.slide import slide
from muntin.kernels.cache import CacheInfo, cache_info


def warm(aggregation: Aggregation | Mapping[str, Aggregation], *, dtype: Any = "f8") -> CacheInfo:
    """Compile the kernels that these aggregations need, and say where they are kept. Seconds once, then nothing.

    Run it while building an image, or before a service takes its first request. `dtype` is the type of the columns, or
    a mapping of column names to types.

    >>> from muntin import agg, warm
    >>> warm(agg.max("v")).modules > 0
    True
    """
    each = [aggregation] if isinstance(aggregation, Aggregation) else list(aggregation.values())
    names = dict.fromkeys(name for one in each for name in one.columns)
    types = dict(dtype) if isinstance(dtype, Mapping) else dict.fromkeys(names, dtype)
    types |= {one.where: "?" for one in each if one.where is not None}
    columns = {name: np.ones(4, types.get(name, "f8")) for name in (*names, *types)} or {"v": np.ones(4)}
    slide(columns, aggregation, range=3)
    slide(columns, aggregation, range=3, times=np.arange(4))
    slide(columns, aggregation, range=4, slide=2, times=np.array([0, 1, 2, 9]))
    for kind in (aggregators.TwoStacks, aggregators.SubtractOnEvict):
        if kind.needs_invert and not all(one.invertible for one in each):
            continue
        window = kind(aggregation, dtype=dict(types))
        window.bulk_insert(np.arange(4), columns)
        window.evict()
        window.query()
    return cache_info()
