"""Functions that definitions may call, with the same meaning compiled and plain."""

from __future__ import annotations

import decimal
import hashlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.kernels.mixing import mix_integer

if TYPE_CHECKING:  # the compiler process needs no Arrow
    from muntin.types import Array

_MASK = 0xFFFFFFFFFFFFFFFF


def hash64(value: Any) -> int:
    """Return 64 well-mixed bits of a number, a string or bytes: the same in every process, compiled or not.

    Numbers that are equal have equal ones, and so has every NaN.

    >>> hash64(1) == hash64(1.0)
    True
    """
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")
    if not isinstance(value, int | float | np.number | np.bool_):
        return hash64(repr(value))
    number: Any = value
    whole = isinstance(number, int | np.integer | np.bool_) or (number == np.floor(number) and abs(number) < 2**63)
    if number != number:
        number = np.nan  # there are many, of either sign
    bits = int(number) & _MASK if whole else int(np.float64(number).view(np.uint64))
    return mix_integer(bits)


def hash_position(value: Any, which: int, size: int) -> int:
    """Return a place below `size` for the value; each `which` is another hash function.

    >>> 0 <= hash_position("a", 0, 64) < 64
    True
    """
    bits = hash64(value)
    return (bits if which == 0 else mix_integer((bits + which) & _MASK)) % size


def hash_rank(value: Any, skip: int) -> int:
    """Return one more than the number of trailing zeros of the hash, without its lowest `skip` bits.

    >>> 1 <= hash_rank(7, 12) <= 53
    True
    """
    bits = hash64(value) >> skip
    return 65 - skip if bits == 0 else (bits & -bits).bit_length()


def rounded_off(value: Any) -> float:
    """Return what `float(value)` rounds off an integer or a decimal; -0.0 for a float, to which it adds nothing.

    >>> rounded_off(2**62 + 3), rounded_off(2.5)
    (3.0, -0.0)
    """
    if isinstance(value, float | np.floating):
        return -0.0
    if isinstance(value, decimal.Decimal):
        return float(value - decimal.Decimal(float(value)))
    whole = int(value)
    return float(whole - int(float(whole)))


def lowest_bit(bits: Any) -> int:
    """Return the place of the lowest set bit.

    >>> lowest_bit(12)
    2
    """
    low = int(bits) & _MASK
    return (low & -low).bit_length() - 1


def four_below(numbers: Any, at: Any, limit: Any) -> int:
    """Return a bit for each of four numbers from `at` on, set if below `limit`: compiled, one comparison.

    >>> four_below([1, 5, 9, 2, 7, 7], 1, 6)
    5
    """
    return sum(int(numbers[at + i] < limit) << i for i in range(4))


def left_with_four(times: Any, begin: Any, row: Any, back: Any, begins: Any, at: Any) -> int:
    """Return how many of twelve sorted times from `begin` on leave with the arriving `row` and the next three.

    A time leaves with a row that is more than `back` later. For each of the four rows the first one that stays is
    written to `begins`, from `at` on. Compiled, the four are compared at once.

    >>> begins = [0, 0, 0, 0]
    >>> left_with_four([1, 2, 3, 5, 8, 9, 11, 12, 13, 14, 15, 16, 17], 1, 3, 3, begins, 0), begins
    (3, [1, 3, 4, 4])
    """
    left = 0
    for k in range(4):
        left = sum(int(times[begin + i] < times[row + k] - back) for i in range(12))
        begins[at + k] = begin + left
    return left


def prefetch(array: Any, at: Any) -> None:
    """Prefetch the cache line of an element that will be read soon. Changes nothing.

    `at` may be any number: if there is no such element, nothing is fetched.
    """


def count_bits(bits: Any) -> int:
    """Return the number of set bits.

    >>> count_bits(12)
    2
    """
    return (int(bits) & _MASK).bit_count()


def nth_bit(bits: Any, rank: int) -> int:
    """Return the place of the set bit with `rank` set bits below it, which must exist.

    >>> nth_bit(0b10110, 2)
    4
    """
    rest = int(bits) & _MASK
    for _ in range(rank):
        rest &= rest - 1
    return (rest & -rest).bit_length() - 1


def single_bit(place: int) -> int:
    """Return the int64 with only this bit set; for place 63 the least of all.

    >>> single_bit(3)
    8
    """
    return 1 << int(place) if place < 63 else -(1 << 63)


def place(index: int, size: int) -> int:
    """Return the place of an index in a sequence of this size, negative ones from the end; reject others.

    >>> place(-1, 5)
    4
    """
    if index < 0:
        index += size
    if index < 0 or index >= size:
        raise IndexError("the sorted window has no such place")
    return index


def definite(value: Any) -> Any:
    """Return a value that is not None, for the compiler, which cannot know that."""
    return value


# ---------------------------------------------------------------- two threads


def publish(counters: Array, at: int, value: int) -> None:
    """Set a counter that another thread waits for (release): a reader also sees all earlier writes."""
    counters[at] = value


def published(counters: Array, at: int) -> int:
    """Return the current value of a counter that another thread sets (acquire)."""
    return int(counters[at])


def step_aside() -> None:
    """Yield the processor to another thread while this one waits."""
    time.sleep(0)


# ---------------------------------------------------------------- sorted windows, as plain arrays


def one_sorted(value: Any) -> Array:
    """Return the sorted window of one value."""
    if isinstance(value, int | float | np.number):
        return np.array([value])
    single = np.empty(1, object)
    single[0] = value
    return single


def merge_sorted(a: Array, b: Array) -> Array:
    """Return two sorted windows merged. A stable sort finds the two runs and merges them in linear time."""
    return np.sort(np.concatenate((a, b)), kind="stable")


def nth(window: Array, index: int) -> Any:
    """Return the value with `index` values before it."""
    return window[index]


def size(window: Array) -> int:
    """Return the number of values."""
    return len(window)


# ---------------------------------------------------------------- distinct values, as sets


def as_token(value: Any) -> Any:
    """Return a value's representative in a set: NaN is one value, and an unhashable one is its text.

    None stands for NaN, since nulls never get here.

    >>> as_token(2.5), as_token(float("nan")), as_token([1, 2])
    (2.5, None, '[1, 2]')
    """
    if isinstance(value, list | dict | set):
        return repr(value)
    return value if value == value else None
