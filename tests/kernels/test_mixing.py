"""The hash of numbers: the numbers that it always gave, compiled or not, since sketches and chunks are kept by it."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from muntin.aggregators.stored.chunks import _table
from muntin.kernels import intrinsics, runtime
from muntin.kernels.mixing import mix, mix_integer


@njit
def compiled_hash(value):  # type: ignore[no-untyped-def]
    return runtime.hash64(value)


KNOWN = {
    0: 16294208416658607535,
    1: 10451216379200822465,
    2: 10905525725756348110,
    2**64 - 1: 16490336266968443936,
}


@pytest.mark.parametrize("number", KNOWN)
def test_numbers_are_mixed_as_ever(number: int) -> None:
    assert mix_integer(number) == KNOWN[number]
    assert mix(np.array([number], np.uint64)).tolist() == [KNOWN[number]]
    assert int(intrinsics._mix(np.uint64(number))) == KNOWN[number]


@pytest.mark.parametrize(("value", "known"), [(1, KNOWN[1]), (-1, KNOWN[2**64 - 1]), (2.5, 7033843765569497573)])
def test_values_are_hashed_as_ever(value: float, known: int) -> None:
    assert runtime.hash64(value) == known
    assert int(compiled_hash(value)) == known


def test_texts_and_places_are_hashed_as_ever() -> None:
    assert runtime.hash64("a") == 3405396810240292928
    assert (runtime.hash_position(7, 3, 1000), runtime.hash_rank(7, 12)) == (32, 6)
    assert _table(2).tolist() == [KNOWN[0], 7960286522194355701, 487617019471545679, 17909611376780542445]
