"""The kernels of the arena (see arena.py): logging rows, taking them out, sorting, encoding, and merging runs.

They are independent of aggregations and types: keys are integers.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, index, kernel

TAIL, LIVE, LOGGED = range(3)
"""The counters: the first free entry of the arena, the entries occupied by runs, and the rows in the log."""

# ---------------------------------------------------------------- the log


@kernel
def log_rows(slots: Ints, keys: Ints, log_slots: Ints, log_keys: Ints, pending: Ints, counters: Ints) -> None:
    """Append rows to the log."""
    at = counters[LOGGED]
    for row in range(len(slots)):
        log_slots[index(at + row)] = slots[index(row)]
        log_keys[index(at + row)] = keys[index(row)]
        pending[index(slots[index(row)])] += 1
    counters[LOGGED] = at + len(slots)


@kernel
def choose_waiting(slots: Ints, pending: Ints, places: Ints, chosen: Ints) -> int:
    """Write each of these slots that has waiting rows, once; return their number."""
    count = 0
    for i in range(len(slots)):
        slot = slots[index(i)]
        if pending[index(slot)] > 0 and places[index(slot)] == -1:
            places[index(slot)] = -2
            chosen[index(count)] = slot
            count += 1
    return count


@kernel
def take_rows(
    chosen: Ints, log_slots: Ints, log_keys: Ints, pending: Ints, places: Ints, bounds: Ints, rows: Ints, counters: Ints
) -> None:
    """Move the rows of the chosen slots out of the log, grouped by slot: slot i's are [bounds[i], ...)."""
    for i in range(len(chosen)):
        places[chosen[i]] = bounds[i]
        pending[chosen[i]] = 0
    kept = 0
    for at in range(counters[LOGGED]):
        slot = log_slots[index(at)]
        place = places[index(slot)]
        if place >= 0:
            rows[index(place)] = log_keys[index(at)]
            places[index(slot)] = place + 1
        else:
            log_slots[index(kept)] = slot
            log_keys[index(kept)] = log_keys[index(at)]
            kept += 1
    counters[LOGGED] = kept
    for i in range(len(chosen)):
        places[chosen[i]] = -1


# ---------------------------------------------------------------- sorting


@kernel
def sort_few(keys: Ints, begin: int, end: int) -> None:
    """Sort a few keys in place, by insertion."""
    for i in range(begin + 1, end):
        key = keys[index(i)]
        j = i
        while j > begin and keys[index(j - 1)] > key:
            keys[index(j)] = keys[index(j - 1)]
            j -= 1
        keys[index(j)] = key


@kernel
def sort_many(keys: Ints, spare: Ints, begin: int, end: int, counts: Ints) -> None:
    """Sort keys by radix, lowest digit first, skipping the bits in which all agree.

    A digit of eight bits costs less for few rows, one of eleven for many. The highest digit is shifted with its sign,
    so it is negative for negative keys: half of the counts lie before zero.
    """
    varying = 0
    for i in range(begin, end):
        varying |= keys[index(i)] ^ keys[index(begin)]
    width = 8 if end - begin < 4096 else 11
    half = 1 << (width - 1)
    shift = 0
    flipped = False
    while shift < 64:
        if (varying >> shift) & 1 == 0:
            shift += 1
            continue
        if shift + width > 64:
            shift = 64 - width
        sign = half if shift + width == 64 else 0
        mask = 2 * half - 1
        counts[: 2 * half] = 0
        source = spare if flipped else keys
        target = keys if flipped else spare
        for i in range(begin, end):
            counts[index(((source[index(i)] >> shift) & mask) ^ sign)] += 1
        place = begin
        for digit in range(2 * half):
            count = counts[index(digit)]
            counts[index(digit)] = place
            place += count
        for i in range(begin, end):
            key = source[index(i)]
            digit = index(((key >> shift) & mask) ^ sign)
            target[index(counts[digit])] = key
            counts[digit] += 1
        flipped = not flipped
        shift += width
    if flipped:
        keys[begin:end] = spare[begin:end]


@kernel
def sort_rows(bounds: Ints, rows: Ints, spare: Ints, counts: Ints, distinct: Ints) -> None:
    """Sort and encode the rows [bounds[i], bounds[i + 1]) of each slot: its keys in `rows`, their ends in `spare`."""
    for i in range(len(distinct)):
        begin = bounds[i]
        end = bounds[i + 1]
        if end - begin <= 48:
            sort_few(rows, begin, end)
        else:
            sort_many(rows, spare, begin, end, counts)
        at = begin
        for row in range(begin, end):
            key = rows[index(row)]
            at += 1 if key != rows[index(at)] else 0
            rows[index(at)] = key
            spare[index(at)] = row + 1 - begin
        distinct[i] = at + 1 - begin


# ---------------------------------------------------------------- runs


