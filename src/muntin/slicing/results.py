"""Results of aggregations as Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.aggregations.binding import Result
from muntin.types import Array, logical_array

Raw = tuple[Array, Array | None, Result]
"""Physical values, where they are not null (None: everywhere), and their type."""


def to_arrow(raw: Raw) -> pa.Array:
    """Return a result as an Arrow array."""
    values, valid, result = raw
    if result.names:
        arrays = [
            logical_array(np.ascontiguousarray(values[name]), valid, kind)
            for name, kind in zip(result.names, result.types, strict=True)
        ]
        mask = None if valid is None else pa.array(~valid)
        return pa.StructArray.from_arrays(arrays, list(result.names), mask=mask)
    if result.length is not None:
        flat = logical_array(values.reshape(-1), None, result.types[0])
        mask = None if valid is None else pa.array(~valid)
        return pa.FixedSizeListArray.from_arrays(flat, result.length, mask=mask)
    return logical_array(values, valid, result.types[0])
