"""Aggregates windows that are spans of sorted rows: chooses the algorithm of each aggregation, and runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.aggregations.failing import in_words
from muntin.aggregations.together import run_together
from muntin.aggregators import (
    blocks,
    blocks_paired,
    boundary_arrays,
    boundary_slices,
    order_statistics,
    prefix_sums,
    recalculate,
    subtract_on_evict,
    two_stacks,
)
from muntin.aggregators.base import Aggregator
from muntin.aggregators.choose import choose, explained
from muntin.aggregators.distinct_counts import distinct_counts, write_answers
from muntin.aggregators.table import TABLE, Entry, Facts, Loop
from muntin.arrays.spans import Span, spans_of_rows
from muntin.columns import Column
from muntin.errors import UnsupportedOperationError
from muntin.kernels.sums_text import Sums, term_counts
from muntin.threads import in_threads, shares
from muntin.types import INT64, OBJECT, Array, ColumnType


def run_of_rows(
    columns: Mapping[str, Column], times: Array, time_type: ColumnType, first: Array, last: Array
) -> ArrayRun:
    """Return how to run the windows [first, last) of rows, both bounds ascending. O(rows and windows)."""
    return ArrayRun(columns, len(times), spans_of_rows(first, last, times, time_type), "auto", 1)


def windows_of_rows(
    columns: Mapping[str, Column],
    times: Array,
    time_type: ColumnType,
    first: Array,
    last: Array,
    aggregations: Mapping[str, Aggregation],
) -> dict[str, Any]:
    """Aggregate the windows [first, last) of rows, both bounds ascending; return the raw results by name."""
    return run_of_rows(columns, times, time_type, first, last).all(aggregations)


def alike(runs: Sequence[ArrayRun]) -> list[ArrayRun]:
    """Return the runs of pieces with common facts, so that the same kernels run all of them. O(runs)."""
    spans = [each.span for each in runs]
    longest, overlap = max(each.longest for each in spans), max(each.overlap for each in spans)
    gaps = any(each.gaps for each in spans)
    step = sum(each.rows for each in runs) / max(1, sum(each.count for each in spans))
    names = [name for each in runs for name in each.seen_nan]
    seen_nan = {name: any(each.seen_nan.get(name, False) for each in runs) for name in names}
    return [
        replace(each, span=replace(span, longest=longest, overlap=overlap, gaps=gaps), step=step, seen_nan=seen_nan)
        for each, span in zip(runs, spans, strict=True)
    ]


def folded_windows(
    binding: Binding, columns: Mapping[str, Column], times: Array, first: Array, last: Array
) -> dict[str, Any]:
    """Aggregate the windows [first, last) of rows, in any order, each separately; return the raw results by name.

    For few rows, where choosing an aggregator takes longer than answering. One combine per row of a window.
    """
    outputs = binding.outputs(len(first))
    uses_time = any(part.uses_time for part in binding.parts)
    module = binding.kernels((recalculate.slide_windows,), "slide_windows")
    inputs = binding.inputs(columns, len(times)), times if uses_time else _NO_TIMES
    with in_words(binding.aggregations, binding.types):
        module.slide_windows(binding.slots(0), *inputs, first, last, 0, len(first), outputs)
    return results_by_name(binding, outputs)


def results_by_name(binding: Binding, outputs: tuple[Array, ...]) -> dict[str, Any]:
    """Return the outputs of kernels as raw results."""
    triples = zip(binding.names, binding.results, binding.raw_results(outputs), strict=True)
    return {name: (values, valid, result) for name, result, (values, valid) in triples}


@dataclass(frozen=True)
class ArrayRun:
    """Rows, windows over them, and how to run these."""

    columns: Mapping[str, Column]
    rows: int
    span: Span
    aggregator: str
    threads: int
    seen_nan: dict[str, bool] = field(default_factory=dict)
    step: float | None = None
    """The average rows from one window to the next of the whole, if this is a piece; None: of these windows."""

    def all(self, aggregations: Mapping[str, Aggregation]) -> dict[str, Any]:
        """Return the results by name. Fused aggregations run together; the others separately."""
        results: dict[str, Any] = {}
        for binding in self._bindings(aggregations):
            results |= self._answers(binding)
        return {name: results[name] for name in aggregations}

    def _bindings(self, aggregations: Mapping[str, Aggregation]) -> list[Binding]:
        """Return the fused groups. Cached: a stream has the same aggregations in every call."""
        used = {c: self.columns[c] for each in aggregations.values() for c in each.reads}
        asks_for_nan = any(map(_asks_for_nan, aggregations.values()))
        key = (
            tuple((name, each.meaning, each.columns) for name, each in aggregations.items()),
            tuple((name, column.type, column.valid is None) for name, column in used.items()),
            tuple(map(self._has_nan, used)) if asks_for_nan else (),
            (self.aggregator, self.span.gaps, self.span.time_type, self._summable),
        )
        found = _known_bindings.get(key)
        if found is None:
            found = [self._bind(group) for group in run_together(aggregations, self._bind, self._loop_of)]
            if len(_known_bindings) >= _MOST_KNOWN:
                _known_bindings.clear()
            _known_bindings[key] = found
        return found

    def _loop_of(self, _name: str, alone: Binding) -> Hashable:
        """Return which array loop suits an aggregation, and its inputs; equal ones are fused.

        None if it can join any. Quantiles and distinct counts of the same values read them only once.
        """
        distinct = self._counts_distinct(alone)
        if distinct or self._ranks(alone):
            one = alone.aggregations[0]
            return one.columns, one.skip_nan, one.where, distinct
        return "prefix_sums" if self.aggregator == "auto" and self._summable and alone.summed else None

    @cached_property
    def _summable(self) -> bool:
        """Whether the windows suit `prefix_sums`, and are enough to pay off."""
        width = self.span.width
        return width is not None and self.rows >= max(2 * width, prefix_sums.WORTH_IT)

    def _bind(self, aggregations: Mapping[str, Aggregation]) -> Binding:
        used = {c: self.columns[c] for each in aggregations.values() for c in each.reads}
        skips = any(each.skip_nan for each in aggregations.values())
        nullable = skips or any(column.valid is not None for column in used.values())
        types = {name: column.type for name, column in used.items()}
        time = self.span.time_type or INT64
        asks_for_nan = any(map(_asks_for_nan, aggregations.values()))
        has_nan = asks_for_nan and any(self._has_nan(name) for name in used)
        return bind(aggregations, types, time=time, nullable=nullable, gaps=self.span.gaps, has_nan=has_nan)

    def _has_nan(self, name: str) -> bool:
        """Return whether a column holds NaN. One cached pass, in pieces like the windows."""
        if name not in self.seen_nan:
            values = self.columns[name].values
            found = [values.dtype == OBJECT]
            if values.dtype.kind == "f" and len(values):
                _in_pieces(
                    lambda a, b: found.append(bool(np.isnan(values[a:b].min()))), 0, len(values), 1, self.threads
                )
            self.seen_nan[name] = any(found)
        return self.seen_nan[name]

    def look_for_nan(self, aggregations: Mapping[str, Aggregation]) -> None:
        """Cache which columns hold NaN, if that decides which kernels run. O(rows)."""
        if any(map(_asks_for_nan, aggregations.values())):
            for name in dict.fromkeys(c for each in aggregations.values() for c in each.reads):
                self._has_nan(name)

    def _sortable(self, binding: Binding) -> bool:
        """Return whether the values can be ranked directly: numbers, not lifted into something else."""
        lifted = any("lift" in part.functions for part in binding.parts)
        return not lifted and binding.types[0].physical != OBJECT and self.aggregator in ("auto", "order_statistics")

    def _ranks(self, binding: Binding) -> bool:
        """Return whether there are only exact quantiles of numbers, and no other algorithm is forced."""
        return all(part.sorted for part in binding.parts) and self._sortable(binding)

    def _adds(self, binding: Binding) -> bool:
        """Return whether states follow from sums, for windows of one length per row."""
        return binding.summed and self.span.width is not None

    def _counts_distinct(self, binding: Binding) -> bool:
        """Return whether there are only distinct counts, and no other algorithm is forced."""
        return all(part.distinct for part in binding.parts) and self.aggregator in ("auto", "distinct_counts")

    def _answers(self, binding: Binding) -> dict[str, Any]:
        outputs = binding.outputs(self.span.count)
        if self.span.count:
            with in_words(binding.aggregations, binding.types):
                self._run(binding, outputs)
        return results_by_name(binding, outputs)

    def _run(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        try:
            self._dispatch(binding, outputs)
        except OverflowError:
            if not self.span.ties:
                raise
            # Among rows of equal time only the last one's window counts; another one may have overflowed.
            for valid in outputs[1::2]:
                valid[:] = True  # reset after the failed attempt
            self._windows(binding, outputs, Loop(two_stacks.slide_windows, slots=True))

    def _dispatch(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        entry = choose(self._facts(binding))[0] if self.aggregator == "auto" else TABLE[self.aggregator]
        self._require_suited(entry, binding)
        own = self._own_loop(entry.name, binding)
        if own is not None:
            return own(self, binding, outputs)
        if entry.loop is None or (entry.loop.exact and not binding.exact):
            assert entry.kind is not None
            return self._row_by_row(entry.kind, binding, outputs)
        return self._windows(binding, outputs, entry.loop)

    def _own_loop(self, name: str, binding: Binding) -> _Loop | None:
        """Return the loop of an aggregator that suits such windows, or None."""
        return next((run for own, suits, run in _OWN_LOOPS if own == name and suits(self, binding)), None)

    def _facts(self, binding: Binding) -> Facts:
        span = self.span
        step = self.rows / max(span.count, 1) if self.step is None else self.step
        return Facts(binding, span.longest, span.overlap, step, self._sortable(binding), self._summable)

    def facts(self, aggregations: Mapping[str, Aggregation]) -> list[Facts]:
        """Return the facts that decide the algorithm, for each group of fused aggregations."""
        return [self._facts(binding) for binding in self._bindings(aggregations)]

    def explained(self, aggregations: Mapping[str, Aggregation]) -> str:
        """Return what would run, and why, as text."""
        span = self.span
        apart = f"{self.rows / max(span.count, 1):.4g} rows apart; a row falls into {span.overlap:.4g} of them at most"
        lines = [f"{self.rows} rows, {span.count} windows of {span.longest} rows at most, {apart}"]
        for facts in self.facts(aggregations):
            binding = facts.binding
            auto = self.aggregator == "auto"
            entry = choose(facts)[0] if auto else TABLE[self.aggregator]
            self._require_suited(entry, binding)
            compiled = binding.compiled or entry.name == "order_statistics"
            how = "compiled" if compiled else "as plain Python, because its state is an object"
            how = "in NumPy" if entry.name == "distinct_counts" else how
            by = entry.name if auto else f"{entry.name}, as was asked for"
            lines += [", ".join(map(str, binding.aggregations)), f"  runs {how}, by {by}"]
            lines += [explained(facts)] if auto else []
        return "\n".join(lines)

    def _require_suited(self, entry: Entry, binding: Binding) -> None:
        """Reject an aggregator that cannot run these aggregations."""
        if entry.kind is not None:
            entry.kind.require_suited(binding)
        elif self._own_loop(entry.name, binding) is None:
            what = ", ".join(map(str, binding.aggregations))
            raise UnsupportedOperationError(f"{entry.name} runs {entry.takes} only, not {what}")

    def _inputs(self, binding: Binding) -> tuple[tuple[Array, ...], Array]:
        uses_time = any(part.uses_time for part in binding.parts)
        times = self.span.times(self.rows) if uses_time else np.zeros(1, np.int64)
        return binding.inputs(self.columns, self.rows), times

    def _windows(self, binding: Binding, outputs: tuple[Array, ...], loop: Loop) -> None:
        inputs, times = self._inputs(binding)
        first, last = self.span.rows()
        module = binding.kernels((loop.kernel,), "slide_windows")

        def piece(start: int, stop: int) -> None:
            # The front holds an aggregate per window that begins in it; pages that none reaches are never touched.
            room = binding.slots(stop - start if loop.slots else 0)
            module.slide_windows(room, inputs, times, first, last, start, stop, outputs)

        _in_pieces(piece, 0, self.span.count, 1, self.threads)

    def _row_by_row(self, kind: type[Aggregator], binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run the windows through the kernels `push`, `pop` and `total` of an aggregator."""
        inputs, times = self._inputs(binding)
        first, last = self.span.rows()

        def piece(start: int, stop: int) -> None:
            module, window = kind.over(binding, int((last[start:stop] - first[start:stop]).max()))
            module.slide_rows(window, inputs, times, first, last, start, stop, outputs)

        _in_pieces(piece, 0, self.span.count, 1, self.threads)

    def _blocks(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run windows of one length that end with every row."""
        width = _known(self.span.width)
        inputs, times = self._inputs(binding)
        module = binding.kernels(
            (*_block_kernels(binding), blocks.slide_blocks, two_stacks.slide_prefixes), "slide_blocks", "slide_prefixes"
        )
        shift = self.rows - self.span.count  # earlier windows are not full, and not wanted
        if not shift and width > 1:
            module.slide_prefixes(inputs, times, min(width - 1, self.rows), outputs)
        if self.rows >= width:

            def piece(start: int, stop: int) -> None:
                module.slide_blocks(binding.slots(width), inputs, times, width, start, stop, shift, outputs)

            _in_pieces(piece, width - 1, self.rows, width, self.threads)

    def _sums(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run windows of one length that end with every row as differences of sums."""
        width = _known(self.span.width)
        inputs, times = self._inputs(binding)
        # The sum of a short window is small beside that of a lane, whose rounding errors would show in it.
        sums: Sums = "as defined" if width >= prefix_sums.LANE else "compensated"
        kernels = (*_block_kernels(binding), *prefix_sums.KERNELS)
        module = binding.kernels(kernels, "slide_sums", sums=sums)
        shift = self.rows - self.span.count  # earlier windows are not full, and not wanted
        block = prefix_sums.block_length(width)
        counts = term_counts(binding.states, sums)

        def piece(start: int, stop: int) -> None:
            room = prefix_sums.room_for(*counts, block)
            slots = binding.slots(width)
            windows = (width, block, start, stop, shift)
            module.slide_sums(slots, room, room.view(np.int64), inputs, times, *windows, outputs)

        _in_pieces(piece, shift, self.rows, block, self.threads)

    def _boundary(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run the windows by the boundary aggregator; with two threads one flips chunks for the other."""
        alone = replace(self, threads=1)
        two_threads = self.threads > 1 and binding.compiled
        if self.span.width is None:
            (self._windows_aside if two_threads else alone._slices)(binding, outputs)
        elif two_threads and self.rows >= self.span.width:
            self._blocks_aside(binding, outputs)
        else:
            alone._blocks(binding, outputs)

    def _chunk_slots(self, binding: Binding) -> Array:
        """Return room for two chunks, one built while the other is read; a chunk's windows share a row."""
        return binding.slots(2 * min(self.span.count, math.ceil(self.span.overlap)))

    def _slices(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run windows that slide by several rows."""
        inputs, times = self._inputs(binding)
        first, last = self.span.rows()
        module = binding.kernels(boundary_slices.SLICES, "slide_slices")

        def piece(start: int, stop: int) -> None:
            module.slide_slices(self._chunk_slots(binding), inputs, times, first, last, start, stop, outputs)

        _in_pieces(piece, 0, self.span.count, 1, self.threads)

    def _windows_aside(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        inputs, times = self._inputs(binding)
        span = (*self.span.rows(), 0, self.span.count)
        slots = self._chunk_slots(binding)
        module = binding.kernels(boundary_arrays.WINDOWS, "turn_windows", "merge_windows")
        _side_by_side(
            lambda counters: module.turn_windows(slots, inputs, times, *span, counters),
            lambda counters: module.merge_windows(slots, inputs, times, *span, outputs, counters),
        )

    def _blocks_aside(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        width = _known(self.span.width)
        inputs, times = self._inputs(binding)
        kernels = (*_block_kernels(binding), *boundary_arrays.BLOCKS, two_stacks.slide_prefixes)
        module = binding.kernels(kernels, "turn_blocks", "merge_blocks", "slide_prefixes")
        shift = self.rows - self.span.count
        if not shift and width > 1:
            module.slide_prefixes(inputs, times, width - 1, outputs)
        slots = binding.slots(2 * width)
        span = (width, width - 1, self.rows)
        _side_by_side(
            lambda counters: module.turn_blocks(slots, inputs, times, *span, counters),
            lambda counters: module.merge_blocks(slots, inputs, times, *span, shift, outputs, counters),
        )

    def _width(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run windows of one length that end with every row, evicting rows by invert."""
        width = _known(self.span.width)
        inputs, times = self._inputs(binding)
        module = binding.kernels((subtract_on_evict.slide_width,), "slide_width")
        shift = self.rows - self.span.count  # earlier windows are not full, and not wanted

        def piece(start: int, stop: int) -> None:
            module.slide_width(inputs, times, width, start, stop, shift, outputs)

        _in_pieces(piece, shift, self.rows, 1, self.threads)

    def _trailing(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        """Run windows of one duration that end with every row."""
        duration = _known(self.span.duration)
        inputs, _ = self._inputs(binding)
        times = self.span.times(self.rows)
        source = _block_source(binding)
        module = binding.kernels((source.turn_block, source.merge_rows, *two_stacks.TRAILING), "slide_trailing")
        shift = self.rows - self.span.count  # earlier windows are not full, and not wanted
        # As many slots as a window may have rows. For small states, pages that no window reaches are never touched.
        longest = self.rows
        if binding.dtype.itemsize > 64 or not binding.fixed:
            first, last = self.span.rows()
            longest = int((last - first).max())

        def piece(start: int, stop: int) -> None:
            slots = binding.slots(longest)
            begins = np.empty(two_stacks.CHUNK, np.int64)
            windows = (duration, self.span.floor, start, stop, shift)
            module.slide_trailing(slots, inputs, times, *windows, begins, outputs)

        _in_pieces(piece, shift, self.rows, 1, self.threads)
        if self.span.ties:
            # All rows of one time share the window that ends with the last of them.
            early = np.flatnonzero(times[shift + 1 :] == times[shift:-1])
            final = np.searchsorted(times, times[early + shift], "right") - 1 - shift
            for array in outputs:
                if len(array):
                    array[early] = array[final]

    def _rows_that_count(self, binding: Binding) -> tuple[Column, Array, Array]:
        """Return the values that are not skipped, and the windows' bounds among them."""
        column = self.columns[binding.columns[0]]
        first, last = self.span.rows()
        if not binding.masks:
            return column, first, last
        kept = binding.masks[0].of([self.columns[name] for name in binding.columns], self.rows)
        before = np.concatenate(([0], np.cumsum(kept)))
        return column.take(kept), before[first], before[last]

    def _distinct(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        write_answers(binding, distinct_counts(*self._rows_that_count(binding)), outputs)

    def _sorted(self, binding: Binding, outputs: tuple[Array, ...]) -> None:
        column, first, last = self._rows_that_count(binding)
        values = np.ascontiguousarray(column.values)
        if binding.masks:
            binding = bind(
                {name: each.unfiltered for name, each in zip(binding.names, binding.aggregations, strict=True)},
                dict(zip(binding.columns, binding.types, strict=True)),
                nullable=False,
                gaps=True,
            )
        run = order_statistics.sorted_runner(binding, values, first, last, outputs)
        _in_pieces(run, 0, self.span.count, 1, self.threads)


_Loop: TypeAlias = Callable[[ArrayRun, Binding, tuple[Array, ...]], None]
_OWN_LOOPS: tuple[tuple[str, Callable[[ArrayRun, Binding], bool], _Loop], ...] = (
    ("order_statistics", ArrayRun._ranks, ArrayRun._sorted),
    ("distinct_counts", ArrayRun._counts_distinct, ArrayRun._distinct),
    ("prefix_sums", ArrayRun._adds, ArrayRun._sums),
    ("boundary", lambda run, _: run.aggregator == "auto", ArrayRun._slices),
    ("boundary", lambda *_: True, ArrayRun._boundary),
    ("two_stacks", lambda run, _: run.span.width is not None, ArrayRun._blocks),
    ("two_stacks", lambda run, _: run.span.duration is not None, ArrayRun._trailing),
    ("subtract_on_evict", lambda run, binding: binding.exact and run.span.width is not None, ArrayRun._width),
)
"""Aggregators with their own array loops, the windows each suits, and the loop: the first that suits runs.

An aggregator for arrays only takes nothing that its loop does not suit.
"""


def _known(number: int | None) -> int:
    """Return a number that such windows always have."""
    assert number is not None
    return number


def _block_source(binding: Binding) -> Any:
    """Return the module whose block loops suit such states."""
    return blocks_paired if binding.narrow else blocks


def _block_kernels(binding: Binding) -> tuple[Any, Any]:
    source = _block_source(binding)
    return source.turn_block, source.merge_block


def _side_by_side(ahead: Callable[[Array], None], behind: Callable[[Array], None]) -> None:
    """Run two kernels that wait for each other's counters, the first on its own thread."""
    counters = np.zeros(boundary_arrays.COUNTERS, np.int64)

    def stopping(kernel: Callable[[Array], None]) -> None:
        try:
            kernel(counters)
        except BaseException:
            counters[boundary_arrays.STOPPED] = 1  # the other must not wait forever
            raise

    with ThreadPoolExecutor(1) as pool:
        aside = pool.submit(copy_context().run, stopping, ahead)
        try:
            stopping(behind)
        finally:
            aside.result()


def _in_pieces(piece: Callable[[int, int], object], start: int, stop: int, unit: int, threads: int) -> None:
    """Run [start, stop) in `threads` pieces, each a multiple of `unit` long."""
    in_threads([partial(piece, *part) for part in shares(start, stop, threads, unit)], threads)


def _asks_for_nan(aggregation: Aggregation) -> bool:
    return any(each.asks_for_nan for each in aggregation.factory.definitions.values())


_NO_TIMES = np.zeros(1, np.int64)
_MOST_KNOWN = 1024
_known_bindings: dict[Hashable, list[Binding]] = {}
