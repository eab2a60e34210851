"""Windows by rows: all definitions of a query share slices in row numbers, and rows move between slices."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.aggregators.choose import Chosen
from muntin.arrays.results import to_arrow
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.blocks import SLICES
from muntin.streams.emitted import EmittedWindows
from muntin.streams.found import Found
from muntin.streams.journal import Replayed
from muntin.streams.places import Places
from muntin.streams.row_slices.count_set import CountSet, RowShapes, leaving
from muntin.streams.row_slices.late import SHIFTS, SPLITS
from muntin.streams.slices.shapes import ints
from muntin.streams.sorted_runs.runs import keeps_runs
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.shapes import SINGLE_ROWS

_CHANGED = -1
"""The ledger's content of a window whose rows have changed since it was emitted."""


class Counted(Replayed):
    """Slices for tumbling and sliding windows by rows.

    Only rows up to the watermark are in slices, so disorder ahead of the watermark moves nothing. A push merges its
    rows into those held, and takes one combine per row when the watermark reaches it; a row behind the watermark takes
    one exchange per slice after it: a combine and an invert, or just a comparison if a maximum stays. A window takes
    O(log n) combines of its n slices.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.shapes = RowShapes.of(plan.windows)
        self.sets = [CountSet(binding, self.shapes, plan) for binding in _groups(plan)]
        self.emitted = EmittedWindows.none(names=4)  # holds no windows that are emitted only once

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why slices in row numbers cannot answer a plan, or None if they can."""
        for each in plan.windows.values():
            if each.row_shape is None:
                return f"{each!r} is neither tumbling nor sliding by rows"
        singles = [each.row_shape == SINGLE_ROWS for each in plan.windows.values()]
        if any(singles) and not all(singles):
            return "a window of one row refuses late rows that longer ones take in its midst"
        for name, aggregation in plan.aggregates.items():
            if keeps_runs(aggregation, plan.types):
                return f"{name} needs the values of a window in order"
        return None

    def merged_by(self) -> Iterator[Chosen]:
        """Yield the tree over slices, for all aggregates."""
        why = "a tree over slices in row numbers answers a window in O(log n) combines"
        yield Chosen(tuple(self.plan.aggregates), "flat_fat", why)

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Merge the rows into those held. O(n log n) for n rows, plus a move of each row after the oldest."""
        taken = np.ones(len(batch.times), np.bool_)
        if not len(batch.times):
            return taken
        top = int(batch.keys.max()) + 1
        for each in self.sets:
            each.know_keys(top)
        order = _by_key_and_time(batch.keys, batch.times)
        lateness = self.plan.lateness
        limit = BEFORE_TIME if watermark == BEFORE_TIME else watermark - max(lateness, 1)
        slow = batch.times <= limit
        if slow.any():
            judged = order[slow[order]]
            for each in self.sets:
                taken[judged] = each.judge(batch.keys, batch.times, judged, watermark - lateness)[judged]
            order = order[taken[order]]
        for each in self.sets:
            each.take(batch.keys, batch.times, order, batch.columns, limit)
        return taken

    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Answer the windows whose last row the watermark has reached. O(log n) combines per window."""
        answers = self._emit_of(self.sets[0].known(), watermark, early)
        self._forget(watermark)
        return answers

    def _emit_of(self, chosen: Array, watermark: int, early: bool) -> list[Answers]:
        """Answer windows of some keys."""
        until = END_OF_TIME if early else watermark
        for each in self.sets:
            each.extend(chosen, until)
        partial = self.plan.partial and until == END_OF_TIME
        found, again = self.sets[0].find(chosen, until, everything=self.plan.early, partial=partial)
        answers = self._answers(*(self._changed(found) if self.plan.early else self._numbered(found, again)))
        for each in self.sets:
            each.finalize(chosen, watermark)
        return [answers] if len(answers.keys) else []

    @property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error."""
        return any(each.binding.may_fail for each in self.sets)

    def _numbered(self, found: Found, again: Array) -> tuple[Found, Array]:
        """Return windows with their revisions; re-emitted ones go into the ledger."""
        revision = again.astype(np.int64)
        if again.any():
            windows = replace(_as_emitted(found.pick(again)), revision=revision[again])
            windows = self.emitted.numbered(windows)
            self.emitted = self.emitted.with_windows(windows)
            revision[again] = windows.revision
        return found, revision

    def _changed(self, found: Found) -> tuple[Found, Array]:
        """Return the windows that have changed since they were emitted, with their revisions; update the ledger."""
        emitted = self.emitted
        if len(emitted):
            moved = self.sets[0].moved(*emitted.names[:2])
            emitted = replace(emitted, content=np.where(moved < emitted.content, _CHANGED, emitted.content))
        # Windows by rows never vanish: some are just not examined now.
        changes = emitted.changes(_as_emitted(found), stays=np.ones(len(emitted), np.bool_))
        self.emitted = emitted.with_changes(changes)
        return found.pick(changes.windows), changes.emitted.revision

    def _forget(self, watermark: int) -> None:
        """Drop final windows from the ledger."""
        if len(self.emitted):
            keys, definitions, start, _ = self.emitted.names
            begins = self.sets[0].begins(keys, definitions)
            self.emitted = self.emitted.keep((start >= begins) & (watermark != END_OF_TIME))

    def _answers(self, found: Found, revision: Array) -> Answers:
        start, end = self.sets[0].spans(found)
        raw: dict[str, Any] = {}
        for each in self.sets:
            raw |= each.answer(found)
        return Answers(
            keys=found.keys,
            window_ids=self.shapes.ids[found.definitions],
            start=start,
            end=end,
            aggregates={name: to_arrow(raw[name], end) for name in self.plan.aggregates},
            revision=revision,
            retracted=np.zeros(len(revision), np.bool_),
            rows=(found.start, found.rows),
        )

    def held_keys(self) -> Array:
        """Return the keys that have had rows: these are numbered forever."""
        return self.sets[0].known()

    def kept_for_ever(self) -> Array:
        """Return the keys that have had rows."""
        return self.held_keys()

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget keys, whose next rows are numbered from 0; return their remaining windows."""
        chosen = np.intersect1d(keys, self.held_keys())
        answers = self._close_keys(chosen)
        self._journal.note(1, lambda: self._close_keys(chosen))
        return answers

    def _close_keys(self, chosen: Array) -> list[Answers]:
        answers = self._emit_of(chosen, END_OF_TIME, early=False)
        for each in self.sets:
            each.forget(chosen)
        self.emitted = self.emitted.keep(~np.isin(self.emitted.keys, chosen))
        return answers

    def save(self) -> dict[str, Array]:
        """Return all rows and slices. O(n)."""
        arrays = {f"{i}.{name}": array for i, each in enumerate(self.sets) for name, array in each.save().items()}
        return arrays | {f"emitted.{name}": array for name, array in self.emitted.save().items()}

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the sets have what belongs to which aggregate."""
        names = ("states", "row_states")
        return tuple(Places.of(f"{i}.", each.binding, states=names) for i, each in enumerate(self.sets))

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned. O(n)."""
        for i, each in enumerate(self.sets):
            each.load({name.partition(".")[2]: array for name, array in state.items() if name.startswith(f"{i}.")})
        self.emitted = self.emitted.load(
            {n.removeprefix("emitted."): array for n, array in state.items() if n.startswith("emitted.")}
        )

    def metrics(self) -> dict[str, int]:
        """Return the numbers of slices, rows held and rows moved between slices, and the bytes they take."""
        lead = self.sets[0]
        return {
            "slices": int(lead.marks[SLICES]),
            "splits": int(lead.cursor[SPLITS]),
            "merges": 0,
            "kept": lead.kept,
            "shifts": int(lead.cursor[SHIFTS]),
            "bytes": sum(each.bytes for each in self.sets),
        }

    def check(self) -> None:
        """Raise `InvariantError` if rows and slices contradict each other. O(n)."""
        for each in self.sets:
            each.check()


def _as_emitted(found: Found) -> EmittedWindows:
    return EmittedWindows.of(found.names, found.rows)


def _by_key_and_time(keys: Array, times: Array) -> Array:
    """Return the order of rows by key and time, ties by arrival."""
    if (keys[0] == keys).all():
        return ints(range(len(times))) if (times[1:] >= times[:-1]).all() else np.argsort(times, kind="stable")
    return np.lexsort((times, keys))


def _groups(plan: Plan) -> list[Binding]:
    """Return the aggregations as fused: those with `invert` together, each selective one alone, to see its choice.

    If one of them must be refolded whenever a row moves, the others are refolded with it: otherwise they would need
    rows of their own.
    """
    groups = []
    for group in run_together(plan.aggregates, plan.bind):
        folded = any(leaving(plan.bind({name: each})) == "refold" for name, each in group.items())
        groups += [group] if folded else run_together(group, plan.bind, _way_out)
    return [plan.bind(group) for group in groups]


def _way_out(name: str, alone: Binding) -> Hashable:
    """Return how rows leave a slice, the key for grouping aggregations; a selective one is grouped with no other."""
    way = leaving(alone)
    return (way, name) if way == "beaten" else way
