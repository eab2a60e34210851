"""The compiled meaning of the functions in runtime.py. Importing this module teaches them to numba."""

from __future__ import annotations

import os
from typing import Any

import llvmlite.binding
import llvmlite.ir
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.core.extending import intrinsic, overload
from numba.core.registry import cpu_target

from muntin.kernels import mixing, runtime
from muntin.kernels.numba_imports import import_array_functions

import_array_functions()
_mix = njit(nogil=True)(mixing.mix)
_FOUR = llvmlite.ir.VectorType(llvmlite.ir.IntType(64), 4)


@overload(runtime.hash64)
def _hash64(value: Any) -> Any:
    if isinstance(value, types.Float):

        def of_float(value: Any) -> Any:
            if value == np.floor(value) and abs(value) < 9223372036854775808.0:
                return _mix(np.uint64(np.int64(value)))
            return _mix(np.float64(value if value == value else np.nan).view(np.uint64))

        return of_float

    def of_integer(value: Any) -> Any:
        return _mix(np.uint64(np.int64(value)))

    return of_integer


@overload(runtime.hash_position)
def _hash_position(value: Any, which: Any, size: Any) -> Any:
    def place(value: Any, which: Any, size: Any) -> Any:
        bits = np.uint64(runtime.hash64(value))
        if which != 0:
            bits = _mix(bits + np.uint64(which))
        return np.int64(bits % np.uint64(size))

    return place


@overload(runtime.hash_rank)
def _hash_rank(value: Any, skip: Any) -> Any:
    def rank(value: Any, skip: Any) -> Any:
        bits = np.uint64(runtime.hash64(value)) >> np.uint64(skip)
        zeros = 0
        while zeros < 64 - skip and bits & np.uint64(1) == np.uint64(0):
            bits = bits >> np.uint64(1)
            zeros += 1
        return zeros + 1

    return rank


@overload(runtime.rounded_off)
def _rounded_off(value: Any) -> Any:
    if isinstance(value, types.Float):

        def of_float(value: Any) -> Any:
            return -0.0

        return of_float

    def of_integer(value: Any) -> Any:
        high, low = np.int64(value >> 32), np.int64(value & 0xFFFFFFFF)  # each has an exact float
        return (high * 4294967296.0 - np.float64(value)) + low

    return of_integer


@intrinsic
def _trailing_zeros(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, 0))

    return types.uint64(types.uint64), generate


@overload(runtime.lowest_bit)
def _lowest_bit(bits: Any) -> Any:
    def place(bits: Any) -> Any:
        return np.int64(_trailing_zeros(np.uint64(bits)))

    return place


@intrinsic
def _unwrapped(typing: Any, value: Any) -> Any:
    inner = value.type if isinstance(value, types.Optional) else value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], value, inner)

    return inner(value), generate


@overload(runtime.definite)
def _definite(value: Any) -> Any:
    def unwrapped(value: Any) -> Any:
        return _unwrapped(value)

    return unwrapped


