"""Imports numba without scipy.

To know whether there is a BLAS numba imports `scipy.linalg`, where scipy is installed: a quarter of a second in each
process, for functions that hardly a kernel calls. Here it is taken to work where scipy is installed. A kernel that does
call such a function imports it when it is compiled, since numba looks again then.
"""

from __future__ import annotations

import importlib.util
import sys

from numba.np import linalg


def _look_for_scipy() -> None:
    """Say what numba's `ensure_blas` says, an ImportError where there is no scipy, without importing it."""
    if importlib.util.find_spec("scipy") is None:
        raise ImportError("scipy is not installed")


def import_array_functions() -> None:
    """Import what numba knows of arrays, once in a process."""
    if "numba.np.arraymath" in sys.modules:
        return
    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = _look_for_scipy
    try:
        from numba.np import arraymath

        arraymath.ensure_blas = ensure_blas
    finally:
        linalg.ensure_blas = ensure_blas
