"""Kernels of a hash table that maps keys to small numbers.

A key has a fingerprint: the key itself if it is one word, else a hash of its bytes, which are then compared too. The
table uses open addressing: a key is in the first free slot at or after its home, with no free slot in between. A row of
`slots` holds a fingerprint and the number plus one, 0 if the slot is free; one more slot at the end is for null.

By number: `used` (0 free, 1 a key, 2 the null key), `fingerprints`, and for keys of bytes `places`, their start and
length in the arena. Numbers in `free` above the greatest in use are void: a number can only come back there once all of
`free` has been given out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.vocabulary import Ints, index, inlined, kernel

WAITING, CAPACITY, LIVE, END = range(4)
"""The tallies: the numbers waiting in `free`, one more than the greatest in use, the numbers in use, and the bytes used
in the arena."""
START, LENGTH = range(2)
"""The columns of `places`."""
BLOCK = 32
"""How many keys of bytes are looked up together: first all their slots are fetched, then their bytes."""


@inlined
def home(fingerprint: Any, shift: Any) -> int:
    """Return the slot at which the search for a key starts."""
    mixed = (fingerprint ^ (fingerprint >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return index(((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)) >> shift)


@inlined
def word_at(data: Any, at: int) -> Any:
    """Return eight bytes as a number; compiles to a single read."""
    word = np.uint64(data[index(at)]) | np.uint64(data[index(at + 1)]) << np.uint64(8)
    word |= np.uint64(data[index(at + 2)]) << np.uint64(16) | np.uint64(data[index(at + 3)]) << np.uint64(24)
    word |= np.uint64(data[index(at + 4)]) << np.uint64(32) | np.uint64(data[index(at + 5)]) << np.uint64(40)
    return word | np.uint64(data[index(at + 6)]) << np.uint64(48) | np.uint64(data[index(at + 7)]) << np.uint64(56)


@inlined
def hash_bytes(data: Any, begin: int, end: int) -> Any:
    """Return a hash of some bytes, read eight at a time; the last eight may overlap the previous ones.

    The layout of Spark's checkpoints depends on it: with another hash, keys would not be found there.
    """
    mixed = np.uint64(end - begin) * np.uint64(0x9E3779B97F4A7C15)
    last = np.uint64(0)
    if end - begin >= 8:
        for at in range(begin, end - 8, 8):
            mixed = (mixed ^ word_at(data, at)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        last = word_at(data, end - 8)
    else:
        for at in range(begin, end):
            last = last << np.uint64(8) | np.uint64(data[index(at)])
    mixed = (mixed ^ last) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inlined
def same_bytes(some: Any, begin: int, others: Any, start: int, length: int) -> bool:
    """Return whether two runs of bytes of one length are equal."""
    if length < 8:
        differences = 0
        for i in range(length):
            differences += some[index(begin + i)] != others[index(start + i)]
        return differences == 0
    for i in range(0, length - 8, 8):
        if word_at(some, begin + i) != word_at(others, start + i):
            return False
    return bool(word_at(some, begin + length - 8) == word_at(others, start + length - 8))


@inlined
def slot_of_word(words: Any, valid: Any, row: int, slots: Any, shift: Any) -> tuple[Any, int]:
    """Return a row's key of one word, and its slot, or else the free one that it would take."""
    null = index(len(slots) - 1)
    word = words[index(row)]
    at = home(word, shift)
    if len(valid) > 0 and not valid[index(row)]:
        word = np.uint64(0)
        at = null
    while slots[at, 1] != np.uint64(0) and slots[at, 0] != word:
        at = (at + index(1)) & (null - index(1))
    return word, at


@inlined
def is_key(data: Any, offsets: Ints, row: int, number: Any, places: Ints, arena: Any) -> bool:
    """Return whether a row's key has this number, which may be -1."""
    if number < 0:
        return False
    start = offsets[index(row)]
    length = offsets[index(row + 1)] - start
    known = index(number)
    return places[known, LENGTH] == length and same_bytes(data, start, arena, places[known, START], length)


