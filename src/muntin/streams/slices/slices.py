"""General stream slicing: all windows by time and all sessions of a query share one set of slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.aggregators.choose import Chosen
from muntin.arrays.results import to_arrow
from muntin.columns import extent, trues
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import UnsupportedOperationError
from muntin.query.plan import Plan
from muntin.restoring import RestorePoint
from muntin.streams.blocks import MERGES, SLICES
from muntin.streams.change import Change, Missing
from muntin.streams.decisions import ROWS, WHOLE, Decisions, Facts, decide
from muntin.streams.emitted import Changes, EmittedWindows
from muntin.streams.found import Found
from muntin.streams.journal import Journal, Replayed
from muntin.streams.mergers import cannot_merge
from muntin.streams.places import Places
from muntin.streams.slices.adopting import adopted
from muntin.streams.slices.completing import completed
from muntin.streams.slices.kept_set import KeptSet
from muntin.streams.slices.object_set import ObjectSet
from muntin.streams.slices.pane_set import MANY_KEYS, PaneSet
from muntin.streams.slices.partials import Partials
from muntin.streams.slices.run_set import RunSet
from muntin.streams.slices.shapes import Shapes, ints
from muntin.streams.slices.slice_set import STACKED, SliceSet, require
from muntin.streams.slices.taking_back import changed_within, is_exact_sum, matched, require_finite, slots_of
from muntin.streams.sorted_runs.runs import keeps_runs
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.limits import may_be_many, too_many
from muntin.windows.shapes import EdgesFrom, Periodic

MANY_SLICES = 64
"""Windows of more slices than this are answered from a tree: with fewer, maintaining it costs more than it saves."""
FEW_SLICES = 8
"""Windows of fewer slices than this are merged lazily: two stacks take three combines per slice, and memory."""
_MANY_KEYS = 4096
"""With more keys, rows are sorted by key first, so that slices are visited in memory order."""


class Slices(Replayed):
    """Slices for windows by time and sessions.

    A push is one pass over its rows, whatever the number of windows; a window takes one combine per slice, or O(log n)
    with a tree.
    """

    takes_back = True

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.shapes = Shapes.of(plan.windows)
        watched = plan.lateness > 0 or plan.early or plan.changes
        self.sets: list[SliceSet] = []
        runs, others = _groups(plan)
        merger = "lazy"
        for binding in others:
            kind: type[SliceSet] = SliceSet
            if _keeps_rows(plan, binding.aggregations):
                kind = KeptSet if binding.compiled else ObjectSet
            merger = self._merger(binding)
            alone = len(others) == 1 and not runs  # the slices of all sets lie in the same slots
            may_lie_by_time = alone and not watched and plan.merge in ("auto", STACKED)
            if kind is SliceSet and may_lie_by_time and PaneSet.suits(binding, self.shapes, merger):
                kind = PaneSet
            self.sets.append(kind(binding, self.shapes, watched=watched, merger=merger))
        if runs:
            self.sets.append(RunSet(runs, plan, self.shapes, watched=watched, merger=merger))
        self.emitted = EmittedWindows.none(names=4)  # holds no windows that are emitted only once
        self.watermark = BEFORE_TIME
        self._before: tuple[Array, Found] | None = None
        self._changed: list[tuple[Array, Array]] = []  # keys and times of rows that came late, or went
        self._complete_from = BEFORE_TIME  # all slices from here on are held
        self._early_left = False  # whether the ledger has windows that are not due yet, though none is emitted early
        self._quiet_until = BEFORE_TIME  # before this watermark nothing is due, and nothing becomes final

    def _merger(self, binding: Binding) -> str:
        """Return the merger of slices: the forced one, or a tree if windows have many."""
        if self.plan.merge != "auto":
            reason = cannot_merge(self.plan.merge, binding)
            if reason:
                raise UnsupportedOperationError(f"{self.plan.merge} cannot merge these slices: {reason}")
            return self.plan.merge
        most = self.shapes.most_slices()
        if most > MANY_SLICES:
            return "flat_fat"
        return STACKED if most >= FEW_SLICES and self.shapes.slides_alone and binding.bounded else "lazy"

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why slices cannot answer a plan, or None if they can."""
        if plan.changes:
            reason = _forgets(plan)
            if reason is not None:
                return reason
        for each in plan.windows.values():
            if each.time_shape is None:
                split = decide(Facts.of([each], [], ordered=plan.ordered)).split
                if each.edges in (EdgesFrom.GAPS, EdgesFrom.ZONES):
                    return f"{each!r}: {each.edges.value} is in the rows, and not in their slices"
                return f"{each!r} is not by time" if split.answer == WHOLE else f"{each!r}: {split.why}"
            if plan.emit_empty and each.emits_empty:
                return "windows without rows have no slices"
        return None

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what merges slices, for each set of aggregates."""
        for each in self.sets:
            if isinstance(each, RunSet):
                why = "found across the sorted values of the slices, which stay as they are"
                yield Chosen(each.names, "selection", why)
            else:
                why = self._why_merged_by(each.merger)
                if isinstance(each, PaneSet) and self.plan.key_types:
                    why += f"; from {MANY_KEYS} keys on all keys at once, if a third of them have rows in each slice"
                yield Chosen(each.binding.names, each.merger, why)

    def _why_merged_by(self, merger: str) -> str:
        most = self.shapes.most_slices()
        if self.plan.merge == merger:
            return "it was asked for"
        if merger == "flat_fat":
            return f"a window has up to {most} slices, and a tree over them answers it in O(log n) combines"
        if merger == STACKED:
            return f"windows of one definition slide over up to {most} slices; each takes O(1) combines, amortised"
        if not most:
            return "slices are few"
        return f"a window has up to {most} slices, and a tree pays for more than {MANY_SLICES}"

    @property
    def decisions(self) -> Decisions:
        """What these slices must support, and by which rules."""
        return decide(Facts.of_plan(self.plan))

    @property
    def _final_until(self) -> tuple[int, int]:
        """The times after which ended windows may still change: windows by time, and sessions."""
        if self.watermark == BEFORE_TIME:
            return BEFORE_TIME, BEFORE_TIME
        return self.plan.settled(self.watermark), self.plan.settled(self.watermark, 1)

    def _lateness(self, watermark: int) -> int:
        """Return how long after it was due a window may change at a watermark."""
        return watermark - self.plan.settled(watermark)

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Put the rows into slices, and take rows out of them. O(1) combines per row."""
        if self.plan.changes:
            return self._take_changes(batch, watermark)
        return self._take_rows(batch, watermark)

    def require_rows(self, batch: Batch) -> None:
        """Reject the deletion of a value that cannot be subtracted."""
        if batch.takes is not None:
            require_finite(self.plan, batch)

    def _take_changes(self, batch: Batch, watermark: int) -> Array:
        """Put rows into slices, and then take out those that deletions take back."""
        self._begin_at(watermark)
        for each in self.sets:
            each.know_keys(extent(batch.keys)[1] + 1 if len(batch.keys) else 0)
        takes = np.zeros(len(batch.times), np.bool_) if batch.takes is None else batch.takes
        before = None
        late = batch.times < watermark
        if watermark > BEFORE_TIME and late.any():
            self._remember(batch, watermark)
            before = self._before
            self._changed.append((batch.keys[late], batch.times[late]))
        taken = np.ones(len(takes), np.bool_)
        taken[~takes] = self._take_rows(batch.take(np.flatnonzero(~takes)), watermark)
        if takes.any():
            taken[takes] = self._take_back(batch.take(np.flatnonzero(takes)), watermark)
        self._before = before
        return taken

    def _take_back(self, batch: Batch, watermark: int) -> Array:
        """Take rows out of their slices; return which deletions found a row that some window may lose."""
        lead = self.sets[0]
        slots = slots_of(lead.slices, lead.blocks, batch.keys, batch.times)
        if watermark > BEFORE_TIME:
            late = batch.times < watermark
            slots[late & (self.shapes.last_ends(batch.times) + self.plan.lateness <= watermark)] = -1
        found = matched(slots, lead.slices.count)
        rows, slots = batch.take(np.flatnonzero(found)), slots[found]
        for each in self.sets:
            each.take_back(rows, slots)
        return found

    def _take_rows(self, batch: Batch, watermark: int) -> Array:
        if not len(batch.times):
            return np.ones(0, np.bool_)
        self._begin_at(watermark)
        if self.shapes.own.each:
            self.shapes.own.cover(batch.times)
        if not self.shapes.takes_every_row:
            held = self.shapes.own.holds(batch.times)
            if not held.all():
                held[held] = self._take_by_key(batch.take(np.flatnonzero(held)), watermark)
                return held
        return self._take_by_key(batch, watermark)

    def _begin_at(self, watermark: int) -> None:
        """Begin with the watermark that came before any rows: windows that were final by then are not emitted."""
        if self.watermark == BEFORE_TIME:
            self.watermark = watermark

    def _take_by_key(self, batch: Batch, watermark: int) -> Array:
        top = extent(batch.keys)[1] + 1 if len(batch.keys) else 0
        for each in self.sets:
            each.know_keys(top)
        if top > _MANY_KEYS and self.sets[0].is_by_key:
            order = self.sets[0].order_by_key(batch.keys, top)
            return _put_back(self._take_in_order(batch.take(order), watermark), order)
        return self._take_in_order(batch, watermark)

    def _take_in_order(self, batch: Batch, watermark: int) -> Array:
        taken = trues(len(batch.times))
        least = batch.least
        if least > watermark or (least == watermark and not len(self.shapes.gaps)) or watermark == BEFORE_TIME:
            for each in self.sets:
                each.take(batch)
            return taken
        self._remember(batch, watermark)
        behind = np.flatnonzero(batch.times < watermark)
        behind = behind[np.argsort(batch.times[behind], kind="stable")]
        punctual = np.flatnonzero(batch.times >= watermark)
        late, others = batch.take(behind), batch.take(punctual)
        for each in self.sets:
            taken[behind] = each.take_late(late, self._lateness(watermark), watermark)
            each.take(others)
        return taken

    @property
    def has_partials(self) -> bool:
        """Whether slices can be built elsewhere and merged here: only windows by time, with fixed-size states."""
        kinds = (SliceSet, PaneSet)
        plain = all(type(each) in kinds and each.binding.fixed and not each.has_tree for each in self.sets)
        return plain and not len(self.shapes.gaps) and not self.plan.changes

    def give_partials(self) -> Partials:
        """Return all slices, and clear them. O(n)."""
        lead, *others = [each.save() for each in self.sets]
        for each in self.sets:
            each.clear()
        keys = np.repeat(lead["keys"], lead["sizes"])
        states = [lead["states"], *(each["states"] for each in others)]
        return Partials(keys, lead["low"], lead["high"], lead.get("count", np.zeros(len(keys), np.int64)), states)

    def take_partials(self, partials: Partials, watermark: int) -> Array:
        """Merge slices built elsewhere, judged by the watermark; return which of them some window took.

        A slice that ends after the watermark is taken by every window that holds it. O(1) combines per slice.
        """
        taken = np.ones(len(partials.keys), np.bool_)
        if not len(taken):
            return taken
        self._begin_at(watermark)
        for each in self.sets:
            each.know_keys(int(partials.keys.max()) + 1)
        if watermark != BEFORE_TIME and int(partials.low.min()) < watermark:
            self._remember(Batch(partials.keys, partials.low, {}), watermark)
            past = np.flatnonzero(partials.high <= watermark)
            taken[past] = self.shapes.last_ends(partials.low[past]) > self.plan.settled(watermark)
            partials = partials.take(np.flatnonzero(taken))
        for each, states in zip(self.sets, partials.states, strict=True):
            each.take_slices(partials, states)
        return taken

    def _remember(self, batch: Batch, watermark: int) -> None:
        """Record emitted windows that may change now, as they are before the rows that change them."""
        if self.sets[0].watched:
            limit = watermark if len(self.shapes.gaps) else watermark - 1
            chosen = np.unique(batch.keys[batch.times <= limit])
            self._before = chosen, self._find(chosen, self._final_until, watermark)

    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Answer the windows that end by the watermark. O(slices) combines per window, O(log n) with a tree."""
        if watermark < self._quiet_until and self._before is None and not self.plan.early:
            self.watermark = watermark
            return []
        chosen = self.sets[0].held()
        if self.plan.early:
            answers = self._emit_early(chosen, watermark, early)
        else:
            answers = self._emit_revised() + self._emit_due(chosen, watermark)
        self.watermark = watermark
        self._let_go(chosen)
        return answers

    def _find(self, chosen: Array, after: tuple[int, int], until: int) -> Found:
        """Return the windows of some keys that end in (after, until]; reject more than a call may find."""
        lead = self.sets[0]
        if self.shapes.may_open_many(until - after[0], len(chosen)):
            _, sizes, slots = lead.slots()
            is_first = np.zeros(len(slots), np.bool_)
            is_first[np.cumsum(sizes) - sizes] = True
            for window_id, due in self.shapes.count_due(lead.slices.low[slots], is_first, after[0], until).items():
                if may_be_many(due - len(slots)):
                    raise too_many(self.plan.windows[window_id], due, _between(after[0], until))
        found = lead.find(chosen, after, until)
        return found.pick(found.rows > 0) if self.plan.changes else found  # all rows of a slice may have gone

    def may_open_many(self, span: int, keys: int) -> bool:
        """Return whether moving the watermark by `span` may make more windows due than a call may find. O(1)."""
        return self.shapes.may_open_many(span + self._slack, keys)

    @cached_property
    def _slack(self) -> int:
        """How far from the watermark the examined windows may end."""
        ahead = int(self.shapes.lengths.max(initial=0)) if self.plan.early else 0
        return self.plan.lateness + ahead

    def _emit_due(self, chosen: Array, watermark: int) -> list[Answers]:
        """Return the windows that end between the last watermark and this one: their first emission."""
        due = self._find(chosen, (self.watermark, self.watermark), watermark)
        if self._early_left:  # by a query that emitted windows before they were due
            changes = self.emitted.changes(EmittedWindows.of(due.names, due.rows), stays=trues(len(self.emitted)))
            return self._revise(due, changes)
        return self._answers(due, np.zeros(len(due.keys), np.int64))

    def _emit_revised(self) -> list[Answers]:
        """Return the revisions and retractions of emitted windows, after rows behind the watermark."""
        if self._before is None:
            return []
        chosen, before = self._before
        self._before = None
        after = self._find(chosen, self._final_until, self.watermark)
        rows = after.rows
        if self._changed:  # as many rows may have come as went
            keys, times = (np.concatenate(each) for each in zip(*self._changed, strict=True))
            rows = np.where(changed_within((keys, times), after.keys, after.start, after.end), -1 - rows, rows)
            self._changed = []
        changes = EmittedWindows.of(before.names, before.rows).changes(EmittedWindows.of(after.names, rows))
        return self._revise(after, changes.numbered_by(self.emitted))

    def _emit_early(self, chosen: Array, watermark: int, early: bool) -> list[Answers]:
        """Return what has changed: with early results the ledger holds every emitted window until it is final."""
        self._before = None
        found = self._find(chosen, self._final_until, END_OF_TIME)
        now = EmittedWindows.of(found.names, found.rows)
        return self._revise(found, self.emitted.changes(now, may_emit=early | (found.end <= watermark)))

    def _revise(self, found: Found, changes: Changes) -> list[Answers]:
        """Emit changes among the windows found, and record them in the ledger."""
        self.emitted = self.emitted.with_changes(changes)
        retracted = Found.without_slices(changes.retracted.names, changes.retracted.content)
        return [
            *self._answers(found.pick(changes.windows), changes.emitted.revision),
            *self._answers(retracted, changes.retracted.revision, retracted=True),
        ]

    def _let_go(self, chosen: Array) -> None:
        """Drop final windows from the ledger, and evict slices that no window needs."""
        if self.watermark == BEFORE_TIME:
            return
        closed = self.watermark == END_OF_TIME
        needed, self._quiet_until = self.shapes.look_ahead(self.watermark, self._lateness(self.watermark))
        if len(self.emitted):
            _, definitions, _, end = self.emitted.names
            self.emitted = self.emitted.keep(
                (end > np.where(definitions < len(self.shapes.kinds), *self._final_until)) & (not closed)
            )
        slices = int(self.sets[0].marks[SLICES])
        for each in self.sets:
            each.purge(chosen, needed, self.watermark, self._lateness(self.watermark))
        if int(self.sets[0].marks[SLICES]) < slices:
            self._complete_from = max(self._complete_from, needed)
        if self.shapes.own.each:
            self.shapes.own.forget(self.sets[0].oldest, END_OF_TIME if closed else self.plan.settled(self.watermark))

    def _answers(self, found: Found, revision: Array, *, retracted: bool = False) -> list[Answers]:
        """Return the answers of windows; an empty list if there are none."""
        count = len(found.keys)
        if not count:
            return []
        answered = found.pick(np.zeros(count, np.bool_)) if retracted else found
        raw: dict[str, Any] = {}
        for each in self.sets:
            raw |= each.answer(answered)
        arrays = {name: to_arrow(raw[name], answered.end) for name in self.plan.aggregates}
        if retracted:
            arrays = {name: pa.nulls(count, array.type) for name, array in arrays.items()}
        emitted = Answers(
            keys=found.keys,
            window_ids=self.shapes.ids[found.definitions],
            start=found.start,
            end=found.end,
            aggregates=arrays,
            revision=revision,
            retracted=trues(count) if retracted else np.zeros(count, np.bool_),
        )
        return [emitted]

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current slices and definitions. Amortised O(1) per row."""
        restore_slices = self._journal.restore_point(int(self.sets[0].marks[SLICES]))
        plan, shapes, journal = self.plan, self.shapes, self._journal

        def restore() -> None:
            self.plan, self.shapes, self._journal = plan, shapes, journal
            for each in self.sets:
                each.clear()  # a call that failed may have left them halfway
                each.reshape(shapes)
            restore_slices()

        return restore

    @cached_property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error."""
        return any(each.may_fail for each in self.sets)

    # ------------------------------------------------------------ adding and removing definitions

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Answer one more definition by time, from the slices held. O(slices).

        If others already have its edges, all slices cut for these are of use; else only those after the current ones.
        """
        timed = len(self.shapes.kinds) > len(self.shapes.own.each)
        if not isinstance(definition.time_shape, Periodic) or not timed or plan.emit_empty:
            raise UnsupportedOperationError(f"slices that are there were not cut for {definition!r}")
        since = self._cut_since(Shapes.of({window_id: definition}))
        self._reshape(plan, since)
        return max(since, self._complete_from)

    def _cut_since(self, new: Shapes) -> int:
        """Return since when slices have all edges of a new definition: others that came later cut them only since then.

        O(definitions^2).
        """
        since_of = dict(zip(self.shapes.ids.tolist(), self.shapes.sinces.tolist(), strict=False))
        for since in sorted(set(since_of.values())):
            held = {i: self.plan.windows[i] for i, begun in since_of.items() if begun <= since}
            if Shapes.of(held).cuts_for(new):
                return int(since)
        lead = self.sets[0]
        slots = lead.slots()[2]  # this may lay slices out anew
        return int(lead.slices.high[slots].max(initial=BEFORE_TIME))

    def begin_at(self, since: int) -> None:
        """Note that rows before a time were never given."""
        self._complete_from = since

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition; the next watermark evicts slices that only it needed. O(slices)."""
        session = int(np.flatnonzero(self.shapes.ids == window_id)[0]) - len(self.shapes.kinds)
        if session >= 0:
            for each in self.sets:
                each.forget_session(session)
        self._reshape(plan, BEFORE_TIME)

    def _reshape(self, plan: Plan, since: int) -> None:
        before = self.shapes
        self.plan = plan
        self.__dict__.pop("_slack", None)
        self.shapes = before.changed_to(plan.windows, since, self.watermark)
        place = {int(window_id): i for i, window_id in enumerate(self.shapes.ids)}
        places = ints(place.get(int(window_id), -1) for window_id in before.ids)
        keys, definitions, start, end = self.emitted.names
        moved = replace(self.emitted, names=(keys, places[definitions], start, end))
        self.emitted = moved.keep(places[definitions] >= 0)
        for each in self.sets:
            each.reshape(self.shapes)
        self._journal = Journal(self)
        self._quiet_until = BEFORE_TIME

    def held_keys(self) -> Array:
        """Return the keys that have slices, or windows in the ledger."""
        held = self.sets[0].held()
        return np.union1d(held, self.emitted.keys) if len(self.emitted) else held

    def save(self) -> dict[str, Array]:
        """Return all slices. O(n)."""
        arrays = {f"{i}.{name}": array for i, each in enumerate(self.sets) for name, array in each.save().items()}
        arrays |= {f"emitted.{name}": array for name, array in self.emitted.save().items()}
        arrays |= {f"own.{name}": array for name, array in self.shapes.own.save().items()}
        shapes = self.shapes
        arrays |= {"ids": shapes.ids, "sinces": shapes.sinces, "floors": shapes.floors, "gap": ints([shapes.gap])}
        return arrays | {"marks": ints([self.watermark, self._complete_from])}

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the sets have what belongs to which aggregate."""
        return tuple(each.places(f"{i}.") for i, each in enumerate(self.sets))

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the slices by those that `save` returned. O(n)."""
        gap = int(state["gap"][0])
        self.shapes = replace(self.shapes, sinces=state["sinces"], floors=state["floors"], gap=gap)
        for i, each in enumerate(self.sets):
            each.clear()
            each.reshape(self.shapes)
            each.load({name.partition(".")[2]: array for name, array in state.items() if name.startswith(f"{i}.")})
        self.emitted = self.emitted.load(
            {n.removeprefix("emitted."): array for n, array in state.items() if n.startswith("emitted.")}
        )
        self.shapes.own.load({n.removeprefix("own."): array for n, array in state.items() if n.startswith("own.")})
        self.watermark, self._complete_from = state["marks"].tolist()
        self._changed = []
        self._before, self._quiet_until = None, BEFORE_TIME
        self._early_left = not self.plan.early and bool((self.emitted.names[3] > self.watermark).any())

    def adopt(self, saved: Mapping[str, Array], change: Change) -> None:
        """Go on with the slices of a state that other definitions and aggregates saved. O(n)."""
        self.load(adopted(self, saved, change))
        if self.plan.early and not change.early and self.watermark > BEFORE_TIME:
            # So far the slices implied which windows were emitted; from now on the ledger tells.
            found = self._find(self.sets[0].held(), self._final_until, self.watermark)
            due = EmittedWindows.of(found.names, found.rows)
            known = self.emitted.places_of(due) >= 0
            self.emitted = self.emitted.with_windows(due.take(~known))

    def complete(self, batch: Batch, missing: Missing) -> None:
        """Give aggregates that came later the rows of a history. O(state + rows)."""
        self.load(completed(self, type(self)(self.plan), batch, missing))

    def require_loadable(self, state: Mapping[str, Array]) -> None:
        """Reject a state with other arrays."""
        super().require_loadable({"ids": self.shapes.ids, **state})

    def metrics(self) -> dict[str, int]:
        """Return the number of slices, and the bytes they take."""
        lead = self.sets[0]
        return {
            "slices": int(lead.marks[SLICES]),
            "merges": int(lead.marks[MERGES]),
            "splits": 0,
            "kept": sum(each.kept for each in self.sets),
            "bytes": sum(each.bytes for each in self.sets),
        }

    def check(self) -> None:
        """Raise `InvariantError` if slices contradict each other. O(n)."""
        for each in self.sets:
            each.check()
        for each in self.sets[1:]:
            pairs = zip(each.slots(), self.sets[0].slots(), strict=True)
            same = all(np.array_equal(one, other) for one, other in pairs)
            require(same, "the sets have their slices in different slots")


def _between(after: int, until: int) -> str:
    """Return the span in which windows end, in words."""
    since = "" if after == BEFORE_TIME else f" after {after}"
    return f"they end{since} by {until}" if until < END_OF_TIME else f"they end{since or ' at any time'}"


def _forgets(plan: Plan) -> str | None:
    """Return why rows cannot be taken back from slices that keep none; None if they can."""
    for each in plan.windows.values():
        if not isinstance(each.time_shape, Periodic):
            return f"rows may be taken back, and {each!r} depends on which rows are left"
    if plan.early or plan.emit_empty:
        return "rows may be taken back, and windows without rows, or that are not due, tell of it"
    for name, aggregation in plan.aggregates.items():
        binding = plan.bind({name: aggregation})
        if not (binding.fixed and binding.invertible and aggregation.commutative):
            return f"rows may be taken back, and nothing takes one out of {name} = {aggregation!r}"
        if not all(is_exact_sum(part) for part in binding.parts):
            return f"rows may be taken back, and what is taken out of {name} = {aggregation!r} is rounded"
        if not all(part.has_neutral or part.mask is not None for part in binding.parts):
            return f"rows may be taken back, and without rows {name} = {aggregation!r} has no state"
    return None


def _put_back(array: Array, order: Array) -> Array:
    """Return values back in the order of the rows."""
    result = np.empty_like(array)
    result[order] = array
    return result


def _groups(plan: Plan) -> tuple[dict[str, Aggregation], list[Binding]]:
    """Return the aggregations kept as sorted runs, and the others as fused."""
    runs = {name: each for name, each in plan.aggregates.items() if keeps_runs(each, plan.types)}
    others = {name: each for name, each in plan.aggregates.items() if name not in runs}
    groups = run_together(others, plan.bind, lambda _, alone: _keeps_rows(plan, alone.aggregations))
    return runs, [plan.bind(group) for group in groups]


def _keeps_rows(plan: Plan, aggregations: Iterable[Aggregation]) -> bool:
    return decide(Facts.of(plan.windows.values(), aggregations, ordered=plan.ordered)).kept.answer == ROWS
