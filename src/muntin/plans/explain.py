"""`Query.explain` and `Stream.explain`: looks at what strategies were made for a plan, and says so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregators.choose import Chosen, choose
from muntin.arrays.runner import ArrayRun
from muntin.arrays.spans import Span
from muntin.columns import Column
from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.plans import expected
from muntin.plans.assumed import types_of
from muntin.plans.query_plan import Decision, QueryPlan, StorePlan, WindowPlan
from muntin.query.plan import Plan, resolve
from muntin.query.query import ProcessingTime, Query
from muntin.streams.decisions import (
    ANY_ROW,
    FOUND_AGAIN,
    NOTHING,
    ROWS,
    TAKEN_OUT,
    VALUES,
    Decisions,
    Facts,
    Leaf,
    decide,
)
from muntin.streams.plan import CHOSEN_FROM, Forced, name_of, strategies_for, why_not
from muntin.streams.rows.tiles import Tiles
from muntin.streams.slices.slices import Slices
from muntin.streams.strategy import Strategy
from muntin.types import ColumnType
from muntin.windows.base import Window
from muntin.windows.shapes import Gap

_MANY = 1000
"""A number of rows where windows have as many as come."""
_STEPS = {1: "where a slide brings fewer than eight rows", 100: "where it brings eight or more"}
"""Rows from one window to the next, where they may be few or many."""


@dataclass(frozen=True)
class Subject:
    """What is explained: a query, its types, and the strategies that answer it."""

    query: Query
    windows: Mapping[int, Window]
    """The windows as they were written."""
    plan: Plan
    strategies: Sequence[Strategy]
    forced: Forced
    assumed: Mapping[str, str]

    def explained(self, keys: int, rows_per_second: float | None = None) -> QueryPlan:
        """Return the plan, with the state of `keys` keys at `rows_per_second` rows each."""
        query, plan = self.query, self.plan
        stores = tuple(self._store(each, rows_per_second) for each in self.strategies)
        known = [store.bytes for store in stores if store.bytes is not None]
        return QueryPlan(
            windows=tuple(self._window(i) for i in plan.windows),
            stores=stores,
            aggregates={name: str(each) for name, each in query.aggregates.items()},
            key=tuple(query.key),
            time=query.time,
            time_type=str(plan.time_type),
            unit=self._unit,
            assumed=dict(self.assumed),
            keys=keys,
            bytes=keys * sum(known) if len(known) == len(stores) else None,
            run=_run(query),
            columns={name: query.expressions[name] for name in query.computed},
            where=query.where,
            changes=_changes(query, self.strategies),
            **_of_streams(query),
        )

    # ------------------------------------------------------------ units

    @property
    def _unit(self) -> str:
        return "unit of time" if self.plan.time_type.family == "integer" else "second"

    @property
    def _ticks(self) -> float:
        """How many ticks a second has; 1 where nobody knows."""
        return 1 if self.plan.time_type.family == "integer" else _ticks_per_second(self.plan.time_type)

    def _rate(self, per_tick: float | None) -> float | None:
        return None if per_tick is None else per_tick * self._ticks

    # ------------------------------------------------------------ windows

    def _window(self, i: int) -> WindowPlan:
        resolved = self.plan.windows[i]
        alone = replace(self.plan, windows={i: resolved})
        mine = next(each for each in self.strategies if i in each.plan.windows)
        name = name_of(mine)
        decisions = _with_changes(decide(Facts.of_plan(alone)), alone, mine)
        leaf = decisions.kept
        edges = expected.edges_per_tick([resolved])
        shared = expected.edges_per_tick(mine.plan.windows.values()) if isinstance(mine, Slices) else None
        return WindowPlan(
            window_id=i,
            window=repr(self.windows[i]),
            context=resolved.context.value,
            measure=resolved.measure.value,
            strategy=name,
            not_by={
                other: why.replace(repr(resolved), repr(self.windows[i])) for other, why in self._refusals(name, alone)
            },
            kept=mine.keeps or leaf.answer,
            rule=leaf.rule,
            must_keep=leaf.answer,
            why=leaf.why,
            split=_decision(decisions.split),
            removal=_decision(decisions.removal),
            how=mine.how(i),
            edges=self._rate(edges),
            slices=expected.slices_of_window(resolved, shared),
            run=tuple(_run_by(alone, resolved)),
        )

    def _refusals(self, chosen: str, alone: Plan) -> Iterator[tuple[str, str]]:
        """Yield the strategies that would have been taken before this one, and why they were not."""
        asked = [] if self.forced.strategy == "auto" else [self.forced.strategy]
        for name in dict.fromkeys((*asked, *CHOSEN_FROM)):
            if name == chosen:
                return
            why = why_not(name, alone)
            if why is not None:
                yield name, why

    # ------------------------------------------------------------ what is kept

    def _store(self, strategy: Strategy, rows_per_second: float | None) -> StorePlan:
        name, plan = name_of(strategy), strategy.plan
        store = StorePlan(name, tuple(plan.windows), tuple(strategy.merged_by()), *6 * (None,), 0, None)
        if isinstance(strategy, Slices):
            return self._of_slices(strategy, store)
        if isinstance(strategy, Tiles):
            return self._of_tiles(strategy, store)
        return self._of_rows(strategy, store, rows_per_second) if strategy.keeps == ROWS else store

    def _of_slices(self, strategy: Slices, store: StorePlan) -> StorePlan:
        plan = strategy.plan
        slots = expected.slots_of(strategy.sets, plan, self._delay)
        kept = decide(Facts.of_plan(plan)).kept.answer
        grows = kept != NOTHING or not all(each.binding.fixed for each in strategy.sets)
        lasts = any(isinstance(each.time_shape, Gap) for each in plan.windows.values())
        return replace(
            store,
            slices_per_second=self._rate(expected.edges_per_tick(plan.windows.values())),
            slices=None if slots is None else slots.slices,
            slice_bytes=sum(each.slice_bytes for each in strategy.sets),
            value_bytes=expected.VALUE_BYTES if kept == VALUES else None,
            row_bytes=expected.row_bytes(plan.types) if kept == ROWS else None,
            bytes=None if slots is None or grows else slots.bytes,
            note="more while a session lasts longer" if lasts and len(plan.windows) > 1 else "",
        )

    def _of_tiles(self, strategy: Tiles, store: StorePlan) -> StorePlan:
        plan = strategy.plan
        tilings = [each.tiling for each in plan.windows.values() if each.tiling is not None]
        tiles, size = expected.tiles_of(tilings), strategy.state_bytes
        waits = (plan.lateness + self._delay + max(each.delay for each in tilings)) / self._ticks
        unit = "seconds" if plan.time_type.family == "temporal" else "units of time"
        note = f"and {size} bytes for each row of the last {waits:g} {unit}, and of the last pushes"
        return replace(store, slices=tiles, slice_bytes=size, bytes=tiles * size, note=note, piece="tile")

    def _of_rows(self, strategy: Strategy, store: StorePlan, rows_per_second: float | None) -> StorePlan:
        plan = strategy.plan
        held = [each.time_held(self._delay, plan.lateness) for each in plan.windows.values()]
        times = [each for each in held if each is not None]
        shapes = [each.frame_shape for each in plan.windows.values()]
        row_time = max(times) / self._ticks if len(times) == len(held) else None
        row_count = max(each.rows_held for each in plan.windows.values())
        size = strategy.row_bytes
        rows = None if row_time is None else 0 if not row_time else _times(row_time, rows_per_second)
        return replace(
            store,
            row_bytes=size,
            row_time=row_time,
            row_count=row_count,
            bytes=None if size is None or rows is None else math.ceil((rows + row_count) * size),
            note=strategy.besides,
            for_ever=any(shape is not None and shape.is_endless for shape in shapes),
        )

    @property
    def _delay(self) -> int:
        return in_unit_of(self.query.watermark, self.plan.time_type, "watermark")


def explain(
    query: Query,
    schema: Any = None,
    forced: Forced | None = None,
    keys: int = 1000,
    rows_per_second: float | None = None,
    windows: Mapping[int, Window] | None = None,
) -> QueryPlan:
    """Say how a query would run over columns of these types: see `Query.explain`. `windows` are some of its windows."""
    _require_positive(keys, "keys", int)
    if rows_per_second is not None:
        _require_positive(rows_per_second, "rows_per_second", int | float)
    forced = Forced() if forced is None else forced
    types, assumed = types_of(query, schema)
    windows = dict(enumerate(query.windows)) if windows is None else windows
    plan = resolve(query, types, windows)
    subject = Subject(query, windows, plan, strategies_for(plan, forced), forced, assumed)
    return subject.explained(keys, rows_per_second)


def explain_running(subject: Subject, complete_from: Mapping[int, Any], metrics: Mapping[str, Any]) -> QueryPlan:
    """Say how a query runs in a stream, with what is there now."""
    plan = subject.explained(max(1, metrics["keys"]))
    stores = tuple(
        replace(store, now=each.metrics()) for store, each in zip(plan.stores, subject.strategies, strict=True)
    )
    windows = tuple(replace(each, complete_from=complete_from.get(each.window_id)) for each in plan.windows)
    return replace(plan, windows=windows, stores=stores, now=dict(metrics))


def _require_positive(value: Any, name: str, kind: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:
        raise InvalidArgumentError(f"{name} is {value!r}; it must be a positive number")


def _with_changes(decisions: Decisions, plan: Plan, strategy: Strategy) -> Decisions:
    """Return decisions as they are where rows may be taken back."""
    if not plan.changes:
        return decisions
    if isinstance(strategy, Slices):
        return replace(decisions, removal=TAKEN_OUT)
    return replace(decisions, kept=ANY_ROW, removal=FOUND_AGAIN)


def _changes(query: Query, strategies: Sequence[Strategy]) -> str:
    """Return how deletions are answered; nothing without any."""
    if query.changes is None:
        return ""
    without = [i for each in strategies if isinstance(each, Slices) for i in each.plan.windows]
    kept = [i for each in strategies if not isinstance(each, Slices) for i in each.plan.windows]
    parts = [f"{query.changes!r} says what a row does"]
    if without:
        parts.append(f"{_numbered(without)}: deletions are taken out of states by invert, and no row is kept")
    if kept:
        parts.append(f"{_numbered(kept)}: rows are kept, and a deletion takes back one of the same values")
    return "; ".join(parts)


def _numbered(windows: Sequence[int]) -> str:
    return f"{'window' if len(windows) == 1 else 'windows'} {', '.join(map(str, windows))}"


def _decision(leaf: Leaf) -> Decision:
    return Decision(leaf.answer, leaf.rule, leaf.why)


def _times(duration: float, rate: float | None) -> float | None:
    return None if rate is None else duration * rate


# ---------------------------------------------------------------- run


def _run_by(alone: Plan, window: Window) -> Iterator[Chosen]:
    """Yield what merges the rows of a window in `run`: where that depends on how many rows come, for few and many."""
    density = window.density(_MANY)
    columns = {name: Column(np.zeros(0, kind.physical), None, kind) for name, kind in alone.types.items()}
    found: dict[tuple[str, ...], dict[str, Chosen]] = {}
    for each in _STEPS if density.step is None else (density.step,):
        span = Span(_MANY // each, density.longest, density.overlap, trailing=False, time_type=alone.time_type)
        for facts in ArrayRun(columns, _MANY // each * each, span, "auto", 1).facts(alone.aggregates):
            (entry, rule), names = choose(facts), facts.binding.names
            chosen = Chosen(names, entry.name, rule.why, _STEPS.get(each, ""))
            found.setdefault(names, {}).setdefault(entry.name, chosen)
    for choices in found.values():
        yield from choices.values() if len(choices) > 1 else (replace(each, when="") for each in choices.values())


def _run(query: Query) -> str:
    if query.time is None:
        return "not possible: only a stream can tell when rows come"
    order = "are promised to be in order" if query.ordered else "are sorted"
    by = "key and time" if query.key else "time"
    first = "" if query.changes is None else "rows that deletions take back are left out; the other "
    return f"{first}rows {order} by {by}, unless they are in order already; then each window takes one pass over them"


# ---------------------------------------------------------------- streams


def _of_streams(query: Query) -> dict[str, Any]:
    watermark = "the greatest time seen"
    if query.watermark != 0:
        watermark += f" less {query.watermark!r}"
    lateness = "a window that was emitted never changes"
    if query.allowed_lateness != 0:
        lateness = f"a window that was emitted still changes for {query.allowed_lateness!r}, with revisions"
    return {
        "watermark": f"{watermark}, or what advance() says; a window is emitted when it reaches its end",
        "lateness": f"{lateness}; rows that no window takes are in late",
        "early": _early(query.emit_early),
        "idle": "the watermark waits for rows"
        if query.idle_timeout is None
        else f"after {query.idle_timeout!r} without a row the watermark goes on with the clock",
        "order": "rows come in order of time; one that does not is refused"
        if query.ordered
        else "rows come in any order",
    }


def _early(every: Any) -> str:
    if every is None:
        return "no window is emitted before it is due"
    if isinstance(every, ProcessingTime):
        return f"windows are emitted before they are due, too, every {every.duration!r} by the clock"
    return f"windows are emitted before they are due, too, whenever event time has moved on by {every!r}"


def _ticks_per_second(kind: ColumnType) -> float:
    assert kind.logical is not None
    if pa.types.is_date32(kind.logical):
        return 1 / 86_400
    return in_unit_of("1 second", kind, "a second")