@inlined
def slot_of_bytes(
    data: Any, offsets: Ints, valid: Any, row: int, slots: Any, shift: Any, places: Ints, arena: Any
) -> tuple[int, int, Any, int]:
    """Return the start of a row's key of bytes, its length, its fingerprint, and its slot as in `slot_of_word`."""
    null = index(len(slots) - 1)
    start = offsets[index(row)]
    length = offsets[index(row + 1)] - start
    if len(valid) > 0 and not valid[index(row)]:
        return start, 0, np.uint64(0), null
    fingerprint = hash_bytes(data, start, start + length)
    at = home(fingerprint, shift)
    while slots[at, 1] != np.uint64(0):
        held = np.int64(slots[at, 1]) - 1
        if slots[at, 0] == fingerprint and is_key(data, offsets, row, held, places, arena):
            break
        at = (at + index(1)) & (null - index(1))
    return start, length, fingerprint, at


@inlined
def guess_numbers(
    data: Any, offsets: Ints, valid: Any, begin: int, end: int, slots: Any, shift: Any, numbers: Ints
) -> None:
    """Write for some rows the number of a key with the same fingerprint in one of the first two slots, else -1.

    No row waits for another here. With the whole lookup of a key in one loop, a mispredicted branch waits for memory
    once more: 53 ns per row instead of 33, with 100,000 keys of ten bytes.
    """
    null = index(len(slots) - 1)
    for row in range(begin, end):
        start = offsets[index(row)]
        fingerprint = hash_bytes(data, start, offsets[index(row + 1)])
        at = home(fingerprint, shift)
        following = (at + index(1)) & (null - index(1))
        second = slots[following, 1] if slots[following, 0] == fingerprint else np.uint64(0)
        held = slots[at, 1] if slots[at, 0] == fingerprint else second
        if len(valid) > 0 and not valid[index(row)]:
            held = np.uint64(0)
        numbers[index(row)] = np.int64(held) - 1


@inlined
def give(free: Ints, tallies: Ints, room: int) -> int:
    """Return an unused number, or -1 if there is no room."""
    while tallies[WAITING] > 0:
        tallies[WAITING] -= 1
        if free[tallies[WAITING]] < tallies[CAPACITY]:
            tallies[LIVE] += 1
            return int(free[tallies[WAITING]])
    if tallies[CAPACITY] == room:
        return -1
    tallies[CAPACITY] += 1
    tallies[LIVE] += 1
    return int(tallies[CAPACITY]) - 1


@kernel
def number_words(
    words: Any,
    valid: Any,
    begin: int,
    slots: Any,
    shift: Any,
    tallies: Ints,
    used: Any,
    fingerprints: Any,
    free: Ints,
    numbers: Ints,
) -> int:
    """Number keys of one word from a row on; return the row at which room ran out. Expected O(1) per row."""
    null = index(len(slots) - 1)
    for row in range(begin, len(words)):
        word, at = slot_of_word(words, valid, row, slots, shift)
        held = slots[at, 1]
        if held == np.uint64(0):
            number = give(free, tallies, len(used))
            if number < 0:
                return row
            used[number] = 2 if at == null else 1
            fingerprints[number] = word
            held = np.uint64(number + 1)
            slots[at, 0] = word
            slots[at, 1] = held
        numbers[index(row)] = np.int64(held) - 1
    return len(words)


@kernel
def number_bytes(
    data: Any,
    offsets: Ints,
    valid: Any,
    begin: int,
    slots: Any,
    shift: Any,
    tallies: Ints,
    used: Any,
    fingerprints: Any,
    free: Ints,
    places: Ints,
    arena: Any,
    numbers: Ints,
) -> int:
    """Number keys of bytes from a row on; return the row at which room ran out. Expected O(bytes) per row."""
    null = index(len(slots) - 1)
    guessed = begin
    for row in range(begin, len(offsets) - 1):
        if row == guessed:
            guessed = min(row + BLOCK, len(offsets) - 1)
            guess_numbers(data, offsets, valid, row, guessed, slots, shift, numbers)
        if is_key(data, offsets, row, numbers[index(row)], places, arena):
            continue
        start, length, fingerprint, at = slot_of_bytes(data, offsets, valid, row, slots, shift, places, arena)
        held = slots[at, 1]
        if held == np.uint64(0):
            end = tallies[END] + length
            number = give(free, tallies, len(used)) if end <= len(arena) else -1
            if number < 0:
                return row
            for i in range(length):
                arena[index(tallies[END] + i)] = data[index(start + i)]
            places[number, START] = tallies[END]
            places[number, LENGTH] = length
            tallies[END] = end
            used[number] = 2 if at == null else 1
            fingerprints[number] = fingerprint
            held = np.uint64(number + 1)
            slots[at, 0] = fingerprint
            slots[at, 1] = held
        numbers[index(row)] = np.int64(held) - 1
    return len(offsets) - 1


