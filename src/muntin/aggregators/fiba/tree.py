"""The aggregator: the kernels of the tree behind the interface of all aggregators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.base import Aggregator, kernels_of
from muntin.aggregators.fiba import check, pictures
from muntin.aggregators.fiba.arity import ARITIES
from muntin.aggregators.fiba.bulk_evict import EVICT_KERNELS
from muntin.aggregators.fiba.bulk_insert import INSERT_KERNELS
from muntin.aggregators.fiba.folds import FOLD_KERNELS
from muntin.aggregators.fiba.journal import Note, noted, undo
from muntin.aggregators.fiba.nodes import (
    COUNT,
    FREE_ROWS,
    FREE_STACK,
    HEIGHT,
    LATEST,
    LEFT,
    NODE_KERNELS,
    NODES,
    PATH,
    RIGHT,
    ROOT,
    ROW,
    ROWS,
    Arena,
)
from muntin.aggregators.fiba.queries import QUERY_KERNELS
from muntin.aggregators.fiba.single import SINGLE_KERNELS
from muntin.aggregators.ring import checked_capacity
from muntin.aggregators.states import States
from muntin.columns import read_only
from muntin.errors import InvalidArgumentError
from muntin.kernels.tiers import working_on
from muntin.memory import extended, zeros_to_extend
from muntin.turns import changing
from muntin.types import INT64, Array

_FEW = 4
"""Bulks of up to this many rows out of order are inserted singly: a list of events would cost more."""
_CHUNK = 1024
"""The rows out of order inserted at once, which bounds the room for events and new nodes. Four times as many would take
7 bytes per row more in a window of a million, and the same time."""
_RUN = 1 << 16
"""The rows in order appended before room is made for more."""
_GROWTH = 1.125
"""The growth factor of arrays. With 1.25 rows in random order take as long."""
_NOTHING = np.zeros(0)
_NONE_CAN_FAIL = contextlib.nullcontext()


class Fiba(Aggregator):
    """Any order, in bulk; any associative aggregation; the finger B-tree of Tangwongsan, Hirzel and Schneider.

    With n times in the window, m in a bulk, and d of the window's times after (or, if fewer, before) an insertion:

    - `query` takes at most two combines,
    - `insert` O(log d) amortised, one combine mostly where it is in order, and O(log n) at worst,
    - `evict` O(1) amortised, `bulk_evict` O(log m) amortised; both O(log n) at worst, whatever m is,
    - `bulk_insert` O(log d + m (1 + log(d / m))) amortised,
    - `range_query`, each of many `range_queries`, `evict_at`, `rank` and `nth` O(log n).

    Rows of equal time become one entry, combined in the order of arrival. So `len` counts distinct times, and `evict`
    removes all rows of the oldest one. `min_arity` is 2, 4, 8 or 16: a node has `min_arity` to twice as many children.
    More means less memory and a flatter tree; fewer means less to recompute in a changed node.

    With `capacity=` there is room for as many rows from the start; it is no limit. Without it large arrays grow in
    place, on Linux, so that no call copies the tree. Elsewhere they are copied when they are full, an eighth longer;
    and so are states that are Python objects.

    If a combine of Python objects raises an error, the window stays as it was.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.Fiba(agg.concat("v"))
    >>> for time, value in [(1, "a"), (4, "d"), (2, "b"), (3, "c"), (2, "B")]:
    ...     window.insert(time, value)
    >>> window.query(), len(window)
    ('abBcd', 4)
    >>> window.bulk_evict(1)
    >>> window.bulk_insert([9, 0, 5], ["z", "-", "e"])
    >>> window.query(), window.range_query(3, 5)
    ('-bBcdez', 'cde')
    """

    structure: ClassVar[tuple[Any, ...]] = (
        *NODE_KERNELS,
        *FOLD_KERNELS,
        *SINGLE_KERNELS,
        *EVICT_KERNELS,
        *INSERT_KERNELS,
        *QUERY_KERNELS,
    )
    entries: ClassVar[tuple[str, ...]] = (
        "count_late",
        "most_new_nodes",
        "append_rows",
        "insert_sorted",
        "evict_until",
        "erase",
        "answer_range",
        "answer_ranges",
        "answer_entry",
        "entry_at",
        "count_before",
        "time_of_rank",
        "copy_tree",
    )

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        min_arity: int = 4,
        *,
        capacity: int | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(min_arity, int | np.integer) or min_arity not in ARITIES:
            raise InvalidArgumentError(f"min_arity is one of {', '.join(map(str, ARITIES))}; got {min_arity!r}")
        self._arity = int(min_arity)
        self._least_room = checked_capacity(capacity)
        super().__init__(aggregation, **options)

    # ------------------------------------------------------------ public methods

    def evict(self) -> None:
        """Remove the oldest time and all its rows; `IndexError` if there is none. O(1) amortised."""
        if not self._has_rows:
            raise IndexError("evict from an empty window")
        self._remove("evict_rows", 1)

    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t, without reading them. O(log m) amortised, O(log n) at worst."""
        if type(t) is int and self._time_type is INT64 and -LATEST - 1 <= t <= LATEST:
            self._remove("evict_until", t)  # the kernel sees whether there are rows
        elif self._has_rows:
            self._remove("evict_until", self._time(t))

    def evict_at(self, t: Any) -> None:
        """Remove one time, anywhere, and all its rows; `KeyError` if it is not in the window. O(log n).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Fiba(agg.concat("v"))
        >>> window.bulk_insert([1, 2, 3], "abc")
        >>> window.evict_at(2)
        >>> window.query()
        'ac'
        """
        time = self._time(t)
        if not len(self) or self._module.entry_at(self._window, time) < 0:
            raise KeyError(f"the time {t!r} is not in the window")
        self._remove("erase", time)

    def range_query(self, lo: Any, hi: Any) -> Any:
        """Return the aggregate of the rows with lo <= time <= hi, anywhere in the window. O(log n)."""
        outputs = self._binding.outputs(1)
        found = False
        if len(self):
            low, high = self._time(lo), self._time(hi)
            found = self._lower(self._module.answer_range, self._window, low, high, outputs, 0)
        return self._answer(outputs, empty=not found)

    def range_queries(self, los: Any, his: Any) -> Any:
        """Return what `range_query` returns for each pair of bounds, as a list, or as a dict of lists. O(log n) each.

        One call for many ranges, such as those of a chart, takes a fraction of the time of as many calls.

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Fiba(agg.sum("v"))
        >>> window.bulk_insert([3, 1, 4, 2], [30, 10, 40, 20])
        >>> window.range_queries([1, 2, 9], [2, 4, 9])
        [30, 90, None]
        """
        lows, highs = self._read_bounds(los, his)
        outputs = self._binding.outputs(len(lows))
        found = np.zeros(len(lows), np.bool_)
        if len(self):
            with working_on(len(lows)):
                self._lower(self._module.answer_ranges, self._window, lows, highs, outputs, found)
        return self._answers(outputs, found)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield each time, in order, and the aggregate of its rows. The window must not change meanwhile. O(n).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Fiba(agg.concat("v"))
        >>> window.bulk_insert([2, 1, 2], "abc")
        >>> list(window.items())
        [(1, 'b'), (2, 'ac')]
        """
        for column in check.columns_in_order(self._window, self._arity):
            outputs = self._binding.outputs(1)
            self._lower(self._module.answer_entry, self._window, column, outputs)
            yield self._logical_time(self._window.times[column]), self._answer(outputs, empty=False)

    def rank(self, t: Any) -> int:
        """Return how many times of the window are before t. O(log n).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Fiba(agg.concat("v"))
        >>> window.bulk_insert([10, 20, 30], "abc")
        >>> window.rank(20), window.rank(21)
        (1, 2)
        """
        return int(self._module.count_before(self._window, self._time(t))) if len(self) else 0

    def nth(self, rank: int) -> Any:
        """Return the time that has `rank` times before it; negative ranks count from the newest. O(log n).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Fiba(agg.concat("v"))
        >>> window.bulk_insert([10, 20, 30], "abc")
        >>> window.nth(0), window.nth(-1)
        (10, 30)
        """
        at = rank + len(self) if rank < 0 else rank
        if not 0 <= at < len(self):
            raise IndexError(f"the window has {len(self)} times, and none of rank {rank}")
        return self._logical_time(self._module.time_of_rank(self._window, at))

    def __len__(self) -> int:
        """Return the number of distinct times: rows of equal time are one entry. O(1)."""
        times, links, marks = self._window.times, self._window.links, self._window.marks
        root = marks.item(ROOT)
        if links.item(4 * root + ROW) < 0:
            return int(links.item(4 * root + COUNT))
        columns = 2 * self._arity
        return sum(times.item(node * columns + columns - 1) for node in (marks.item(LEFT), root, marks.item(RIGHT)))

    @property
    def oldest(self) -> Any:
        """The least time in the window, None if it is empty. O(1)."""
        if not len(self):
            return None
        return self._logical_time(self._window.times[int(self._window.marks[LEFT]) * 2 * self._arity])

    @property
    def youngest(self) -> Any:
        """The greatest time in the window, None if it is empty. O(1)."""
        return self._logical_time(self._last_time()) if len(self) else None

    @property
    def min_arity(self) -> int:
        """The least number of children of a node, except the root."""
        return self._arity

    def draw(self, form: str = "text") -> str:
        """Return a picture of the tree, as "text" or "svg": each node's times, kind of aggregate, and aggregate. O(n).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Fiba(agg.concat("v"), min_arity=2)
        >>> window.bulk_insert([1, 2, 3, 4, 5, 6], "abcdef")
        >>> print(window.draw())
              ┌─────┐
              │  3  │
              │ ↕ c │
              └─────┘
            ┌────┴────┐
        ┌──────┐ ┌─────────┐
        │ 1  2 │ │ 4  5  6 │
        │ ↙ ab │ │  ↘ def  │
        └──────┘ └─────────┘
        """
        if form not in ("text", "svg"):
            raise InvalidArgumentError(f'a picture is "text" or "svg"; got {form!r}')
        if not len(self):
            return "an empty tree"
        return pictures.as_text(self._picture()) if form == "text" else pictures.as_svg(self._picture())

    @classmethod
    def over(cls, binding: Binding, rows: int) -> tuple[Any, Arena]:
        """Return the kernels of this structure and an empty window with room for `rows` rows in order."""
        window = cls.__new__(cls)
        window._binding, window._arity = binding, 4
        nodes = rows // (window._arity - 1) + 64
        return kernels_of(binding, *window._form()), window._arena(nodes, nodes)

    # ------------------------------------------------------------ the arena

    def _form(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        return (ARITIES[self._arity], *self.structure), self.entries

    def _options(self) -> dict[str, Any]:
        return {"min_arity": self._arity, **({"capacity": self._least_room} if self._least_room else {})}

    def _allocate(self) -> None:
        if not self._least_room:
            self._window = self._arena(4, 1)
            return
        nodes = self._least_room // (self._arity - 1) + 2 * _CHUNK  # a chunk needs at most so many, and mostly few
        self._window = self._arena(nodes, nodes // self._arity + 2 * _CHUNK)

    def _arena(self, nodes: int, rows: int) -> Arena:
        """Return an arena with room for some nodes and rows of children; the root is node 1, an empty leaf."""
        columns = 2 * self._arity
        marks = np.zeros(FREE_STACK + nodes, np.int64)
        marks[FREE_ROWS] = -1
        marks[[ROOT, LEFT, RIGHT, HEIGHT]] = 1
        marks[NODES] = 2
        links = np.zeros(4 * nodes, np.int32)
        links[:8] = -1, -1, 0, 0, -1, -1, 0, 3
        slots, folds = (zeros_to_extend(n, self._binding.dtype) for n in (nodes * columns, rows * (columns + 1)))
        times = zeros_to_extend(nodes * columns, np.dtype(np.int64))
        kids = zeros_to_extend(rows * (columns + 1), np.dtype(np.int32))
        return Arena(slots, times, links, kids, folds, marks)

    def _reserve(self, nodes: int, rows: int) -> None:
        """Make room for more nodes and rows of children, one array at a time, to need less memory."""
        columns = 2 * self._arity  # nothing here holds an array that is extended
        needed, held = self._window.marks.item(NODES) + nodes, len(self._window.links) // 4
        if needed > held:
            room = max(needed, int(held * _GROWTH))
            self._extend("slots", room * columns)
            self._extend("times", room * columns)
            self._extend("links", room * 4)
            self._extend("marks", FREE_STACK + room)
        needed, held = self._window.marks.item(ROWS) + rows, len(self._window.kids) // (columns + 1)
        if needed > held:
            room = max(needed, int(held * _GROWTH)) * (columns + 1)
            self._extend("kids", room)
            self._extend("folds", room)

    def _extend(self, field: str, length: int) -> None:
        """Make an array of the arena longer: where it is, if it is large and the system can (see memory)."""
        held = [getattr(self._window, field)]
        self._window = self._window._replace(**{field: _NOTHING})  # else its pages could not be moved
        try:
            held.append(extended(held, length))
        finally:
            self._window = self._window._replace(**{field: held[0]})

    # ------------------------------------------------------------ insertion

    def _accept(self, times: Array) -> None:
        """Take any times."""

    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        if count == 1:
            self._reserve(self._levels, self._levels)
            with self._undone_on_error() as notes:
                self._change(notes, "append_rows", columns, times, 0, 1)
            return
        late = self._run("count_late", self._window, times)
        if late < 0:
            order = np.argsort(times, kind="stable")
            times = read_only(times[order])
            columns = tuple(read_only(column[order]) for column in columns)
            late = self._run("count_late", self._window, times)
        with self._undone_on_error() as notes:
            self._insert_many(columns, times, count, late if late > _FEW else 0, notes)

    def _remove(self, name: str, argument: int) -> None:
        """Run a kernel that removes entries."""
        if self._binding.fixed:
            self._run_changing(name, self._window, argument)
            return
        with changing(self), self._undone_on_error() as notes:
            self._change(notes, name, argument)

    def _undone_on_error(self) -> contextlib.AbstractContextManager[list[Note] | None]:
        """Return a block whose changes are undone if a combine fails; None as its value where none can."""
        return _NONE_CAN_FAIL if self._binding.fixed else self._noting()

    @contextlib.contextmanager
    def _noting(self) -> Iterator[list[Note]]:
        notes: list[Note] = []
        try:
            yield notes
        except BaseException:
            undo(self._window, notes)
            raise

    def _change(self, notes: list[Note] | None, name: str, *arguments: Any) -> None:
        """Run a kernel that changes the tree, and note what it overwrites, if wanted."""
        self._run(name, self._window if notes is None else noted(self._window, notes), *arguments)

    def _insert_many(
        self, columns: tuple[Array, ...], times: Array, count: int, late: int, notes: list[Note] | None
    ) -> None:
        for at in range(0, late, _CHUNK):
            self._insert_chunk(columns, times, at, min(late, at + _CHUNK), notes)
        for at in range(late, count, _RUN):
            stop = min(count, at + _RUN)
            # Each completed leaf is full except for one entry; an inner node gets at least `arity` of them.
            leaves = (stop - at) // (2 * self._arity - 1) + 1
            inner = leaves // (self._arity - 1) + 2 * _FEW * self._levels
            self._reserve(leaves + inner, inner)
            self._change(notes, "append_rows", columns, times, at, stop)

    def _insert_chunk(
        self, columns: tuple[Array, ...], times: Array, start: int, stop: int, notes: list[Note] | None = None
    ) -> None:
        rows = stop - start
        nodes = int(self._run("most_new_nodes", self._window, rows))
        self._reserve(nodes, nodes)
        spare = 4 * self._arity + 1
        events = np.empty(8 * rows + spare, np.int64)
        room = 2 * rows + spare
        fresh = np.empty(room, self._binding.dtype) if self._binding.fixed else self._binding.slots(room)
        self._change(notes, "insert_sorted", columns, times, start, stop, events, fresh)

    @property
    def _has_rows(self) -> bool:
        links, marks = self._window.links, self._window.marks
        return bool(links.item(4 * marks.item(ROOT) + COUNT))

    @property
    def _levels(self) -> int:
        """The most nodes an insertion may need: one per level, and a new root."""
        return int(self._window.marks.item(HEIGHT)) + 1

    def _last_time(self) -> int:
        times, links, marks = self._window.times, self._window.links, self._window.marks
        leaf = marks.item(RIGHT)
        return int(times.item(leaf * 2 * self._arity + links.item(4 * leaf + COUNT) - 1))

    # ------------------------------------------------------------ snapshots, checks, pictures

    def _arrays(self) -> dict[str, Array]:
        marks = self._window.marks
        copy = self._arena(int(marks[NODES]), int(marks[ROWS]))
        copy.marks[NODES] = 1
        self._module.copy_tree(self._window, copy)
        nodes, rows, columns = int(copy.marks[NODES]), int(copy.marks[ROWS]), 2 * self._arity
        return {
            "slots": copy.slots[: nodes * columns],
            "times": copy.times[: nodes * columns],
            "links": copy.links[: 4 * nodes],
            "kids": copy.kids[: rows * (columns + 1)],
            "marks": copy.marks[:PATH],
        }

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        marks = np.zeros(FREE_STACK + len(arrays["links"]) // 4, np.int64)
        marks[:PATH] = arrays["marks"]
        # Folds are not part of a snapshot: most are copies of aggregates that are.
        folds = arrays["slots"][arrays["kids"].astype(np.int64) * (2 * self._arity) + (2 * self._arity - 1)]
        self._window = Arena(**{**arrays, "folds": folds, "marks": marks})
        self._make_extendable()
        if len(self):
            with np.errstate(all="ignore"):  # as in machine code
                self._binding.uncompiled.kernels(self._form()[0]).refresh_all_spines(self._window)

    def _after_conversion(self) -> None:
        self._make_extendable()

    def _make_extendable(self) -> None:
        """Copy large arrays to pages of their own, when O(n) is due anyway, rather than when the next rows come."""
        for field in Arena._fields:
            self._extend(field, len(getattr(self._window, field)))

    def _check(self, states: States, require: Any) -> None:
        check.TreeCheck(self._window, self._arity, states, require).run(len(self))

    def _picture(self) -> pictures.Node:
        return pictures.picture(self._window, self._arity, self._shown_time, self._shown_state)

    def _shown_time(self, time: int) -> str:
        return str(time) if self._time_type == INT64 else str(self._logical_time(time))

    def _shown_state(self, column: int) -> str:
        outputs = self._binding.outputs(1)
        self._module.answer_entry(self._window, column, outputs)
        return str(self._answer(outputs, empty=False))
