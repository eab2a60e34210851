"""The functions of `math` as in compiled code: NaN and infinity where Python raises an error.

Plain kernels find them under the name `math`, so that an answer does not depend on whether a kernel is compiled yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_NUMPY = {"pow": "power", "acos": "arccos", "asin": "arcsin", "acosh": "arccosh", "atanh": "arctanh"}
"""Functions with another name in NumPy."""


@cache
def __getattr__(name: str) -> Any:
    """Return a function or a constant of `math`.

    >>> from muntin.kernels import c_math
    >>> c_math.sqrt(-1.0), c_math.log(0.0), c_math.exp(1000.0)
    (nan, -inf, inf)
    """
    value = getattr(math, name)
    return _forgiving(value, getattr(np, _NUMPY.get(name, name), None)) if callable(value) else value


def _forgiving(function: Callable[..., Any], as_in_c: Callable[..., Any] | None) -> Callable[..., Any]:
    def forgiving(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ValueError, OverflowError):
            if as_in_c is None:
                return math.nan
            with np.errstate(all="ignore"):
                return float(as_in_c(*map(float, arguments)))

    return forgiving
