"""Imports numba without scipy.

To find out whether there is a BLAS, numba imports `scipy.linalg` if scipy is installed: a quarter of a second per
process, for functions that hardly any kernel calls. Here an installed scipy is assumed to work. A kernel that does call
such a function imports it when compiled, since numba checks again then.
"""

from __future__ import annotations

import importlib.util
import sys

from numba.core.compiler_lock import global_compiler_lock
from numba.np import linalg

from muntin.forks import hold_while_forking

hold_while_forking(global_compiler_lock)  # a fork could not do with tables of the compiler that are half-changed


def _look_for_scipy() -> None:
    """Act like numba's `ensure_blas`, with an ImportError if there is no scipy, without importing it."""
    if importlib.util.find_spec("scipy") is None:
        raise ImportError("scipy is not installed")


def import_array_functions() -> None:
    """Import numba's array support, once per process."""
    if "numba.np.arraymath" in sys.modules:
        return
    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = _look_for_scipy
    try:
        from numba.np import arraymath

        arraymath.ensure_blas = ensure_blas
    finally:
        linalg.ensure_blas = ensure_blas
