"""What slices must support, and why: three decision trees, each a table of its leaves, read from the top.

What must be kept of the rows besides the states of slices? Must slices be split? Must rows be removed from slices? The
answers depend on the windows, the aggregations and the order of the rows, never on the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from muntin.aggregations.aggregation import Aggregation
from muntin.query.plan import Plan
from muntin.windows.base import Context, Measure, Window


@dataclass(frozen=True)
class Facts:
    """What the decisions depend on."""

    ordered: bool
    """Whether rows are promised to arrive in time order."""
    context: Context
    """The largest context that any window needs."""
    splits: bool
    """Whether a row may add an edge between rows already taken. Sessions never do."""
    counts: bool
    """Whether any window is measured in rows."""
    commutative: bool
    invertible: bool
    selective: bool
    """Whether each aggregation always returns one of its arguments, as max does."""
    holistic: bool
    """Whether any aggregation has no fixed-size state."""

    @classmethod
    def of(cls, windows: Iterable[Window], aggregations: Iterable[Aggregation], *, ordered: bool = False) -> Facts:
        """Return the facts of windows and aggregations that share slices.

        >>> from muntin import agg, window
        >>> Facts.of([window.session(5)], [agg.collect("v")]).commutative
        False
        """
        windows, aggregations = list(windows), list(aggregations)
        order = list(Context)
        context = max((each.context for each in windows), key=order.index, default=Context.FREE)
        return cls(
            ordered=ordered,
            context=context,
            splits=any(each.splits and each.context is not Context.FREE for each in windows),
            counts=any(each.measure is Measure.ROWS for each in windows),
            commutative=all(each.commutative for each in aggregations),
            invertible=all(each.invertible for each in aggregations),
            selective=all(each.selective for each in aggregations),
            holistic=any(each.kind == "holistic" for each in aggregations),
        )

    @classmethod
    def of_plan(cls, plan: Plan) -> Facts:
        """Return the facts of a plan's windows and aggregations."""
        return cls.of(plan.windows.values(), plan.aggregates.values(), ordered=plan.ordered)


@dataclass(frozen=True)
class Leaf:
    """An answer, the name of the rule that gives it, and why."""

    answer: str
    rule: str
    why: str
    applies: Callable[[Facts], bool]


ROWS, VALUES, NOTHING = "rows", "values", "nothing"
KEPT = (
    Leaf(
        ROWS,
        "in order, forward context aware",
        "a later row may tell of an edge anywhere before it, so that any stretch of rows may have to be folded",
        lambda f: f.ordered and f.context is Context.FORWARD_AWARE,
    ),
    Leaf(
        VALUES,
        "in order, holistic and commutative",
        "no state of a fixed size stands for a slice: its values are kept, without their order",
        lambda f: f.ordered and f.holistic and f.commutative,
    ),
    Leaf(
        NOTHING,
        "in order",
        "all edges up to a row are known when it comes, and it is combined once and in order",
        lambda f: f.ordered,
    ),
    Leaf(
        ROWS,
        "out of order, not commutative",
        "a row before the last one of its slice has its place in the midst: the slice is folded again",
        lambda f: not f.commutative,
    ),
    Leaf(
        ROWS,
        "out of order, context aware but no session",
        "a late row may bring an edge into a slice, which is then split",
        lambda f: f.splits,
    ),
    Leaf(
        ROWS,
        "out of order, by rows",
        "a late row moves the last row of every later slice on into the next",
        lambda f: f.counts,
    ),
    Leaf(
        VALUES,
        "out of order, holistic and commutative",
        "no state of a fixed size stands for a slice: its values are kept, without their order",
        lambda f: f.holistic,
    ),
    Leaf(
        NOTHING,
        "out of order, commutative",
        "a late row is combined with the state of its slice, whose edges do not depend on it",
        lambda _: True,
    ),
)
"""What is kept of the rows besides states."""

