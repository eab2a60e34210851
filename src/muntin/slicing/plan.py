"""Which strategy answers which windows of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from muntin.errors import InvalidArgumentError
from muntin.slicing.counted import Counted
from muntin.slicing.question import Question
from muntin.slicing.slices import Slices
from muntin.slicing.strategy import Plan, Strategy
from muntin.slicing.tuples import Tuples
from muntin.windows.base import Rows, Window
from muntin.windows.counts import SlidingRows

STRATEGIES: dict[str, Callable[[Plan], Strategy]] = {
    "tuples": Tuples,
    "slices": Slices,
    "slices, tree": partial(Slices, tree=True),
    "counted": Counted,
}
"""What can be forced, by name."""
SINGLE = SlidingRows(Rows(1), Rows(1))
"""Windows of one row each, which judge late rows otherwise than longer ones: these number them apart."""


def require_strategy(name: str) -> None:
    """Refuse a name that is none of the strategies.

    >>> require_strategy("tuples")
    """
    if name not in ("auto", *STRATEGIES):
        raise InvalidArgumentError(f"there is no strategy {name!r}; there are auto, {', '.join(STRATEGIES)}")


def strategies_for(question: Question, plan: Plan, forced: str = "auto") -> list[Strategy]:  # noqa: ARG001
    """Return strategies that together answer all windows of the plan: by the facts of the question, or as forced."""
    require_strategy(forced)
    groups: dict[tuple[str, bool], dict[int, Window]] = {}
    for i, each in plan.windows.items():
        groups.setdefault(_chosen(replace(plan, windows={i: each}), forced), {})[i] = each
    return [STRATEGIES[name](replace(plan, windows=windows)) for (name, _), windows in groups.items()]


def _chosen(plan: Plan, forced: str) -> tuple[str, bool]:
    """Return the strategy for a plan of one window, and whether it is apart from others of this strategy."""
    (window,) = plan.windows.values()
    if forced != "tuples" and not Counted.can(plan):
        return "counted", window == SINGLE
    if forced == "tuples" or Slices.can(plan):
        return "tuples", False
    return (forced if forced.startswith("slices") else "slices"), False
