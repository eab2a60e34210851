"""Which strategy answers which windows of a query."""

from __future__ import annotations

from dataclasses import dataclass, replace

from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.query.plan import Plan
from muntin.streams.changing.changelog import Changelog
from muntin.streams.mergers import merger_names
from muntin.streams.rows.in_states import RowStates
from muntin.streams.rows.rows import Rows
from muntin.streams.rows.tiles import Tiles
from muntin.streams.slices.slices import Slices
from muntin.streams.strategy import Strategy
from muntin.windows.base import Window

STRATEGIES: dict[str, type[Strategy]] = {
    "slices": Slices,
    "tiles": Tiles,
    "rows": Rows,
    "states": RowStates,
    "changelog": Changelog,
}
"""The strategies that can be forced, by name. `register` adds to it."""
CHOSEN_FROM = ("slices", "tiles", "rows", "changelog")
"""The candidates when nothing is forced, best first. The last one answers whatever the others do not."""


_BUILT_IN = tuple(STRATEGIES)


def register(name: str, strategy: type[Strategy]) -> None:
    """Make a strategy available as `strategy=name`, for streams, `explain` and snapshots of this process.

    It is used only when forced. It replaces an earlier one registered under the same name; a built-in one cannot be
    replaced.
    """
    if name in ("auto", *_BUILT_IN):
        raise InvalidArgumentError(f"the name {name!r} is taken; register {strategy.__name__} by another one")
    STRATEGIES[name] = strategy


@dataclass(frozen=True)
class Forced:
    """What the user forced, instead of leaving it to the planner."""

    strategy: str = "auto"
    merge: str = "auto"

    def __post_init__(self) -> None:
        """Reject unknown names."""
        for name, known in (("strategy", STRATEGIES), ("merge", merger_names())):
            value = getattr(self, name)
            if not isinstance(value, str) or (value != "auto" and value not in known):
                raise InvalidArgumentError(f"there is no {name} {value!r}; there are auto, {', '.join(known)}")


def strategies_for(plan: Plan, forced: Forced) -> list[Strategy]:
    """Return strategies that together answer all windows of a plan.

    A forced one answers all windows that it can; the others are assigned as usual.
    """
    groups: dict[str, dict[int, Window]] = {}
    for i, each in plan.windows.items():
        groups.setdefault(chosen_for(replace(plan, windows={i: each}), forced.strategy), {})[i] = each
    if plan.windows and forced.strategy not in ("auto", *groups):
        raise UnsupportedOperationError(
            f"the strategy {forced.strategy!r} can answer none of these windows: {why_not(forced.strategy, plan)}"
        )
    plan = replace(plan, merge=forced.merge)
    return [STRATEGIES[name](replace(plan, windows=windows)) for name, windows in groups.items()]


def chosen_for(plan: Plan, forced: str = "auto") -> str:
    """Return the name of the strategy for a single window: the forced one, if it can answer it."""
    names = CHOSEN_FROM if forced == "auto" else (forced, *CHOSEN_FROM)
    chosen = next((name for name in names if why_not(name, plan) is None), None)
    if chosen is None:
        (window,) = plan.windows.values()
        raise window.no_kind()
    return chosen


def why_not(name: str, plan: Plan) -> str | None:
    """Return why a strategy cannot answer a plan, or None if it can."""
    strategy = STRATEGIES[name]
    if plan.changes and not strategy.takes_back:
        return "rows may be taken back, and it takes none back"
    return strategy.can(plan)


def name_of(strategy: Strategy) -> str:
    """Return the name of a strategy, as `strategy=` takes it."""
    return next(name for name, each in STRATEGIES.items() if type(strategy) is each)
