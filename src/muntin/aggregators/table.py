"""The table of all aggregators: what each can do, what it costs, and when it is taken.

`slide`, the merging of slices, `choose` and the tables of docs/choosing.md read it. An aggregator is its own file and
its line here. `register` adds one from outside the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from muntin.aggregations.binding import Binding
from muntin.aggregators import recalculate, subtract_on_evict, two_stacks
from muntin.aggregators.base import Aggregator
from muntin.aggregators.base_intervals import BaseIntervals
from muntin.aggregators.boundary import Boundary
from muntin.aggregators.daba import Daba
from muntin.aggregators.fiba import Fiba
from muntin.aggregators.flat_fat import FlatFat
from muntin.aggregators.flat_fit import FlatFit
from muntin.aggregators.log_monoid_tree import LogMonoidTree
from muntin.aggregators.monoid_tree import MonoidTree
from muntin.aggregators.recalculate import Recalculate
from muntin.aggregators.slick_deque import SlickDeque
from muntin.aggregators.subtract_on_evict import SubtractOnEvict
from muntin.aggregators.two_stacks import TwoStacks
from muntin.errors import InvalidArgumentError


@dataclass(frozen=True)
class Facts:
    """What the choice depends on."""

    binding: Binding
    longest: int
    """The rows of the longest window."""
    overlap: float
    """In how many windows a row may fall."""
    step: float
    """The rows from one window to the next, on average."""
    rankable: bool = True
    """Whether the values are numbers that can be sorted as they are."""
    summable: bool = False
    """Whether the windows are of one length, one for each row, and enough for `prefix_sums`."""


@dataclass(frozen=True)
class Rule:
    """When `choose` takes an aggregator, and why."""

    applies: Callable[[Facts], bool]
    when: str
    why: str


@dataclass(frozen=True)
class Loop:
    """A kernel `slide_windows` over whole arrays, which needs no ring: the rows are where they are."""

    kernel: Any
    slots: bool = False
    """Whether it needs a slot for each window."""
    exact: bool = False
    """Whether it is only for states without floats."""


@dataclass(frozen=True)
class Entry:
    """A line of the table. Costs are in combines, for a window of n rows that slides: amortised; worst of one call."""

    name: str
    """The name that `aggregator=` and `merge=` take."""
    kind: type[Aggregator] | None
    """None for one that runs over arrays only, and has no window that is driven by `insert` and `evict`."""
    insert: str = ""
    evict: str = ""
    query: str = ""
    takes: str = "any"
    """Which aggregations it takes; `kind.require_suited` refuses the others."""
    order: Literal["in order", "any"] = "in order"
    """The order of the times that it takes."""
    ranges: str = ""
    """Which `range_query` it answers."""
    middle: str = "no"
    """How rows are evicted from the middle."""
    memory: str = ""
    """In states."""
    own_loops: bool = False
    """Whether `slide` runs it by loops over whole arrays; else the rows go through `push`, `pop` and `total`."""
    loop: Loop | None = None
    """The loop that takes windows of any bounds, where there is one."""
    merges: Literal[
        "built for each emission",
        "kept per key for one sliding definition; else built for each emission",
        "kept while rows come",
        "no",
    ] = "built for each emission"
    """How a stream merges slices with it."""
    rules: tuple[Rule, ...] = ()
    """When `choose` takes it: the first rule of the table that applies decides."""


TABLE: dict[str, Entry] = {
    each.name: each
    for each in (
        Entry(
            "order_statistics",
            None,
            takes="exact quantiles of numbers",
            memory="n, sorted",
            own_loops=True,
            merges="no",
            rules=(
                Rule(
                    lambda f: f.rankable and all(part.sorted for part in f.binding.parts),
                    "quantiles of numbers",
                    "the window is kept sorted, O(log n) a row",
                ),
            ),
        ),
        Entry(
            "distinct_counts",
            None,
            takes="counts of distinct values",
            memory="the distinct values",
            own_loops=True,
            merges="no",
            rules=(
                Rule(
                    lambda f: all(part.distinct for part in f.binding.parts),
                    "counts of distinct values",
                    "a row counts from where its value came before, O(log n) a row",
                ),
            ),
        ),
        Entry(
            "recalculate",
            Recalculate,
            insert="0",
            evict="0",
            query="n - 1",
            ranges="any, one combine a row",
            memory="n",
            own_loops=True,
            loop=Loop(recalculate.slide_windows),
            rules=(
                Rule(lambda f: f.overlap <= 1.0, "no row falls into two windows", "each row is combined once"),
                Rule(lambda f: f.longest <= 2, "windows of one or two rows", "a window is one combine"),
            ),
        ),
        Entry(
            "subtract_on_evict",
            SubtractOnEvict,
            insert="1",
            evict="1 invert; n - 1 combines where digits were lost",
            query="0",
            takes="needs `invert`",
            ranges="any, one combine a row",
            memory="n + 1",
            own_loops=True,
            loop=Loop(subtract_on_evict.slide_windows, exact=True),
            rules=(
                Rule(
                    lambda f: f.binding.invertible and f.binding.exact,
                    "states without floats that can be inverted",
                    "a row comes in by one combine and leaves by one invert, exactly",
                ),
            ),
        ),
        Entry(
            "prefix_sums",
            None,
            takes="aggregations with `terms`, over rows, slide 1,",
            memory="two numbers a term, for two windows",
            own_loops=True,
            merges="no",
            rules=(
                Rule(
                    lambda f: f.summable and f.binding.summed,
                    "means and moments of many rows, slide 1",
                    "a window is a difference of sums; where digits would be lost, by two_stacks",
                ),
            ),
        ),
        Entry(
            "boundary",
            Boundary,
            insert="2; n / 2 + 1",
            evict="0",
            query="2",
            ranges="to the end; inside the current chunk",
            memory="n + 1, and room for 128 chunks",
            own_loops=True,
            rules=(
                Rule(
                    lambda f: f.step >= 8.0,
                    "eight rows a slide, or more",
                    "a row is combined once, into a slice; a window is three combines of slices",
                ),
            ),
        ),
        Entry(
            "two_stacks",
            TwoStacks,
            insert="1",
            evict="1; n - 1",
            query="1",
            ranges="to the end; inside the back",
            memory="n + 1",
            own_loops=True,
            loop=Loop(two_stacks.slide_windows, slots=True),
            merges="kept per key for one sliding definition; else built for each emission",
            rules=(Rule(lambda _: True, "everything else", "at most three combines a row"),),
        ),
        Entry(
            "daba",
            Daba,
            insert="2; 3",
            evict="1; 2",
            query="1",
            ranges="to the end; inside the back",
            memory="n + 2",
        ),
        Entry(
            "flat_fit",
            FlatFit,
            insert="0",
            evict="0",
            query="3; n - 1",
            ranges="to the end",
            memory="n, and two integers a row",
        ),
        Entry(
            "slick_deque",
            SlickDeque,
            insert="fewer than 2; n",
            evict="0",
            query="0",
            takes="one selective one; others need `invert`, and cost what `SubtractOnEvict` does",
            ranges="to the end",
            memory="room for n, and one integer a row",
        ),
        Entry(
            "flat_fat",
            FlatFat,
            insert="0",
            evict="0",
            query="m (1 + ⌈log2(n / m)⌉) for m changes, and 2 log2(n) + 1; n - 1 after a rebuild",
            ranges="any, 2 log2(n)",
            middle="`evict_at`",
            memory="2n",
            merges="kept while rows come",
        ),
        Entry(
            "base_intervals",
            BaseIntervals,
            insert="fewer than 1; log2(n)",
            evict="0",
            query="2 log2(n)",
            ranges="any, 2 log2(n)",
            memory="2n",
        ),
        Entry(
            "monoid_tree",
            MonoidTree,
            insert="O(1); O(log n)",
            evict="O(1); O(log n)",
            query="1",
            ranges="any, O(log n)",
            memory="2n; O(log n) with a `store`",
        ),
        Entry(
            "log_monoid_tree",
            LogMonoidTree,
            insert="O(log n)",
            evict="O(log n)",
            query="1",
            ranges="any, O(log n)",
            memory="4n",
        ),
        Entry(
            "fiba",
            Fiba,
            insert="O(log d) for d times after it; O(log n)",
            evict="O(1); O(log n)",
            query="2",
            order="any",
            ranges="any, O(log n)",
            middle="`evict_at`",
            memory="n, and a state a node",
        ),
    )
}
"""All aggregators by name, in the order in which their rules are tried."""
BUILT_IN = frozenset(TABLE)


def register(entry: Entry) -> None:
    """Make an aggregator available by name to `slide(aggregator=...)` and to `merge=` of a stream, in this process.

    It is taken when it is asked for, and never chosen: its rules come after the last one of the table, which always
    applies. One that was registered by the same name before is replaced; a built-in one cannot be.

    >>> from muntin import aggregators
    >>> class Slow(aggregators.Recalculate):
    ...     "The same by another name."
    >>> aggregators.register(aggregators.Entry("slow", Slow, insert="0", evict="0", query="n - 1", memory="n"))
    >>> import numpy as np
    >>> from muntin import agg, slide
    >>> slide(np.array([1, 2, 3]), agg.sum("v"), range=2, aggregator="slow").tolist()
    [1, 3, 5]
    """
    if not isinstance(entry, Entry):
        raise InvalidArgumentError(f"an aggregator is registered by an aggregators.Entry; got {entry!r}")
    if entry.name in ("auto", "lazy", *BUILT_IN):
        raise InvalidArgumentError(f"the name {entry.name!r} is taken; register the aggregator by another one")
    TABLE[entry.name] = entry