SPLIT, WHOLE = "split", "whole"
SPLITS = (
    Leaf(
        SPLIT,
        "in order, forward context aware",
        "a row tells of an edge before it, where a slice has rows already",
        lambda f: f.ordered and f.context is Context.FORWARD_AWARE,
    ),
    Leaf(WHOLE, "in order", "an edge is known before any row behind it comes", lambda f: f.ordered),
    Leaf(
        WHOLE,
        "context free",
        "the edges follow from the parameters, and no row changes them",
        lambda f: f.context is Context.FREE,
    ),
    Leaf(
        WHOLE,
        "out of order, sessions",
        "a row only brings sessions together: slices become one, and never two",
        lambda f: not f.splits,
    ),
    Leaf(
        SPLIT,
        "out of order, context aware but no session",
        "a late row may bring an edge to where a slice has rows already",
        lambda _: True,
    ),
)
"""Whether slices are ever split."""

NEVER, INVERT, SKIP, RECOMPUTE = "never", "invert", "skip", "recompute"
REMOVALS = (
    Leaf(NEVER, "in order", "no row comes between others, so that none has to leave its slice", lambda f: f.ordered),
    Leaf(NEVER, "not by rows", "a late row does not change which slices the others are in", lambda f: not f.counts),
    Leaf(
        INVERT,
        "by rows, invertible",
        "the row that moves on is taken out of the state of its slice",
        lambda f: f.invertible,
    ),
    Leaf(
        SKIP,
        "by rows, selective",
        "most rows are not the one that the state stands for: nothing changes when they leave; else it is folded again",
        lambda f: f.selective,
    ),
    Leaf(
        RECOMPUTE,
        "by rows, not invertible",
        "nothing takes a row out of a state: the slice is folded again",
        lambda _: True,
    ),
)
"""How a row leaves a slice."""


ANY_ROW = Leaf(
    ROWS,
    "rows that change",
    "a deletion may take back any row, and only the rows tell what is left without it",
    lambda _: False,
)
"""Why rows are kept where deletions come and nothing takes a row out of a state."""
TAKEN_OUT = Leaf(
    INVERT,
    "rows that change, invertible",
    "a row that is taken back is taken out of the state of its slice, exactly; a deletion is trusted to have come",
    lambda _: False,
)
FOUND_AGAIN = Leaf(
    RECOMPUTE,
    "rows that change",
    "windows are found again among the rows that are left",
    lambda _: False,
)
"""How a row leaves where deletions come."""


@dataclass(frozen=True)
class Decisions:
    """The leaf reached in each tree."""

    kept: Leaf
    split: Leaf
    removal: Leaf

    def __str__(self) -> str:
        """Say it in words.

        >>> from muntin import agg, window
        >>> print(decide(Facts.of([window.tumbling(10)], [agg.sum("v")])))
        kept besides states: nothing (out of order, commutative: a late row is combined with the state of its slice, \
whose edges do not depend on it)
        slices are split: never (context free: the edges follow from the parameters, and no row changes them)
        rows leave a slice: never (not by rows: a late row does not change which slices the others are in)
        """
        split = "where an edge comes" if self.split.answer == SPLIT else "never"
        how = {
            NEVER: "never",
            INVERT: "by invert",
            SKIP: "by folding again, if they count",
            RECOMPUTE: "by folding again",
        }
        lines = (
            ("kept besides states", self.kept.answer, self.kept),
            ("slices are split", split, self.split),
            ("rows leave a slice", how[self.removal.answer], self.removal),
        )
        return "\n".join(f"{what}: {answer} ({leaf.rule}: {leaf.why})" for what, answer, leaf in lines)


def decide(facts: Facts) -> Decisions:
    """Return what slices must support.

    >>> from muntin import agg, window
    >>> decide(Facts.of([window.session(5)], [agg.collect("v")])).kept.rule
    'out of order, not commutative'
    >>> decide(Facts.of([window.session(5)], [agg.collect("v")], ordered=True)).kept.answer
    'nothing'
    """
    return Decisions(*(next(leaf for leaf in tree if leaf.applies(facts)) for tree in (KEPT, SPLITS, REMOVALS)))