@kernel
def join(
    a: Ints,
    a_ends: Ints,
    i: int,
    i_stop: int,
    b: Ints,
    b_ends: Ints,
    j: int,
    j_stop: int,
    slot: int,
    keys: Ints,
    ends: Ints,
    at: int,
) -> int:
    """Merge two runs into the run of a slot, from entry `at` on; return the entry after the last one."""
    keys[index(at)] = slot
    ends[index(at)] = 0
    at += 1
    a_rows = 0
    b_rows = 0
    while i < i_stop and j < j_stop:
        x = a[index(i)]
        y = b[index(j)]
        a_rows = a_ends[index(i)] if x <= y else a_rows
        b_rows = b_ends[index(j)] if y <= x else b_rows
        i += 1 if x <= y else 0
        j += 1 if y <= x else 0
        keys[index(at)] = min(x, y)
        ends[index(at)] = a_rows + b_rows
        at += 1
    while i < i_stop:
        keys[index(at)] = a[index(i)]
        ends[index(at)] = a_ends[index(i)] + b_rows
        at += 1
        i += 1
    while j < j_stop:
        keys[index(at)] = b[index(j)]
        ends[index(at)] = b_ends[index(j)] + a_rows
        at += 1
        j += 1
    return at


@kernel
def absorb(
    chosen: Ints,
    bounds: Ints,
    rows: Ints,
    spare: Ints,
    distinct: Ints,
    keys: Ints,
    ends: Ints,
    starts: Ints,
    lengths: Ints,
    counters: Ints,
) -> None:
    """Merge new runs, as left by `sort_rows`, into those of the slots."""
    for i in range(len(chosen)):
        slot = chosen[i]
        begin = bounds[i]
        start = starts[slot]
        length = lengths[slot]
        tail = counters[TAIL]
        stop = start + length
        after = join(rows, spare, begin, begin + distinct[i], keys, ends, start, stop, slot, keys, ends, tail)
        starts[slot] = tail + 1
        lengths[slot] = after - tail - 1
        counters[LIVE] += after - tail - (length + 1 if length > 0 else 0)
        counters[TAIL] = after


@kernel
def join_slots(
    into: Ints, out_of: Ints, done: int, keys: Ints, ends: Ints, starts: Ints, lengths: Ints, counters: Ints
) -> int:
    """Merge runs pair by pair from pair `done` on; return the first pair for which there is no room."""
    for pair in range(done, len(into)):
        a = into[pair]
        b = out_of[pair]
        if a == b or lengths[b] == 0:
            continue
        i_stop = starts[a] + lengths[a]
        j_stop = starts[b] + lengths[b]
        if lengths[a] == 0:
            starts[a] = starts[b]
            lengths[a] = lengths[b]
            keys[starts[b] - 1] = a
        else:
            tail = counters[TAIL]
            if tail + lengths[a] + lengths[b] + 1 > len(keys):
                return pair
            after = join(keys, ends, starts[a], i_stop, keys, ends, starts[b], j_stop, a, keys, ends, tail)
            counters[LIVE] += after - tail - lengths[a] - lengths[b] - 2
            counters[TAIL] = after
            starts[a] = tail + 1
            lengths[a] = after - tail - 1
        lengths[b] = 0
    return len(into)


@kernel
def forget(slots: Ints, lengths: Ints, log_slots: Ints, log_keys: Ints, pending: Ints, counters: Ints) -> None:
    """Empty some slots, and drop their rows from the log."""
    waiting = 0
    for i in range(len(slots)):
        slot = slots[i]
        counters[LIVE] -= lengths[slot] + 1 if lengths[slot] > 0 else 0
        lengths[slot] = 0
        waiting += pending[slot]
        pending[slot] = 0
    if waiting == 0:
        return
    kept = 0
    for at in range(counters[LOGGED]):
        slot = log_slots[index(at)]
        log_slots[index(kept)] = slot
        log_keys[index(kept)] = log_keys[index(at)]
        kept += 1 if pending[index(slot)] > 0 else 0
    counters[LOGGED] = kept


@kernel
def rewrite_runs(
    keys: Ints, ends: Ints, starts: Ints, lengths: Ints, new_keys: Ints, new_ends: Ints, counters: Ints
) -> None:
    """Write the runs of slots contiguously: into other arrays, or compacted in place."""
    at = 0
    kept = False
    for entry in range(counters[TAIL]):
        key = keys[index(entry)]
        end = ends[index(entry)]
        if end == 0:
            kept = lengths[index(key)] > 0 and starts[index(key)] == entry + 1
            if kept:
                starts[index(key)] = at + 1
        if kept:
            new_keys[index(at)] = key
            new_ends[index(at)] = end
            at += 1
    counters[TAIL] = at


ARENA = (
    choose_waiting,
    log_rows,
    take_rows,
    sort_few,
    sort_many,
    sort_rows,
    join,
    absorb,
    join_slots,
    forget,
    rewrite_runs,
)
