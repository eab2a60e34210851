"""The one hash of numbers: the finalizer of the splitmix64 generator (Steele, Lea and Flood, 2014).

The same everywhere: on arrays, compiled (see intrinsics.py), and on Python integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, odd: the step of the generator."""
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(bits: Any) -> Any:
    """Return 64 well-mixed bits for each uint64 of an array; for one number, if compiled.

    >>> mix(np.arange(2, dtype=np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    bits = bits + GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


def mix_integer(bits: int) -> int:
    """Return 64 well-mixed bits of a number from 0 to 2^64 - 1.

    >>> mix_integer(0)
    16294208416658607535
    """
    with np.errstate(over="ignore"):  # wraps around on purpose
        return int(mix(np.uint64(bits)))
