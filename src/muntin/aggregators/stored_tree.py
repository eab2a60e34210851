"""A MonoidTree whose body is in a key-value store. In memory stay the two ends of every level, and O(log n) more.

    a level     | head: up to 16 chunks |  the store: chunks of 512 pairs  | tail: up to 4 chunks |
                  rows leave here                                            rows enter here

Inserts only touch tails, and evictions only heads, so that kernels run for thousands of rows without Python; then full
chunks of the tails are given to the courier, which writes them in the background, and heads that are half empty are
filled from what was read ahead. A search that comes to a node in between stops, its chunk is read, and it starts again:
at most a few chunks for each level.

What is durable is what the last *manifest* says: the ends of all levels, the results and the stack, which chunks the
body consists of, and what may be deleted. Two of them take turns, each with a checksum, and one is written only when
all chunks that it speaks of are. Chunks that it speaks of are deleted only when the next one is written. Whoever opens
a window writes a manifest with a new *generation* before anything else; chunks carry the generation in their keys, so
that those of a process that died, or lost its lease, are never taken for others.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.chunks import ChunkFormat, Name
from muntin.aggregators.courier import Courier
from muntin.aggregators.levels import SEARCH, leaving, longest_cut
from muntin.aggregators.monoid_tree import ALGORITHM, DEPTH, TOP, MonoidTree, has_node, pop, push, total
from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.aggregators.states import States, converted
from muntin.errors import (
    ColumnTypeError,
    InvalidArgumentError,
    LeaseError,
    SnapshotError,
    StoreError,
    UnsupportedOperationError,
)
from muntin.kernels.vocabulary import Columns, Ints, combine, kernel, lift, load, must_leave, thorough
from muntin.policies import Policy
from muntin.snapshots import Snapshot
from muntin.stores.base import Store, numbered
from muntin.types import NULL, Array, ColumnType, column_type

ENTER_LIMIT, LEAVE_LIMIT, TARGET, MISS_LEVEL, MISS_NODE, BITS, PENDING = range(6, 13)
"""Marks: how far rows may enter and leave without Python, where the front is going, what was missing, the size of a
chunk, and whether the policy is still to be enforced."""
LEVELS = 48
TAILS, HEADS, HEAD_ENDS, PROBES = 16, 16 + LEVELS, 16 + 2 * LEVELS, 16 + 3 * LEVELS
"""Tables in the marks, an entry for each level: the first node of the tail, the first and the end of the head, and the
first nodes of the four chunks that searches have read."""
TAIL, HEAD, FOUND = 4, 16, 4
"""Chunks in a tail, in a head, and read by searches. Kernels have them as literals."""
ALL = TAIL + HEAD + FOUND
MARGIN = 8
"""Nodes that stay in a tail for the sake of the next inserts."""
DELETED_AT_ONCE = 8
"""Chunks of a level that have left the window before they are deleted."""
FAR = np.iinfo("i8").max


@kernel
def spot(size: int, marks: Ints, level: int, j: int) -> Any:
    """Return the cell of a node that is in memory: in the tail, in the head, or read by a search."""
    bits = marks[11]
    base = (24 * level) << bits
    if j >= marks[16 + level]:
        return base + (j & ((4 << bits) - 1))
    base += 4 << bits
    if marks[64 + level] <= j < marks[112 + level]:
        return base + (j & ((16 << bits) - 1))
    base += 16 << bits
    for k in range(4):
        first = marks[160 + 4 * level + k]
        if first <= j < first + (1 << bits):
            return base + (k << bits) + j - first
    return base


@kernel
def last_spot(size: int, marks: Ints, level: int, j: int) -> Any:
    """Return the cell of a node in the tail, where the last ones are."""
    bits = marks[11]
    return ((24 * level) << bits) + (j & ((4 << bits) - 1))


@kernel
def put_time(times: Ints, marks: Ints, position: int, time: int) -> None:
    """Store the time of a row."""
    times[last_spot(0, marks, 0, position)] = time


@kernel
def ready(window: Any, level: int, j: int) -> bool:
    """Say whether a node is in memory; note it if not."""
    marks = window[2]
    if j >= marks[16 + level] or marks[64 + level] <= j < marks[112 + level]:
        return True
    for k in range(4):
        first = marks[160 + 4 * level + k]
        if first <= j < first + (1 << marks[11]):
            return True
    marks[9] = level
    marks[10] = j
    return False


@kernel
def range_ready(window: Any, begin: int, end: int) -> bool:
    """Say whether all nodes that `fold_rows` will ask for are in memory; note the first that is not."""
    if not ready(window, 0, begin):
        return False
    at = begin + 1
    level = 0
    while at < end:
        wide = 2 << level
        if at & (wide - 1) == 0 and at + wide <= end and has_node(window, level + 1, at >> (level + 1)):
            level += 1
        elif at + (1 << level) <= end and has_node(window, level, at >> level):
            if not ready(window, level, at >> level):
                return False
            at += 1 << level
        else:
            level -= 1
    return True


@kernel
def advance(window: Any) -> bool:
    """Move the front towards its target, by the stack; False if Python must help first."""
    marks = window[2]
    if marks[8] - marks[0] > marks[3] + 1:
        return False
    while marks[0] < marks[8]:
        if marks[0] + 2 >= marks[7]:  # the policy will ask about one row more
            return False
        pop(window)
    return True


@kernel
def set_target(window: Any) -> Any:
    """Ask the policy where the front must go; False if a node is missing."""
    cells, marks = window[0], window[2]
    front = marks[0]
    if thorough():
        marks[8] = longest_cut(window)
        return marks[8] >= 0
    marks[8] = front
    whole = total(window)
    old = load(cells, spot(len(cells), marks, 0, front))
    if not must_leave(whole, old):
        if must_leave(whole, whole):
            marks[2] = 1
        return True
    if front + 1 < marks[1]:
        if not ready(window, 0, front + 1):
            return False
        if must_leave(whole, combine(old, load(cells, spot(len(cells), marks, 0, front + 1)))):
            marks[8] = leaving(window)
            return marks[8] >= 0
    marks[8] = front + 1
    return True


@kernel
def enforce_some(window: Any) -> bool:
    """Enforce the policy; False if Python must help first. It may then be called again."""
    marks = window[2]
    while marks[0] < marks[1]:
        if marks[8] <= marks[0]:
            if not set_target(window):
                return False
            if marks[8] == marks[0]:
                return True
        if not advance(window):
            return False
        if not thorough():
            return True
    return True


@kernel
def insert_some(window: Any, columns: Columns, times: Ints, start: int, stop: int) -> int:
    """Insert rows until a tail is full; return the next row."""
    marks = window[2]
    row = start
    while row < stop and marks[1] < marks[6]:
        push(window, times[row], lift(columns, times, row))
        row += 1
    return row


@kernel
def insert_some_enforced(window: Any, columns: Columns, times: Ints, start: int, stop: int) -> int:
    """Insert rows, and enforce the policy after each, until Python must help; return the next row."""
    cells, marks = window[0], window[2]
    row = start
    while row < stop and marks[1] < marks[6]:
        push(window, times[row], lift(columns, times, row))
        row += 1
        front = marks[0]
        if not thorough() and front + 2 < marks[7] and front + 1 < marks[1]:
            # Nearly always one row leaves, or none, and all that is needed is here.
            whole = total(window)
            old = load(cells, spot(0, marks, 0, front))
            if not must_leave(whole, old):
                if must_leave(whole, whole):
                    marks[2] = 1
                continue
            if not must_leave(whole, combine(old, load(cells, spot(0, marks, 0, front + 1)))):
                pop(window)
                continue
        if not enforce_some(window):
            marks[12] = 1
            return row
    return row


class StoredMonoidTree(MonoidTree):
    """What `MonoidTree(store=...)` makes. Use it as a context manager, or close it: that flushes."""

    title: ClassVar[str] = "MonoidTree"
    structure: ClassVar[tuple[Any, ...]] = (
        spot,
        last_spot,
        put_time,
        ready,
        *SEARCH,
        *ALGORITHM,
        range_ready,
        advance,
        set_target,
        enforce_some,
        insert_some,
        insert_some_enforced,
    )
    entries: ClassVar[tuple[str, ...]] = (
        "answer_range",
        "move_front",
        "range_ready",
        "advance",
        "enforce_some",
        "insert_some",
        "insert_some_enforced",
    )
    mark_count: ClassVar[int] = PROBES + FOUND * LEVELS

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        store: Store,
        window_id: str | None = None,
        policy: Policy | None = None,
        chunk_pairs: int = 512,
        patience: float = 30.0,
        allow_pickle: bool = False,
        _found: Snapshot | None = None,
        _courier: Courier | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(store, Store):
            raise InvalidArgumentError(f"a store is needed, such as stores.Lmdb('folder'); got {store!r}")
        if chunk_pairs < 4 or chunk_pairs & (chunk_pairs - 1):
            raise InvalidArgumentError(f"chunk_pairs is a power of two, 4 or more; got {chunk_pairs!r}")
        self._bits = chunk_pairs.bit_length()  # two nodes a pair
        self._size = 1 << self._bits
        self._allow_pickle = allow_pickle
        self._ahead: dict[Name, Future[dict[Name, tuple[Array, Array]]]] = {}
        """Chunks that are being read; one future for all that were asked for at once."""
        self._full: dict[bytes, Callable[[], bytes]] = {}
        """Chunks to be given to the courier."""
        self._wanted: list[Name] = []
        """Chunks to be read ahead."""
        self._victims = [0] * LEVELS
        self._kept = [0] * LEVELS
        """For each level, the first chunk that has not been deleted."""
        self._spoken_of = [0] * LEVELS
        """For each level, the chunk after the last one that the manifest speaks of."""
        self._deferred: list[list[int]] = []
        """Ranges of chunks to delete after the next manifest: generation, level, start, stop."""
        self._runs: list[tuple[int, list[int]]] = []
        """Each generation, in order, and for each level the first chunk that it wrote; 0 for levels left out."""
        self._sequence = self._generation = 0
        super().__init__(aggregation, policy=policy, **options)
        self.window_id = window_id or secrets.token_hex(8)
        self._prefix = b"muntin:{" + self.window_id.encode() + b"}:"
        self._courier = _courier or Courier(store, store.lease(self.window_id.encode()), patience)
        self._finalizer = weakref.finalize(self, self._courier.close)
        try:
            self._begin(_found)
        except BaseException:
            self._finalizer()
            raise

    # ------------------------------------------------------------ opening, flushing, closing

    @classmethod
    def reopen(
        cls, store: Store, window_id: str, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any
    ) -> StoredMonoidTree:
        """Return the window as its last flush left it. See `MonoidTree.open`."""
        courier = Courier(store, store.lease(window_id.encode()), options.pop("patience", 30.0))
        try:
            trusted = options.get("allow_pickle", False)
            found = _newest_manifest(courier, b"muntin:{" + window_id.encode() + b"}:", allow_pickle=trusted)
            if found is None:
                raise StoreError(f"the store has no window {window_id!r}")
            saved = {"nullable": found.header["nullable"], "chunk_pairs": found.header["chunk_pairs"]}
            return cls(
                aggregation, store=store, window_id=window_id, _found=found, _courier=courier, **{**saved, **options}
            )
        except BaseException:
            courier.close()
            raise

    def _begin(self, found: Snapshot | None) -> None:
        """Announce a new generation, before any of its chunks is written."""
        if found is None:
            if _newest_manifest(self._courier, self._prefix, allow_pickle=self._allow_pickle) is not None:
                raise StoreError(f"the store has a window {self.window_id!r}; open it with MonoidTree.open")
        else:
            self._take_over(found)
        self._generation += 1
        self._runs.append((self._generation, _trimmed(self._marks[TAILS:HEADS] >> self._bits)))
        self._courier.insist(lambda: self._courier.store.put_many({self._owner_key: b"%d" % self._generation}))
        self._write_manifest()
        if found is not None:
            self._delete_orphans()
            self._provide()

    def _take_over(self, found: Snapshot) -> None:
        if found.fingerprint != self._binding.fingerprint:
            raise StoreError(f"the window {self.window_id!r} was made with another aggregation or policy")
        *columns, (_, time) = found.schema
        self._types = {name: NULL if kind == pa.null() else column_type(kind) for name, kind in columns}
        self._time_type = None if time is None else column_type(time)
        self._rebind()
        self._allocate()
        facts = found.header
        self._sequence, self._generation = facts["sequence"], facts["generation"]
        self._kept, self._deferred = facts["kept"], facts["deferred"]
        self._runs = [(generation, starts) for generation, starts in facts["runs"]]
        while len(self._runs) > 1 and all(a <= b for a, b in zip(self._runs[1][1], self._kept, strict=False)):
            del self._runs[0]  # all that it wrote is gone
        states = States(self._binding)
        self._marks[:] = found.arrays["marks"]
        self._marks[PROBES:] = -self._size
        self._marks[HEADS:PROBES] = 0
        self._window[3][:] = states.revived(found.arrays["small"])
        for level in range(LEVELS):
            at = self._tail_cells(level)
            self._window[0][at] = states.revived(found.arrays[f"level{level}"])
        self._window[1][self._tail_cells(0)] = found.arrays["times"]
        self._marks[LEAVE_LIMIT] = 0

    def _delete_orphans(self) -> None:
        """Delete what the last holder wrote after its last manifest."""
        generation = self._generation - 1
        for level in range(LEVELS):
            start = int(self._marks[TAILS + level]) >> self._bits
            self._courier.later(partial(self._sweep, generation, level, start))

    def _sweep(self, generation: int, level: int, start: int) -> None:
        while self._courier.store.delete_range(self._series(generation, level), start, start + 64):
            start += 64

    def flush(self) -> None:
        """Make everything up to now durable: after a crash, `MonoidTree.open` gives the window as it is now.

        Waits until all chunks are written, then writes the manifest: O(chunk * log n) bytes.
        """
        self._finish_enforcing()
        self._courier.finish()
        self._write_manifest()

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless told not to; stop the background work and give up the lease. Does nothing the second time."""
        if self._finalizer.alive:
            if flush:
                self.flush()
                self._courier.finish()  # what may be deleted now
            self._finalizer()

    def __enter__(self) -> Self:
        """Return the window."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the window; after an error without a flush."""
        self.close(flush=kind is None)

    @property
    def _owner_key(self) -> bytes:
        return self._prefix + b"owner"

    def _write_manifest(self) -> None:
        courier = self._courier
        owner = courier.insist(lambda: courier.store.get_many([self._owner_key])[0])
        if owner != b"%d" % self._generation:
            raise LeaseError(f"another process has opened the window {self.window_id!r}")
        data = self._manifest().encode()
        key = self._prefix + b"manifest%d" % ((self._sequence + 1) % 2)

        def write() -> None:
            courier.store.flush()
            courier.store.put_many({key: data})
            courier.store.flush()

        courier.insist(write)
        self._sequence += 1
        self._spoken_of = [int(tail) >> self._bits for tail in self._marks[TAILS:HEADS]]
        deferred, self._deferred = self._deferred, []
        for generation, level, start, stop in deferred:
            self._delete_later(generation, level, start, stop)

    def _manifest(self) -> Snapshot:
        facts = {
            "structure": self._name(),
            "window": self.window_id,
            "sequence": self._sequence + 1,
            "generation": self._generation,
            "runs": self._runs,
            "kept": self._kept,
            "deferred": self._deferred,
            "nullable": self._nullable,
            "chunk_pairs": self._size // 2,
        }
        schema = [(name, kind.logical) for name, kind in self._types.items()]
        schema.append(("time", None if self._time_type is None else self._time_type.logical))
        cells, times, marks, small = self._window
        arrays = {"marks": marks, "small": small, "times": times[self._tail_cells(0)]}
        arrays |= {f"level{level}": cells[self._tail_cells(level)] for level in range(LEVELS)}
        return Snapshot(facts, schema, self._binding.fingerprint, arrays)

    def snapshot(self) -> bytes:
        """Refuse: what `flush` writes to the store is the snapshot of this window."""
        raise UnsupportedOperationError(
            "the body of this window is in a store: flush() saves it, MonoidTree.open reads it"
        )

    # ------------------------------------------------------------ types

    def _rebind(self) -> None:
        super()._rebind()
        self._format = ChunkFormat(self._binding, allow_pickle=self._allow_pickle)

    def _allocate(self) -> None:
        marks = np.zeros(self.mark_count, "i8")
        marks[DEPTH], marks[BITS], marks[ENTER_LIMIT], marks[MISS_LEVEL] = 2, self._bits, TAIL * self._size, -1
        marks[PROBES:] = -self._size
        per_level = ALL * self._size
        cells = self._binding.slots(LEVELS * per_level)
        self._window = (cells, np.zeros(per_level, "i8"), marks, self._binding.slots(2 + 64))

    def _admitted(self, values: list[tuple[str, ColumnType, Any]]) -> dict[str, ColumnType]:
        types = super()._admitted(values)
        if types != self._types and len(self) and self._marks[TAILS]:
            name = next(name for name in types if types[name] != self._types[name])
            raise ColumnTypeError(
                f"column {name!r} holds {self._types[name]}, would have to become {types[name]}, and has rows in the "
                "store; settle the type with dtype= when building"
            )
        return types

    def _settle(self, time_type: ColumnType, types: dict[str, ColumnType]) -> None:
        if self._time_type == time_type and self._types == types:
            return
        if self._policy is not None:
            self._policy.rule(time_type)  # refuses a duration that these times cannot be compared with
        self._time_type, self._types = time_type, types
        old, window = self._binding, self._window
        self._rebind()
        self._allocate()
        cells, times, marks, small = self._window
        marks[:], times[:] = window[2], window[1]
        if len(self):
            for level in range(LEVELS):
                at = self._tail_cells(level)
                cells[at] = converted(old, self._binding, window[0][at])
            small[:] = converted(old, self._binding, window[3])

    # ------------------------------------------------------------ inserting and evicting

    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        row = 0
        self._finish_enforcing()
        try:
            while row < count:
                if self._marks[END] >= self._marks[ENTER_LIMIT]:
                    self._provide()
                row = self._insert_until_stopped(columns, times, row, count)
                self._finish_enforcing()
        except StoreError as error:
            if row:
                error.add_note(f"the first {row} of these {count} rows are in the window; insert only the others again")
            raise
        self._warn_of_doubt()

    def _insert_until_stopped(self, columns: tuple[Array, ...], times: Array, row: int, count: int) -> int:
        insert = self._module.insert_some if self._policy is None else self._module.insert_some_enforced
        marks, small = self._marks.copy(), self._window[3].copy()
        try:
            return int(insert(self._window, columns, times, row, count))
        except BaseException:
            self._marks[:], self._window[3][:] = marks, small
            raise

    def _finish_enforcing(self) -> None:
        """Do what the policy had begun when Python had to help, perhaps in an earlier call that failed."""
        marks = self._marks
        while marks[PENDING]:
            leaps = marks[MISS_LEVEL] < 0 and marks[TARGET] - marks[FRONT] > marks[TOP] + 1
            self._help()
            once = self._policy is not None and not self._policy.thorough
            if (leaps and once) or self._module.enforce_some(self._window):
                marks[PENDING] = 0

    def evict(self) -> None:
        """Remove the oldest row; `IndexError` if there is none. Amortised O(1) combines."""
        if not len(self):
            raise IndexError("evict from an empty window")
        self._evict_many(1)

    def _evict_many(self, count: int) -> None:
        self._finish_enforcing()
        marks, before = self._marks, int(self._marks[FRONT])
        marks[TARGET] = before + count
        try:
            while not self._module.advance(self._window):
                self._help()
        except StoreError as error:
            marks[TARGET] = marks[FRONT]
            if marks[FRONT] > before:
                error.add_note(f"the first {marks[FRONT] - before} of these {count} rows have left the window")
            raise

    def _help(self) -> None:
        """Bring into memory what a kernel stopped for."""
        marks = self._marks
        if marks[MISS_LEVEL] >= 0:
            self._load_for_search(int(marks[MISS_LEVEL]), int(marks[MISS_NODE]))
            marks[MISS_LEVEL] = -1
        elif marks[TARGET] - marks[FRONT] > marks[TOP] + 1:
            self._leap(int(marks[TARGET]))
        elif marks[FRONT] < marks[TARGET]:
            self._provide()

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        while not self._module.range_ready(self._window, begin, end):
            self._help()
        self._module.answer_range(self._window, begin, end, outputs)

    def _time_at(self, position: int) -> int:
        while not self._in_memory(0, position):
            self._load_for_search(0, position)
        return int(self._window[1][_cell(self._marks, 0, position)])

    def _position(self, time: int, side: str) -> int:
        return RingAggregator._position(self, time, side)

    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t: O(log n) chunks are read to find them, O(log n) combines."""
        self._finish_enforcing()
        super().bulk_evict(t)

    # ------------------------------------------------------------ chunks, between memory and the store

    def _provide(self) -> None:
        """Give full chunks of the tails away, and fill the heads."""
        front, end = int(self._marks[FRONT]), int(self._marks[END])
        counts = []
        for level in range(LEVELS):
            count = ((end + 1) >> level) - 1
            if count < self._size + MARGIN:
                break
            counts.append(count)
        self._courier.has_room(2 * TAIL + len(counts))
        tails, heads, ends = self._tables()
        try:
            for level, count in enumerate(counts):
                if count - tails[level] >= self._size + MARGIN:
                    self._hand_off(level, tails[level], count, front >> level)
                elif heads[level] == (front >> level >> self._bits << self._bits) and (
                    ends[level] - heads[level] > HEAD // 2 * self._size or ends[level] == tails[level]
                ):
                    continue  # nothing to do, as nearly always above the lowest levels
                self._fill_head(level, front)
        finally:
            self._set_limits()
            self._send()

    def _tables(self) -> tuple[list[int], list[int], list[int]]:
        """Return for each level the first node of the tail, and the first and the end of the head."""
        marks = self._marks.tolist()
        return marks[TAILS:HEADS], marks[HEADS:HEAD_ENDS], marks[HEAD_ENDS:PROBES]

    def _send(self) -> None:
        """Let the courier begin. Once for all levels, and last: it works while a kernel runs."""
        if self._full:
            self._courier.put_all(self._full)
            self._full = {}
        if self._wanted:
            names, read, decode = tuple(self._wanted), self._courier.get_all, self._format.decode
            keys = [self._key(name) for name in names]
            self._wanted.clear()
            future = self._courier.ahead(
                lambda: {name: decode(name, data) for name, data in zip(names, read(keys), strict=True)}
            )
            self._ahead.update(dict.fromkeys(names, future))

    def _set_limits(self) -> None:
        marks = self._marks
        front, limit = int(marks[FRONT]), FAR
        tails, _, ends = self._tables()
        for level, (tail, end) in enumerate(zip(tails, ends, strict=True)):
            if not tail:
                break
            if front >> level < tail:
                limit = min(limit, end << level if end < tail else FAR)
        marks[ENTER_LIMIT] = tails[0] + TAIL * self._size
        marks[LEAVE_LIMIT] = limit

    def _hand_off(self, level: int, tail: int, count: int, front: int) -> None:
        """Have the full chunks of a tail written, and keep those that follow the head."""
        while count - tail >= self._size + MARGIN:
            if tail + self._size > front:
                self._give_away(level, tail, front)
            tail += self._size
            self._marks[TAILS + level] = tail

    def _give_away(self, level: int, first: int, front: int) -> None:
        begin = (ALL * level << self._bits) + (first & (TAIL * self._size - 1))
        at = slice(begin, begin + self._size)
        states = _copied(self._window[0][at])
        times = self._window[1][at].copy() if level == 0 else self._window[1][:0]
        number, encode = first >> self._bits, self._format.encode
        name = self._chunk(level, number)
        self._full[self._key(name)] = lambda: encode(name, states, times)
        marks = self._marks
        start, end = int(marks[HEADS + level]), int(marks[HEAD_ENDS + level])
        if start == end:
            start = end = front >> self._bits << self._bits
            marks[HEADS + level] = start
        if end == first and end - start < HEAD * self._size:
            self._install(level, number, states, times)

    def _install(self, level: int, number: int, states: Array, times: Array) -> None:
        """Append a chunk to the head of a level."""
        first = number << self._bits
        begin = ((ALL * level + TAIL) << self._bits) + (first & (HEAD * self._size - 1))
        at = slice(begin, begin + self._size)
        _copy(states, self._window[0][at])
        if level == 0:
            self._window[1][at] = times
        self._marks[HEAD_ENDS + level] = first + self._size

    def _fill_head(self, level: int, front: int) -> None:
        """See that the head of a level holds the chunks of the oldest nodes, and more if they are here."""
        marks, bits, size = self._marks, self._bits, self._size
        first = front >> level
        begin = first >> bits << bits
        tail, start, end = (int(marks[table + level]) for table in (TAILS, HEADS, HEAD_ENDS))
        if first >= tail:
            marks[HEADS + level] = marks[HEAD_ENDS + level] = 0
        else:
            if not start <= begin < end:
                chunk = self._fetch(level, begin >> bits)
                marks[HEADS + level] = begin
                self._install(level, begin >> bits, *chunk)
            else:
                marks[HEADS + level] = begin
            needed = (front + 2) >> level
            end = int(marks[HEAD_ENDS + level])
            while end < tail and end - begin < HEAD * size:
                waiting = self._ahead.get(self._chunk(level, end >> bits))
                if end > needed and not (waiting and waiting.done() and not waiting.exception()):
                    break
                self._install(level, end >> bits, *self._fetch(level, end >> bits))
                end += size
            if end - begin <= HEAD // 2 * size:
                self._read_ahead(level, end >> bits, min(tail, begin + HEAD * size) >> bits)
        if (begin >> bits) - self._kept[level] >= DELETED_AT_ONCE:
            self._drop(level, begin >> bits)

    def _read_ahead(self, level: int, start: int, stop: int) -> None:
        names = (self._chunk(level, number) for number in range(start, stop))
        self._wanted += [name for name in names if name not in self._ahead]

    def _fetch(self, level: int, number: int) -> tuple[Array, Array]:
        """Return a chunk that is not in memory: read ahead, or now."""
        name = self._chunk(level, number)
        waiting = self._ahead.pop(name, None)
        if waiting is not None:
            try:
                return waiting.result()[name]
            except StoreError:
                pass  # it may be there by now
        key = self._key(name)
        if key in self._full:
            return self._format.decode(name, self._full[key]())
        return self._format.decode(name, self._courier.get_all([key])[0])

    def _load_for_search(self, level: int, j: int) -> None:
        """Read the chunk of a node in the middle of a level, in the place of the oldest of four such."""
        number, k = j >> self._bits, self._victims[level]
        states, times = self._fetch(level, number)
        begin = (ALL * level + TAIL + HEAD + k) << self._bits
        at = slice(begin, begin + self._size)
        _copy(states, self._window[0][at])
        if level == 0:
            self._window[1][at] = times
        self._marks[PROBES + FOUND * level + k] = number << self._bits
        self._victims[level] = (k + 1) % FOUND

    def _leap(self, position: int) -> None:
        """Remove all rows before a position at once. Chunks that are needed are read before anything changes."""
        heads = {}
        for level in range(int(self._marks[TOP]) + 1):
            j = position >> level
            tail, start, end = (int(self._marks[table + level]) for table in (TAILS, HEADS, HEAD_ENDS))
            if position < self._marks[END] and j < tail and not start <= j < end:
                heads[level] = (j >> self._bits, self._fetch(level, j >> self._bits))
        for level, (number, chunk) in heads.items():
            self._marks[HEADS + level] = number << self._bits
            self._install(level, number, *chunk)
        self._module.move_front(self._window, position)
        self._set_limits()

    def _in_memory(self, level: int, j: int) -> bool:
        marks = self._marks
        if j >= marks[TAILS + level] or marks[HEADS + level] <= j < marks[HEAD_ENDS + level]:
            return True
        firsts = marks[PROBES + FOUND * level : PROBES + FOUND * (level + 1)]
        return bool(((firsts <= j) & (j < firsts + self._size)).any())

    def _drop(self, level: int, number: int) -> None:
        """Have all chunks before this one deleted: now, or when the manifest no longer speaks of them."""
        start, self._kept[level] = self._kept[level], number
        for before in [name for name in self._ahead if name.level == level and name.number < number]:
            del self._ahead[before]
        while start < number:
            generation = self._chunk(level, start).generation
            stop = start + 1
            spoken_of = start < self._spoken_of[level]
            while (
                stop < number
                and self._chunk(level, stop).generation == generation
                and (stop < self._spoken_of[level]) == spoken_of
            ):
                stop += 1
            if spoken_of:
                self._deferred.append([generation, level, start, stop])
            else:
                self._delete_later(generation, level, start, stop)
            start = stop

    def _delete_later(self, generation: int, level: int, start: int, stop: int) -> None:
        series, store = self._series(generation, level), self._courier.store
        if stop == start + 1 and self._courier.withdraw(numbered(series, start)):
            return
        self._courier.later(lambda: _ignore(store.delete_range(series, start, stop)))

    def _series(self, generation: int, level: int) -> bytes:
        return self._prefix + b"%08x:%02x:" % (generation, level)

    def _key(self, name: Name) -> bytes:
        return numbered(self._series(name.generation, name.level), name.number)

    def _chunk(self, level: int, number: int) -> Name:
        """Return the name of a chunk: its generation is that of the process in which its tail became full."""
        for generation, starts in reversed(self._runs):
            if level >= len(starts) or starts[level] <= number:
                return Name(level, generation, number)
        return Name(level, self._runs[0][0], number)

    def _tail_cells(self, level: int) -> Any:
        """Return where the nodes of a tail are, in their order."""
        count = ((int(self._marks[END]) + 1) >> level) - 1
        nodes = np.arange(int(self._marks[TAILS + level]), max(count, 0))
        return (ALL * level << self._bits) + (nodes & (TAIL * self._size - 1))

    # ------------------------------------------------------------ checks

    def _check(self, states: States, require: Any) -> None:
        """Read the whole body, and check it as if it were in memory."""
        marks = self._marks
        twin: MonoidTree = MonoidTree.__new__(MonoidTree)
        twin._binding, twin._window = self._binding, ()
        twin._window = twin._empty(max(16, 1 << max(0, len(self) - 1).bit_length()))
        twin._window[2][:] = marks[: len(twin._window[2])]
        twin._window[3][:] = self._window[3]
        held: list[int] = []
        for level, first, last in self._node_ranges():
            for j in range(first, last):
                cells = twin._window[0]
                capacity = len(cells) >> (level + 1)
                cells[len(cells) - 2 * capacity + (j & (capacity - 1))] = self._read_node(level, j)
                if level == 0:
                    held.append(self._time_at(j))
        require(held == sorted(held), "the times of the rows descend")
        for level in range(int(marks[TOP]) + 1):
            tail, count = int(marks[TAILS + level]), ((int(marks[END]) + 1) >> level) - 1
            require(tail % self._size == 0, f"the tail of level {level} begins inside a chunk")
            require(count - tail <= TAIL * self._size, f"the tail of level {level} has overrun")
        twin._check_structure(states, require)

    def _read_node(self, level: int, j: int) -> Any:
        while not self._in_memory(level, j):
            self._load_for_search(level, j)
        return self._window[0][_cell(self._marks, level, j)]


def _cell(marks: Array, level: int, j: int) -> int:
    """Do what the kernel `spot` does."""
    bits = int(marks[BITS])
    base = ALL * level << bits
    if j >= marks[TAILS + level]:
        return base + (j & ((TAIL << bits) - 1))
    if marks[HEADS + level] <= j < marks[HEAD_ENDS + level]:
        return base + (TAIL << bits) + (j & ((HEAD << bits) - 1))
    for k in range(FOUND):
        first = int(marks[PROBES + FOUND * level + k])
        if first <= j < first + (1 << bits):
            return base + ((TAIL + HEAD + k) << bits) + j - first
    raise AssertionError((level, j))


def _copied(states: Array) -> Array:
    """Return a copy. As bytes, because NumPy copies records a field at a time."""
    return states.copy() if states.dtype.hasobject else states.view("u1").copy().view(states.dtype)


def _copy(states: Array, target: Array) -> None:
    """Write states over others, in the same way."""
    if states.dtype.hasobject:
        target[:] = states
    else:
        target.view("u1")[:] = states.view("u1")


def _trimmed(numbers: Array) -> list[int]:
    """Return numbers without the zeros at their end."""
    used = np.flatnonzero(numbers)
    return [int(n) for n in numbers[: used[-1] + 1]] if len(used) else []


def _ignore(_: object) -> None:
    """Drop a result."""


def _newest_manifest(courier: Courier, prefix: bytes, *, allow_pickle: bool) -> Snapshot | None:
    """Return the last manifest that is whole."""
    found = courier.insist(lambda: courier.store.get_many([prefix + b"manifest0", prefix + b"manifest1"]))
    whole = []
    for data in found:
        try:
            if data is not None:
                whole.append(Snapshot.decode(data, allow_pickle=allow_pickle))
        except SnapshotError as error:
            if "allow_pickle" in str(error):
                raise
            # Else it was being written when its writer died: the other one holds.
    return max(whole, key=lambda snapshot: int(snapshot.header["sequence"]), default=None)
