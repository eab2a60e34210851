"""Which strategy answers which windows of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from muntin.errors import InvalidArgumentError
from muntin.slicing.question import Question
from muntin.slicing.slices import Slices
from muntin.slicing.strategy import Plan, Strategy
from muntin.slicing.tuples import Tuples

STRATEGIES: dict[str, Callable[[Plan], Strategy]] = {
    "tuples": Tuples,
    "slices": Slices,
}
"""What can be forced, by name."""


def require_strategy(name: str) -> None:
    """Refuse a name that is none of the strategies.

    >>> require_strategy("tuples")
    """
    if name not in ("auto", *STRATEGIES):
        raise InvalidArgumentError(f"there is no strategy {name!r}; there are auto, {', '.join(STRATEGIES)}")


def strategies_for(question: Question, plan: Plan, forced: str = "auto") -> list[Strategy]:  # noqa: ARG001
    """Return strategies that together answer all windows of the plan: by the facts of the question, or as forced."""
    require_strategy(forced)
    chosen = {i: _chosen(replace(plan, windows={i: each}), forced) for i, each in plan.windows.items()}
    return [
        STRATEGIES[name](replace(plan, windows={i: each for i, each in plan.windows.items() if chosen[i] == name}))
        for name in dict.fromkeys(chosen.values())
    ]


def _chosen(plan: Plan, forced: str) -> str:
    if forced == "tuples" or Slices.can(plan):
        return "tuples"
    return "slices" if forced == "auto" else forced
