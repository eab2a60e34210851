"""The aggregator whose body is in a store: runs the kernels on what is in memory, and loads what they stop for."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.levels import spots
from muntin.aggregators.monoid_tree import TOP, MonoidTree
from muntin.aggregators.ring import END, FRONT, RingAggregator, Side
from muntin.aggregators.states import States, converted
from muntin.aggregators.stored.chunks import FORMAT, OLDEST, ChunkFormat
from muntin.aggregators.stored.courier import Courier, require_patience
from muntin.aggregators.stored.ends import (
    ENTER_LIMIT,
    LEVELS,
    MARKS,
    MISS_LEVEL,
    MISS_NODE,
    PENDING,
    TAIL,
    TAILS,
    TARGET,
    Ends,
)
from muntin.aggregators.stored.exchange import Exchange
from muntin.aggregators.stored.kernels import ENTRIES, STRUCTURE
from muntin.aggregators.stored.manifest import Manifests
from muntin.aggregators.stored.names import Names
from muntin.errors import ColumnTypeError, InvalidArgumentError, StoreError, UnsupportedOperationError
from muntin.policies import Policy
from muntin.snapshots import Snapshot
from muntin.stores.base import Store
from muntin.stores.memory import Memory
from muntin.turns import changing
from muntin.types import NULL, Array, ColumnType, column_type

LARGEST_CHUNK = 1 << 24
CHUNK_BYTES = 1 << 16
"""The default bytes of a chunk's states: a chunk's cost in Python is then less than that of its bytes. With an eighth
of it a slide took 2.4 times the CPU time in LMDB, 2.6 times in Redis."""
LONGEST_ID = 400
"""LMDB has keys of up to 511 bytes."""


class StoredMonoidTree(MonoidTree):
    """What `MonoidTree(store=...)` returns. Use it as a context manager, or close it: that flushes."""

    title: ClassVar[str] = "MonoidTree"
    structure: ClassVar[tuple[Any, ...]] = STRUCTURE
    entries: ClassVar[tuple[str, ...]] = ENTRIES
    mark_count: ClassVar[int] = MARKS

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        store: Store,
        window_id: str | None = None,
        policy: Policy | None = None,
        chunk_pairs: int | None = None,
        patience: float = 30.0,
        allow_pickle: bool = False,
        _found: Snapshot | None = None,
        _courier: Courier | None = None,
        _manifests: Manifests | None = None,
        **options: Any,
    ) -> None:
        _require_store(store)
        if options.get("capacity") is not None:
            raise InvalidArgumentError(
                "capacity is room in memory; a window in a store needs O(log n), and grows there"
            )
        self._chunk_pairs = _checked_pairs(chunk_pairs)
        require_patience(patience)
        self.window_id = secrets.token_hex(8) if window_id is None else _checked_id(window_id)
        self._allow_pickle = allow_pickle
        self._courier = _courier or Courier(store, store.lease(self.window_id.encode()), patience)
        self._finalizer = weakref.finalize(self, self._courier.abandon)
        self._manifests = _manifests or Manifests(self._courier, Names(self.window_id))
        self._names = self._manifests.names
        self._chunk_format = FORMAT
        try:
            super().__init__(aggregation, policy=policy, **options)
            self._begin(_found)
        except BaseException:
            self._finalizer.detach()
            self._courier.close()
            raise

    # ------------------------------------------------------------ opening, flushing, closing

    @classmethod
    def reopen(
        cls, store: Store, window_id: str, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any
    ) -> Self:
        """Return the window as its last flush left it. See `MonoidTree.open`."""
        _require_store(store)
        patience = require_patience(options.pop("patience", 30.0))
        courier = Courier(store, store.lease(_checked_id(window_id).encode()), patience)
        try:
            trusted = options.get("allow_pickle", False)
            manifests = Manifests(courier, Names(window_id))
            found = manifests.newest(allow_pickle=trusted)
            if found is None:
                raise StoreError(
                    f"the store has no window {window_id!r}; {cls._name()}(store=..., window_id=...) makes one"
                )
            made_by = found.header.get("structure", MonoidTree.__name__)
            if made_by != cls._name():
                raise StoreError(f"the window {window_id!r} is a {made_by}, not a {cls._name()}; open it with that")
            saved = {"nullable": found.header["nullable"], "chunk_pairs": found.header["chunk_pairs"]}
            opened = {"_found": found, "_courier": courier, "_manifests": manifests}
            return cls(aggregation, store=store, window_id=window_id, **{**opened, **saved, **options})
        except BaseException:
            courier.close()
            raise

    def _begin(self, found: Snapshot | None) -> None:
        """Announce a new generation, before any of its chunks is written."""
        if found is not None:
            self._take_over(found)
        elif self._manifests.newest(allow_pickle=self._allow_pickle) is not None:
            raise StoreError(f"the store has a window {self.window_id!r}; open it with {self._name()}.open")
        self._names.begin_generation(self._ends.tail_chunks())
        self._manifests.claim()
        self._write_manifest()
        if found is not None:
            self._exchange.disposal.delete_orphans(self._ends.tail_chunks())
            self._exchange.provide()

    def flush(self) -> None:
        """Make everything so far durable: after a crash, `MonoidTree.open` returns the window as it is now.

        Waits until all chunks are written, then writes the manifest: O(chunk * log n) bytes. Raises `StoreError` if
        that fails, or if background work has failed; what was not written is kept for the next flush.
        """
        self._courier.require_open()
        self._finish_enforcing()
        self._courier.finish()
        self._write_manifest()

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless `flush` is false; stop the background work and release the lease. Idempotent.

        If the flush fails the window stays open: try `close` again, or discard what was not flushed with
        `close(flush=False)`. A closed window still answers `query`, and rejects what would change it or needs the
        store.
        """
        if self._finalizer.alive:
            if flush:
                self.flush()
                self._courier.finish()  # pending deletions
            self._finalizer.detach()
            self._courier.close()

    def __enter__(self) -> Self:
        """Return the window."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the window; after an error without a flush."""
        self.close(flush=kind is None)

    def snapshot(self) -> bytes:
        """Always raise: what `flush` writes to the store is the snapshot of this window."""
        raise UnsupportedOperationError("the body of this window is in a store: flush() saves it, open() reads it")

    def _arguments(self) -> tuple[dict[str, Aggregation], dict[str, Any]]:
        """Return them for a window in a store of its own."""
        aggregations, options = super()._arguments()
        return aggregations, {**options, "store": Memory(), "chunk_pairs": self._ends.size // 2}

    # ------------------------------------------------------------ manifests

    def _write_manifest(self) -> None:
        disposal = self._exchange.disposal
        disposal.manifest_begun(self._ends.tail_chunks())
        self._manifests.write(self._manifest())
        disposal.manifest_written()

    def _manifest(self) -> Snapshot:
        disposal = self._exchange.disposal
        facts = {
            "structure": self._name(),
            "window": self.window_id,
            "sequence": self._manifests.sequence + 1,
            "generation": self._names.generation,
            "runs": self._names.runs,
            "kept": disposal.kept,
            "deferred": disposal.deferred,
            "nullable": self._nullable,
            "chunk_pairs": self._ends.size // 2,
            "chunk_format": self._chunk_format,
            "policy": self._policy_facts(),
        }
        schema = [(name, kind.logical) for name, kind in self._types.items()]
        schema.append(("time", None if self._time_type is None else self._time_type.logical))
        window = self._window
        arrays = {"marks": window.marks, "small": window.results, "times": window.times[self._ends.tail_cells(0)]}
        arrays |= {f"level{level}": window.slots[self._ends.tail_cells(level)] for level in range(LEVELS)}
        return Snapshot(facts, schema, self._binding.fingerprint, arrays)

    def _take_over(self, found: Snapshot) -> None:
        """Restore the window of a manifest."""
        self._require_same(found)
        *columns, (_, time) = found.schema
        self._types = self._agreed_types({n: NULL if kind == pa.null() else column_type(kind) for n, kind in columns})
        self._time_type = None if time is None else column_type(time)
        self._chunk_format = found.header.get("chunk_format", OLDEST)  # missing in the first manifests
        self._rebind()
        self._allocate()
        self._take_over_facts(found.header)
        states = States(self._binding)
        window = self._window
        window.marks[:] = found.arrays["marks"]
        self._ends.forget_all_but_tails()
        window.results[:] = states.revived(found.arrays["small"])
        for level in range(LEVELS):
            window.slots[self._ends.tail_cells(level)] = states.revived(found.arrays[f"level{level}"])
        window.times[self._ends.tail_cells(0)] = found.arrays["times"]

    def _require_same(self, found: Snapshot) -> None:
        """Reject options that differ from those the window was created with."""
        own = self._policy_facts()
        held = found.header.get("policy", own)  # missing in the first manifests
        if held != own:
            before = "without a policy" if held is None else f"with the policy {held['name']}"
            now = "none" if own is None else f"{own['name']}, as it is defined now,"
            raise StoreError(f"the window {self.window_id!r} was made {before}; {now} is given to open it")
        hidden = () if self._policy is None else self._policy.named
        if found.fingerprint != self._binding.fingerprint:
            raise StoreError(
                f"the window {self.window_id!r} was made with another aggregation, or another definition of it, than "
                f"{', '.join(str(each) for name, each in self._aggregations.items() if name not in hidden)}"
            )
        for option, given in {"chunk_pairs": self._ends.size // 2, "nullable": self._nullable}.items():
            if found.header[option] != given:
                raise StoreError(
                    f"the window {self.window_id!r} was made with {option}={found.header[option]}, not {given}; "
                    "leave the option out"
                )

    def _policy_facts(self) -> dict[str, str] | None:
        policy = self._policy
        return None if policy is None else {"name": policy.name, "fingerprint": policy.fingerprint}

    def _agreed_types(self, held: dict[str, ColumnType]) -> dict[str, ColumnType]:
        """Return the column types; those declared now must match the existing values."""
        for name in self._declared:
            if held[name] not in (NULL, self._types[name]):
                raise StoreError(
                    f"column {name!r} of the window {self.window_id!r} holds {held[name]}, not {self._types[name]}; "
                    "leave dtype= out"
                )
        return held | {name: self._types[name] for name in self._declared}

    def _take_over_facts(self, facts: Mapping[str, Any]) -> None:
        disposal = self._exchange.disposal
        self._manifests.sequence = facts["sequence"]
        disposal.kept, disposal.deferred = facts["kept"], facts["deferred"]
        self._names.generation = facts["generation"]
        self._names.runs = [(generation, starts) for generation, starts in facts["runs"]]
        self._names.forget(disposal.kept)

    # ------------------------------------------------------------ types

    def _rebind(self) -> None:
        super()._rebind()
        self._exchange.traffic.format = ChunkFormat(
            self._binding, self.window_id, oldest=self._chunk_format, allow_pickle=self._allow_pickle
        )

    def _allocate(self) -> None:
        if not hasattr(self, "_ends"):
            pairs = self._chunk_pairs or _suitable_pairs(self._binding)
            self._ends = Ends(pairs.bit_length())  # two nodes per pair
            self._exchange = Exchange(self._ends, self._courier, self._names)
        self._window = self._ends.allocate(self._binding)

    def _admitted(self, values: list[tuple[str, ColumnType, Any]]) -> dict[str, ColumnType]:
        types = super()._admitted(values)
        if types != self._types and len(self) and self._marks[TAILS]:
            name = next(name for name in types if types[name] != self._types[name])
            raise ColumnTypeError(
                f"column {name!r} holds {self._types[name]}, would have to become {types[name]}, and has rows in the "
                "store; give the type with dtype= when building"
            )
        return types

    def _take_types(self, time_type: ColumnType, types: dict[str, ColumnType]) -> None:
        if self._time_type == time_type and self._types == types:
            return
        if self._policy is not None:
            self._policy.rule(time_type)  # rejects a duration incomparable with these times
        self._time_type, self._types = time_type, types
        old, before = self._binding, self._window
        self._rebind()
        self._allocate()
        window = self._window
        window.marks[:], window.times[:] = before.marks, before.times
        if len(self):
            for level in range(LEVELS):
                at = self._ends.tail_cells(level)
                window.slots[at] = converted(old, self._binding, before.slots[at])
            window.results[:] = converted(old, self._binding, before.results)

    # ------------------------------------------------------------ inserting and evicting

    def _accept(self, times: Array) -> None:
        self._courier.require_open()
        super()._accept(times)

    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        row = 0
        self._finish_enforcing()
        try:
            while row < count:
                if self._marks[END] >= self._marks[ENTER_LIMIT]:
                    self._exchange.provide()
                row = self._insert_until_stopped(columns, times, row, count)
                self._finish_enforcing()
        except Exception as error:
            if row:
                error.add_note(f"the first {row} of these {count} rows are in the window; insert only the others again")
            raise
        self._warn_of_doubt()

    def _insert_until_stopped(self, columns: tuple[Array, ...], times: Array, row: int, count: int) -> int:
        insert = self._module.insert_some if self._policy is None else self._module.insert_some_enforced
        marks, results = self._marks.copy(), self._window.results.copy()
        try:
            return int(insert(self._window, columns, times, row, count))
        except BaseException:
            self._marks[:], self._window.results[:] = marks, results
            raise

    def _finish_enforcing(self) -> None:
        """Complete an enforcement of the policy that stopped for Python, perhaps in an earlier failed call."""
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
        with changing(self):
            self._evict_many(1)

    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t: O(log n) chunks are read to find them, O(log n) combines."""
        self._courier.require_open()
        self._finish_enforcing()
        super().bulk_evict(t)

    def _evict_many(self, count: int) -> None:
        self._courier.require_open()
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

    # ------------------------------------------------------------ helping kernels

    def _help(self) -> None:
        """Load what a kernel stopped for."""
        marks = self._marks
        missing, node = int(marks[MISS_LEVEL]), int(marks[MISS_NODE])
        if missing >= 0:
            marks[MISS_LEVEL] = -1  # first: if the read fails, it may have left the window by the next time
            self._exchange.load(missing, node)
        elif marks[TARGET] - marks[FRONT] > marks[TOP] + 1:
            self._leap(int(marks[TARGET]))
        elif marks[FRONT] < marks[TARGET]:
            self._exchange.provide()

    def _leap(self, position: int) -> None:
        """Remove all rows before a position at once. Reads all needed chunks before anything changes."""
        self._exchange.reach(position)
        self._module.move_front(self._window, position)
        self._ends.set_limits()

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        while not self._module.range_ready(self._window, begin, end):
            self._help()
        self._module.answer_range(self._window, begin, end, outputs)

    def _position(self, time: int, side: Side) -> int:
        return RingAggregator._position(self, time, side)

    def _time_at(self, position: int) -> int:
        return int(self._window.times[self._cell(0, position)])

    def _cell(self, level: int, j: int) -> int:
        """Return the cell of a node, reading its chunk first if needed."""
        cell = self._ends.cell(level, j)
        while cell is None:
            self._exchange.load(level, j)
            cell = self._ends.cell(level, j)
        return cell

    # ------------------------------------------------------------ checks

    def _check(self, states: States, require: Any) -> None:
        """Read the whole body, and check it like one in memory."""
        for level in range(int(self._marks[TOP]) + 1):
            tail, _, _ = self._ends.level(level)
            require(tail % self._ends.size == 0, f"the tail of level {level} begins inside a chunk")
            overrun = self._ends.count(level) - tail > TAIL * self._ends.size
            require(not overrun, f"the tail of level {level} has overrun")
        held = [self._time_at(j) for j in range(int(self._marks[FRONT]), int(self._marks[END]))]
        require(held == sorted(held), "the times of the rows descend")
        self._twin()._check_structure(states, require)

    def _twin(self) -> MonoidTree:
        """Return the same window in memory, without the times."""
        twin: MonoidTree = MonoidTree.__new__(MonoidTree)
        twin._binding = self._binding
        twin._window = twin._empty(max(16, 1 << max(0, len(self) - 1).bit_length()))
        cells, marks = twin._window.slots, twin._window.marks
        marks[:], twin._window.results[:] = self._marks[: len(marks)], self._window.results
        for level, first, last in self._node_ranges():
            for j in range(first, last):
                cells[spots(len(cells), level, j)] = self._window.slots[self._cell(level, j)]
        return twin


def _require_store(store: Any) -> None:
    if not isinstance(store, Store):
        raise InvalidArgumentError(f"a store is needed, such as stores.Lmdb('folder'); got {store!r}")


def _checked_pairs(pairs: Any) -> int | None:
    """Return the size of chunks; None if not given."""
    whole = isinstance(pairs, int) and not isinstance(pairs, bool)
    if pairs is not None and (not whole or not 4 <= pairs < LARGEST_CHUNK or pairs & (pairs - 1)):
        raise InvalidArgumentError(f"chunk_pairs is a power of two, 4 or more; got {pairs!r}")
    return pairs if whole else None


def _suitable_pairs(binding: Binding) -> int:
    """Return the pairs of states per chunk: 4096 small ones, 512 large ones or objects."""
    nodes = CHUNK_BYTES // max(8, binding.dtype.itemsize) if binding.fixed else 0
    return max(512, 1 << max(0, (nodes // 2).bit_length() - 1))


def _checked_id(window_id: Any) -> str:
    """Return the name of a window; reject one that stores cannot use in keys."""
    if not isinstance(window_id, str) or not 0 < len(window_id.encode()) <= LONGEST_ID:
        raise InvalidArgumentError(f"window_id is a text of 1 to {LONGEST_ID} bytes; got {window_id!r}")
    return window_id