@intrinsic
def _population(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@overload(runtime.count_bits)
def _count_bits(bits: Any) -> Any:
    def population(bits: Any) -> Any:
        return np.int64(_population(np.uint64(bits)))

    return population


def _four_of(builder: Any, number: Any) -> Any:
    """Return a number four times."""
    first = llvmlite.ir.Constant(_FOUR, llvmlite.ir.Undefined)
    places = llvmlite.ir.Constant(llvmlite.ir.VectorType(llvmlite.ir.IntType(32), 4), [0] * 4)
    return builder.shuffle_vector(builder.insert_element(first, number, llvmlite.ir.IntType(32)(0)), first, places)


@intrinsic
def _four_below(typing: Any, numbers: Any, at: Any, limit: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        begin = builder.bitcast(_counter(context, builder, signature, arguments), _FOUR.as_pointer())
        held = builder.load(begin)
        held.align = 8  # of one number: nodes need not begin where a vector may
        limits = _four_of(builder, arguments[2])
        bits = builder.bitcast(builder.icmp_signed("<", held, limits), llvmlite.ir.IntType(4))
        return builder.zext(bits, llvmlite.ir.IntType(64))

    return types.int64(numbers, types.intp, types.int64), generate


@overload(runtime.four_below)
def _below(numbers: Any, at: Any, limit: Any) -> Any:
    def compared(numbers: Any, at: Any, limit: Any) -> Any:
        return _four_below(numbers, at, limit)

    return compared


@intrinsic
def _left_with_four(typing: Any, times: Any, begin: Any, row: Any, back: Any, begins: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def place(array: int, number: int) -> Any:
            kind = signature.args[array]
            held = context.make_array(kind)(context, builder, arguments[array])
            return cgutils.get_item_pointer(context, builder, kind, held, [arguments[number]], wraparound=False)

        coming = builder.load(builder.bitcast(place(0, 2), _FOUR.as_pointer()))
        coming.align = 8  # of one number: rows need not begin where a vector may
        limits = builder.sub(coming, _four_of(builder, arguments[3]))
        oldest = place(0, 1)
        left = 2 * [llvmlite.ir.Constant(_FOUR, [0] * 4)]  # two sums, which need not wait for each other
        for i in range(12):
            old = _four_of(builder, builder.load(builder.gep(oldest, [llvmlite.ir.IntType(64)(i)])))
            below = builder.sext(builder.icmp_signed("<", old, limits), _FOUR)  # -1 where it is
            left[i % 2] = builder.sub(left[i % 2], below)
        counts = builder.add(*left)
        first = builder.add(counts, _four_of(builder, arguments[1]))
        builder.store(first, builder.bitcast(place(4, 5), _FOUR.as_pointer())).align = 8
        return builder.extract_element(counts, llvmlite.ir.IntType(32)(3))

    return types.int64(times, types.intp, types.intp, types.int64, begins, types.intp), generate


@overload(runtime.left_with_four)
def _left(times: Any, begin: Any, row: Any, back: Any, begins: Any, at: Any) -> Any:
    def compared(times: Any, begin: Any, row: Any, back: Any, begins: Any, at: Any) -> Any:
        return _left_with_four(times, begin, row, back, begins, at)

    return compared


@intrinsic
def _fetch(typing: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, text = llvmlite.ir.IntType(32), llvmlite.ir.IntType(8).as_pointer()
        kind = llvmlite.ir.FunctionType(llvmlite.ir.VoidType(), [text, number, number, number])
        line = builder.bitcast(_counter(context, builder, signature, arguments), text)
        ahead = [line, number(0), number(3), number(1)]  # to be read, and more than once; of data
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8"), ahead)
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(runtime.prefetch)
def _prefetch(array: Any, at: Any) -> Any:
    def fetched(array: Any, at: Any) -> Any:
        _fetch(array, at)

    return fetched


@intrinsic
def _deposit(typing: Any, bits: Any, places: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = llvmlite.ir.IntType(64)
        kind = llvmlite.ir.FunctionType(word, [word, word])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.bmi.pdep.64"), arguments)

    return types.uint64(types.uint64, types.uint64), generate


def _deposits_fast() -> bool:
    """Say whether the processor that code is made for lays bits out in one instruction, and in a few cycles."""
    features = str(getattr(cpu_target.target_context.codegen(), "_tm_features", ""))
    return "+bmi2" in features and llvmlite.binding.get_host_cpu_name() not in ("znver1", "znver2")


@overload(runtime.nth_bit)
def _nth_bit(bits: Any, rank: Any) -> Any:
    return laid_out if _deposits_fast() else halved


def laid_out(bits: Any, rank: Any) -> Any:
    """Return the place of a bit by its rank: a single bit laid out where the bits are. Compiled only."""
    return np.int64(_trailing_zeros(_deposit(np.uint64(1) << np.uint64(rank), np.uint64(bits))))


def halved(bits: Any, rank: Any) -> Any:
    """Return the place of a bit by its rank: in the lower half or the upper, six times. Compiled only."""
    rest, place, half = np.uint64(bits), 0, 32
    while half > 0:  # no branch depends on the bits
        below = np.int64(_population(rest & ((np.uint64(1) << np.uint64(half)) - np.uint64(1))))
        skipped = half if rank >= below else 0
        rank -= below if skipped > 0 else 0
        rest = rest >> np.uint64(skipped)
        place += skipped
        half >>= 1
    return place


@overload(runtime.single_bit)
def _single_bit(place: Any) -> Any:
    def shifted(place: Any) -> Any:
        return 1 << place

    return shifted


def _counter(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, signature.args[0], array, [arguments[1]], wraparound=False)


@intrinsic
def _store_release(typing: Any, counters: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[2], _counter(context, builder, signature, arguments), "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.intp, types.int64), generate


@intrinsic
def _load_acquire(typing: Any, counters: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_counter(context, builder, signature, arguments), "acquire", 8)

    return types.int64(counters, types.intp), generate


@intrinsic
def _yield_processor(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = llvmlite.ir.FunctionType(llvmlite.ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@overload(runtime.step_aside)
def _step_aside() -> Any:
    if os.name != "posix":
        return lambda: None  # spinning is all there is

    def aside() -> Any:
        _yield_processor()

    return aside


@overload(runtime.publish)
def _publish(counters: Any, at: Any, value: Any) -> Any:
    def release(counters: Any, at: Any, value: Any) -> Any:
        _store_release(counters, at, value)

    return release


@overload(runtime.published)
def _published(counters: Any, at: Any) -> Any:
    def acquire(counters: Any, at: Any) -> Any:
        return _load_acquire(counters, at)

    return acquire


@overload(runtime.place)
def _place(index: Any, size: Any) -> Any:
    def checked(index: Any, size: Any) -> Any:
        at = np.int64(index) + (size if index < 0 else 0)
        if np.uint64(at) >= np.uint64(size):  # negative ones are huge
            raise IndexError("the sorted window has no such place")
        return at

    return checked