@kernel
def find_words(words: Any, valid: Any, slots: Any, shift: Any, numbers: Ints) -> None:
    """Write the numbers of keys of one word, -1 if unknown. Expected O(1) per row."""
    for row in range(len(words)):
        _, at = slot_of_word(words, valid, row, slots, shift)
        numbers[index(row)] = np.int64(slots[at, 1]) - 1


@kernel
def find_bytes(
    data: Any, offsets: Ints, valid: Any, slots: Any, shift: Any, places: Ints, arena: Any, numbers: Ints
) -> None:
    """Write the numbers of keys of bytes, -1 if unknown. Expected O(bytes) per row."""
    guessed = 0
    for row in range(len(offsets) - 1):
        if row == guessed:
            guessed = min(row + BLOCK, len(offsets) - 1)
            guess_numbers(data, offsets, valid, row, guessed, slots, shift, numbers)
        if not is_key(data, offsets, row, numbers[index(row)], places, arena):
            _, _, _, at = slot_of_bytes(data, offsets, valid, row, slots, shift, places, arena)
            numbers[index(row)] = np.int64(slots[at, 1]) - 1


@kernel
def forget(numbers: Ints, slots: Any, shift: Any, tallies: Ints, used: Any, fingerprints: Any) -> None:
    """Remove keys from the slots; later entries move into the freed slots. Expected O(1) per key."""
    null = index(len(slots) - 1)
    mask = null - index(1)
    for i in range(len(numbers)):
        number = numbers[index(i)]
        at = null if used[number] == 2 else home(fingerprints[number], shift)
        while slots[at, 1] != np.uint64(number + 1):
            at = (at + index(1)) & mask
        used[number] = 0
        tallies[LIVE] -= 1
        slots[at, 1] = np.uint64(0)
        following = at
        while at != null:
            following = (following + index(1)) & mask
            if slots[following, 1] == np.uint64(0):
                break
            # A key may move to the free slot unless that lies before its home.
            if ((following - home(slots[following, 0], shift)) & mask) >= ((following - at) & mask):
                slots[at, 0] = slots[following, 0]
                slots[at, 1] = slots[following, 1]
                slots[following, 1] = np.uint64(0)
                at = following


@kernel
def give_back(numbers: Ints, tallies: Ints, used: Any, free: Ints) -> None:
    """Put the numbers of forgotten keys on the free list, to be reused last first."""
    for i in range(len(numbers)):
        free[tallies[WAITING]] = numbers[i]
        tallies[WAITING] += 1
    while tallies[CAPACITY] > 0 and used[tallies[CAPACITY] - 1] == 0:
        tallies[CAPACITY] -= 1
    if tallies[CAPACITY] == 0:
        tallies[WAITING] = 0


@kernel
def fill_slots(slots: Any, shift: Any, tallies: Ints, used: Any, fingerprints: Any) -> None:
    """Put all keys into empty slots. Expected O(keys)."""
    null = index(len(slots) - 1)
    for number in range(tallies[CAPACITY]):
        if used[number] != 0:
            at = null if used[number] == 2 else home(fingerprints[number], shift)
            while slots[at, 1] != np.uint64(0):
                at = (at + index(1)) & (null - index(1))
            slots[at, 0] = fingerprints[number]
            slots[at, 1] = np.uint64(number + 1)


@kernel
def copy_runs(data: Any, starts: Ints, lengths: Ints, into: Any, at: Ints) -> None:
    """Copy runs of bytes, each to its place. O(bytes)."""
    for row in range(len(starts)):
        for i in range(lengths[index(row)]):
            into[index(at[index(row)] + i)] = data[index(starts[index(row)] + i)]


@kernel
def hash_runs(data: Any, ends: Ints, into: Any) -> None:
    """Write a hash of each of several consecutive runs of bytes; all of its bits are equally good."""
    for row in range(len(into)):
        mixed = hash_bytes(data, ends[row], ends[row + 1])
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        into[row] = mixed ^ (mixed >> np.uint64(33))


WITHIN = (home, word_at, hash_bytes, same_bytes, slot_of_word, is_key, slot_of_bytes, guess_numbers, give)
KEYING = (number_words, number_bytes, forget, give_back, fill_slots, copy_runs, hash_runs)
FINDING = (find_words, find_bytes)
