"""One definition over rows that deletions may take back: its windows are found anew where rows came or went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays.runner import windows_of_rows
from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.query.plan import Plan
from muntin.streams.changing.kept import KeptRows, alike
from muntin.streams.changing.kinds import NEVER, Kind, Windows, kind_for
from muntin.streams.emitted import Changes, EmittedWindows
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.rows.part import Moment
from muntin.streams.rows.per_key import PerKey
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.tables.changelog import surviving
from muntin.tables.run import answers
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.found import SortedRows

_FACTS = dict.fromkeys(("start", "end", "low", "high", "at", "due", "number"), np.int64) | {"early": np.bool_}


@dataclass(frozen=True)
class Look:
    """The rows of some keys, and the windows among them."""

    keys: Array
    """The keys that have rows."""
    held: KeptRows
    rows: SortedRows
    windows: Windows

    @property
    def owners(self) -> Array:
        """The key of each window."""
        return self.keys[self.windows.keys]


class ChangingPart:
    """One definition: its rows, which of its windows were emitted, and when to look at a key again."""

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        kind = kind_for(window)
        assert kind is not None
        self.window_id, self.window, self.plan = window_id, window, plan
        self.kind: Kind = kind(window, plan)
        self.remembers = self.kind.slack > 0 or plan.early or self.kind.lasting
        """Whether a window may change after it was emitted."""
        facts = {**_FACTS, **dict.fromkeys(("low", "high"), self._bound)}
        self.rows = KeptRows.none(plan.types)
        self.emitted = EmittedWindows.none(4, **facts)
        self.gone, self.done, self.wake = PerKey(), PerKey(), PerKey(NEVER)
        """Of each key: rows evicted, windows final by their number, when to look at it."""
        self.kept_from = BEFORE_TIME
        """No row from this time on was evicted."""

    @property
    def _bound(self) -> type:
        """The type of bounds besides start and end."""
        kinds = self.window.bounds(self.plan.types).values()
        return np.float64 if any(pa.types.is_floating(kind) for kind in kinds) else np.int64

    # ------------------------------------------------------------ rows

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows and take rows back; return which were of use. O(rows held), and O(log n) to find each."""
        goes = np.zeros(len(batch.times), np.bool_) if batch.takes is None else batch.takes
        came = KeptRows(batch.keys, batch.times, np.arange(batch.arrived, batch.arrived + len(goes)), batch.columns)
        kept, taken = self._judged(came, goes, watermark)
        stays = kept & ~goes
        if goes.any():
            stays, matched = self._matched(came, goes, kept, watermark)
            taken = np.where(goes, matched, taken)
        changed = np.unique(batch.keys[stays | (goes & taken)])
        new = came.take(np.flatnonzero(stays))
        self.rows = self.rows.with_rows(new.take(np.lexsort((new.numbers, new.times, new.keys))))
        self.wake[changed] = np.full(len(changed), BEFORE_TIME)
        return taken

    def _matched(self, came: KeptRows, goes: Array, kept: Array, watermark: int) -> tuple[Array, Array]:
        """Let deletions take rows back; return which new rows stay, and which deletions found a row."""
        deleting = np.flatnonzero(goes)
        places = self.rows.at_times_of(came.keys[deleting], came.times[deleting])
        places = places[self._revisable(places, watermark)]
        some = np.flatnonzero(kept | goes)
        numbers, count = alike([self.rows.take(places), came.take(some)])
        takes = np.concatenate((np.zeros(len(places), np.bool_), goes[some]))
        stays = np.zeros(len(numbers), np.bool_)
        stays[surviving(numbers, count, takes)] = True
        lost = ~stays & ~takes
        # Of equal deletions those that came first have found a row.
        found = np.bincount(numbers[lost], minlength=count)
        of_deletions = numbers[takes]
        order = np.argsort(of_deletions, kind="stable")
        nth = np.empty(len(order), np.int64)
        ranks = np.arange(len(order))
        begins = np.append(True, np.diff(of_deletions[order]) != 0)
        nth[order] = ranks - np.maximum.accumulate(np.where(begins, ranks, 0))
        matched = np.zeros(len(goes), np.bool_)
        matched[some[goes[some]]] = nth < found[of_deletions]
        left = np.zeros(len(goes), np.bool_)
        left[some[stays[len(places) :]]] = True
        gone = places[lost[: len(places)]]
        if len(gone):
            remaining = np.ones(len(self.rows), np.bool_)
            remaining[gone] = False
            self.rows = self.rows.take(remaining)
        return left, matched

    def _revisable(self, places: Array, watermark: int) -> Array:
        """Return which of the rows at some places are in a window that may still be revised."""
        risky = self._risky(self.rows.times[places], watermark)
        if not risky.any():
            return ~risky
        keys = np.unique(self.rows.keys[places[risky]])
        covered = np.zeros(len(self.rows), np.bool_)
        look = self._look(keys, None)
        first, last = self.rows.bounds(look.keys)
        of_keys = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
        covered[of_keys] = self._covered(look, watermark)[0]
        return ~risky | covered[places]

    def _risky(self, times: Array, watermark: int) -> Array:
        """Return which rows may be in no window that still changes."""
        if self.kind.always_judged:
            return np.ones(len(times), np.bool_)
        return (times <= less(watermark, self.kind.lateness)) & (times < watermark)

    def _judged(self, came: KeptRows, goes: Array, watermark: int) -> tuple[Array, Array]:
        """Return which new rows are kept, and which of these have a window of their own; see `Part.admit`."""
        risky = self._risky(came.times, watermark) & ~goes
        kept, own = ~goes, np.ones(len(goes), np.bool_)
        if not risky.any():
            return kept, own
        keys = np.unique(came.keys[risky])
        more = came.take(np.flatnonzero(np.isin(came.keys, keys) & ~goes))
        look = self._look(keys, more)
        covered, mine = self._covered(look, watermark)
        by_number = np.argsort(look.held.numbers)
        at = by_number[np.searchsorted(look.held.numbers[by_number], came.numbers[risky])]
        kept[risky], own[risky] = covered[at] | mine[at], mine[at] if self.window.each_row else covered[at]
        for key in self._broken(keys, look, watermark):
            self._one_by_one(came, np.flatnonzero(risky & (came.keys == key)), kept, own, watermark)
        late = came.times < watermark
        return kept, kept & (own | ~late) if self.window.each_row else kept

    def _broken(self, keys: Array, after: Look, watermark: int) -> list[int]:
        """Return the keys of which new rows would abolish a window that is final."""
        if not (self.kind.lasting or self.kind.waits) or self.window.each_row:
            return []
        before = self._look(keys, None)
        is_final = self._is_final(before, watermark)
        known = EmittedWindows.of(tuple(self._names(after)), np.zeros(len(after.owners), np.int64))
        asked = EmittedWindows.of(tuple(self._names(before)), np.zeros(len(before.owners), np.int64))
        lost = known.places_of(asked) < 0
        return [int(key) for key in np.unique(before.owners[is_final & lost])]

    def _one_by_one(self, came: KeptRows, rows: Array, kept: Array, own: Array, watermark: int) -> None:
        """Judge rows of one key in the order of time, each as if those kept before it were in."""
        key = came.keys[rows[:1]]
        others = (came.keys == key) & kept
        others[rows] = False
        some = list(np.flatnonzero(others))
        for row in rows[np.argsort(came.times[rows], kind="stable")].tolist():
            after = self._look(key, came.take(np.array(sorted([*some, row]))))
            at = int(np.flatnonzero(after.held.numbers == came.numbers[row])[0])
            covered = self._covered(after, watermark)[0][at]
            before = self._look(key, came.take(np.array(sorted(some), np.int64)))
            known = EmittedWindows.of(tuple(self._names(after)), np.zeros(len(after.owners), np.int64))
            asked = EmittedWindows.of(tuple(self._names(before)), np.zeros(len(before.owners), np.int64))
            breaks = (self._is_final(before, watermark) & (known.places_of(asked) < 0)).any()
            kept[row] = own[row] = covered and not breaks
            some += [row] if kept[row] else []

    def _covered(self, look: Look, watermark: int) -> tuple[Array, Array]:
        """Return which rows are in a window that still changes, and which have such a window of their own."""
        found = look.windows.found
        changes = ~self._is_final(look, watermark, waits=False)
        members = np.arange(len(look.held)) if found.members is None else found.members
        steps = np.zeros(len(members) + 1, np.int64)
        np.add.at(steps, found.first[changes], 1)
        np.add.at(steps, found.last[changes], -1)
        covered = np.zeros(len(look.held), np.bool_)
        covered[members[np.cumsum(steps)[:-1] > 0]] = True
        own = np.zeros(len(look.held), np.bool_)
        if self.kind.by_number:
            number = np.arange(len(look.held)) - np.repeat(look.rows.begins, look.rows.ends - look.rows.begins)
            owners = look.rows.keys
            number = number + self.gone[look.keys][owners]
            least = self.done[look.keys][owners]
            own = number >= least
            covered |= own
        elif self.window.each_row:
            alive = ~self._is_final(look, watermark)
            rows = np.arange(len(look.held)) if self.window.is_frame else found.last - 1
            own[rows[alive] if len(rows) == len(alive) else rows] = True
        return covered, own

    # ------------------------------------------------------------ windows

    def _look(self, keys: Array, more: KeptRows | None, horizon: int | None = None) -> Look:
        """Return the windows among the rows of some keys, and further rows of these. O(rows of the keys)."""
        held, ends = self.rows.of_keys(keys)
        if more is not None and len(more):
            held = held.with_rows(more.take(np.lexsort((more.numbers, more.times, more.keys))))
            ends = np.searchsorted(held.keys, keys, "right")
        has_rows = np.diff(ends, prepend=0) > 0
        keys, ends = keys[has_rows], ends[has_rows]
        plan = self.plan
        rows = SortedRows(
            held.times,
            ends.astype(np.int64),
            held.numbers,
            held.columns,
            plan.time_type,
            plan.partial,
            plan.emit_empty,
            horizon,
        )
        return Look(keys, held, rows, self.kind.windows(rows, self.gone[keys]))

    def _is_final(self, look: Look, watermark: int, *, waits: bool = True) -> Array:
        """Return which windows never change again at a watermark."""
        if self.kind.by_number:
            return look.windows.number < self.done[look.owners]
        until = less(watermark, self.kind.slack if waits else self.kind.lateness)
        return look.windows.due <= until if watermark < END_OF_TIME else np.zeros(len(look.windows.due), np.bool_)

    def _names(self, look: Look) -> tuple[Array, Array, Array, Array]:
        return look.owners, *look.windows.name

    def awake(self, watermark: int, early: bool) -> Array:
        """Return the keys to look at, ascending."""
        known = self.wake.keys()
        due = known[self.wake[known] <= watermark] if watermark < END_OF_TIME else known
        return np.union1d(due, self.rows.keys) if early or watermark == END_OF_TIME else due

    def emit(self, keys: Array, moment: Moment) -> Iterator[Answers]:
        """Yield the windows of some keys that are due or have changed, and those that are no more."""
        if not len(keys):
            return
        horizon = min(moment.watermark, moment.horizon)
        look = self._look(keys, None, horizon if self.kind.emits_empty else None)
        windows, found = look.windows, look.windows.found
        is_due = windows.due <= moment.watermark
        may_emit = ~self._is_final(look, moment.before)
        alive = may_emit.copy()
        may_emit &= (is_due | (found.first < found.last)) if moment.early else is_due
        if self.remembers:
            now = self._described(look, is_due).take(alive)
            mine = self.emitted.take(np.isin(self.emitted.keys, keys))
            mine = mine.take(~self._is_over(mine, moment.before))
            matches = mine.places_of(now)
            known = np.flatnonzero(matches >= 0)
            early = mine.facts["early"][matches[known]]
            stays = np.zeros(len(mine), np.bool_)
            stays[matches[known]] = may_emit[alive][known] | early
            changes = mine.changes(now, may_emit[alive], stays, matches)
            changes = _in_step(changes, mine, now, may_emit[alive], matches)
            facts = {name: now.facts[name][known] for name in ("due", "number")}
            still = mine.with_facts(matches[known], **facts, early=early & now.facts["early"][known])
            self.emitted = self.emitted.with_windows(still).with_changes(changes)
            chosen = np.flatnonzero(alive)[changes.windows]
            revisions, retracted = changes.emitted.revision, changes.retracted
        else:
            chosen = np.flatnonzero(may_emit)
            revisions, retracted = np.zeros(len(chosen), np.int64), None
        if len(chosen):
            # Windows are found in the order of their rows, as aggregators need them.
            order = np.argsort(chosen, kind="stable")
            found_now = answers(self.plan, self.window_id, found.take(chosen[order]), look.rows)
            found_now.keys, found_now.revision = look.owners[chosen[order]], revisions[order]
            yield found_now
        if retracted is not None and len(retracted):
            yield self._retraction(retracted)
        self._let_go(keys, look, moment.watermark)

    def _described(self, look: Look, is_due: Array) -> EmittedWindows:
        """Return windows as emitted now."""
        windows, found = look.windows, look.windows.found
        bounds = found.rows or found.values or (np.zeros(len(is_due), np.int64),) * 2
        at = found.at if found.at is not None and self.window.tells_at else np.zeros(len(is_due), np.int64)
        ids = _mixed(look.held.numbers)
        sums = np.concatenate((np.zeros(1, np.uint64), ids if found.members is None else ids[found.members]))
        np.cumsum(sums, out=sums)
        content = sums[found.last] - sums[found.first] + _mixed(at)
        return EmittedWindows.of(
            (look.owners, *windows.name),
            content.view(np.int64),
            start=found.start,
            end=found.end,
            low=bounds[0].astype(self._bound),
            high=bounds[1].astype(self._bound),
            at=at,
            due=windows.due,
            number=windows.number if self.kind.by_number else np.zeros(len(is_due), np.int64),
            early=~is_due,
        )

    def _retraction(self, gone: EmittedWindows) -> Answers:
        count, facts = len(gone), gone.facts
        bounds = facts["low"], facts["high"]
        tells = self.window.bounds(self.plan.types)
        return Answers(
            gone.keys,
            np.full(count, self.window_id, np.int64),
            facts["start"],
            facts["end"],
            {name: pa.nulls(count) for name in self.plan.aggregates},
            gone.revision,
            np.ones(count, np.bool_),
            rows=bounds if "from_row" in tells else None,
            values=bounds if "from_value" in tells else None,
            at=facts["at"] if self.window.tells_at else None,
        )

    # ------------------------------------------------------------ what is no longer needed

    def _is_over(self, emitted: EmittedWindows, watermark: int) -> Array:
        """Return which emitted windows never change again."""
        if self.kind.by_number:
            return emitted.facts["number"] < self.done[emitted.keys]
        due = emitted.facts["due"]
        due = np.where(emitted.retracted, np.minimum(due, emitted.facts["end"]), due)
        return due <= less(watermark, self.kind.slack)

    def _let_go(self, keys: Array, look: Look, watermark: int) -> None:
        """Evict the rows that no window needs, forget what is final, and note when to look at the keys again."""
        if watermark == END_OF_TIME:
            return
        kind, rows = self.kind, look.rows
        if kind.by_number:
            self._settle(look, watermark)
        is_final = self._is_final(look, watermark)
        done = self.done[look.keys] - self.gone[look.keys]
        needless = kind.needed(look.windows, rows, is_final, watermark, done)
        wake = self._wake(keys, look, is_final, needless, watermark)
        self.wake[keys] = wake
        if needless.any():
            first, _ = self.rows.bounds(look.keys)
            steps = np.zeros(len(self.rows) + 1, np.int64)
            np.add.at(steps, first, 1)
            np.add.at(steps, first + needless, -1)
            stays = np.cumsum(steps)[:-1] == 0
            self.kept_from = max(self.kept_from, int(self.rows.times[~stays].max()) + 1)
            self.rows = self.rows.take(stays)
            self.gone[look.keys] = self.gone[look.keys] + needless
        if len(self.emitted) and not kind.lasting:
            over = np.isin(self.emitted.keys, keys) & self._is_over(self.emitted, watermark)
            self.emitted = self.emitted.keep(~over)

    def _settle(self, look: Look, watermark: int) -> None:
        """Note which windows by number are final."""
        shape = self.window.row_shape
        assert shape is not None
        ahead, every = max(0, shape.until - 1), shape.every
        upto = np.concatenate(([0], np.cumsum(look.rows.times <= less(watermark, self.kind.lateness))))
        final = self.gone[look.keys] + upto[look.rows.ends] - upto[look.rows.begins] - ahead
        self.done.raise_to(look.keys, -(-final // every) * every)

    def _wake(self, keys: Array, look: Look, is_final: Array, needless: Array, watermark: int) -> Array:
        """Return when to look at keys again: when a window is due or final, or a row too old."""
        if self.kind.emits_empty:
            return np.full(len(keys), BEFORE_TIME)
        wake = np.full(len(look.keys), NEVER)
        due, slack = look.windows.due, self.kind.slack
        waits = ~is_final & (due < NEVER)
        later = waits & (due > watermark)
        np.minimum.at(wake, look.windows.keys[later], due[later])
        np.minimum.at(wake, look.windows.keys[waits], np.minimum(due[waits], NEVER - slack) + slack)
        stays = needless < look.rows.ends - look.rows.begins
        if not self.kind.for_ever:
            oldest = np.maximum(self.kind.wakes(look.rows), watermark + 1)
            wake[stays] = np.minimum(wake, oldest)[stays]
        if self.kind.by_number:
            unsettled = look.rows.times > less(watermark, self.kind.lateness)
            next_final = np.minimum(look.rows.times[unsettled], NEVER - self.kind.lateness) + self.kind.lateness
            np.minimum.at(wake, look.rows.keys[unsettled], next_final)
        found = np.full(len(keys), NEVER)
        found[np.searchsorted(keys, look.keys)] = wake
        return found

    # ------------------------------------------------------------ points

    def ask(self, points: AskedPoints, complete_from: int | None) -> FramesAtPoints:
        """Return the answers of frames at points; reject a point whose frame may hold rows that were evicted."""
        plan, asked = self.plan, points.by_key
        held, ends = self.rows.of_keys(points.asked_keys)
        rows = SortedRows(held.times, ends.astype(np.int64), held.numbers, held.columns, plan.time_type)
        self._require_held(points, rows, max(self.kept_from, complete_from or BEFORE_TIME))
        first, last = self.window.find_at(rows, asked)
        raw = windows_of_rows(rows.columns, rows.times, plan.time_type, first, last, plan.aggregates)
        begins = np.full(len(first), END_OF_TIME)
        begins[first < last] = held.times[first[first < last]]
        return FramesAtPoints([self.window_id], raw, self.window.ends_at(rows, asked, last), begins)

    def _require_held(self, points: AskedPoints, rows: SortedRows, kept_from: int) -> None:
        window: Any = self.window
        if kept_from == BEFORE_TIME or not len(points.times):
            return
        if self.kind.by_number:
            sizes = np.diff(points.by_key.ends, prepend=0)
            before, upto = (each - np.repeat(rows.begins, sizes) for each in rows.around(points.by_key))
            refused = (window.bounds_at(before, upto)[0] < 0) & (self.gone.known(points.keys) > 0)
            since = None
        else:
            since = window.first_from(kept_from)
            refused = points.times < since
        if refused.any():
            raise points.refusal(int(np.argmax(refused)), self.window_id, since)

    # ------------------------------------------------------------ keys and state

    def held_keys(self) -> Array:
        """Return the keys of which anything is kept, ascending."""
        kept = np.union1d(np.unique(self.rows.keys), self.emitted.keys)
        return np.union1d(kept, np.union1d(self.gone.keys(), self.done.keys()))

    def forget(self, keys: Array, moment: Moment) -> Iterator[Answers]:
        """Yield the remaining windows of keys, and forget the keys."""
        yield from self.emit(keys, moment)
        gone = self.rows.times[np.isin(self.rows.keys, keys)]
        self.kept_from = max(self.kept_from, int(gone.max(initial=BEFORE_TIME)) + 1)
        self.rows = self.rows.take(~np.isin(self.rows.keys, keys))
        self.emitted = self.emitted.keep(~np.isin(self.emitted.keys, keys))
        for each in (self.gone, self.done, self.wake):
            each.unset(keys)

    @property
    def nbytes(self) -> int:
        """The bytes of rows, emitted windows and numbers of keys."""
        return self.rows.nbytes + 96 * len(self.emitted) + self.gone.nbytes + self.done.nbytes + self.wake.nbytes

    def save(self) -> dict[str, Array]:
        """Return the whole state as arrays by name."""
        state = {f"rows.{name}": array for name, array in self.rows.save().items()}
        state["kept_from"] = np.array([self.kept_from], np.int64)
        state |= {f"emitted.{name}": array for name, array in self.emitted.save().items()}
        for name in ("gone", "done", "wake"):
            state |= {f"{name}.{part}": array for part, array in getattr(self, name).save().items()}
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""

        def under(prefix: str) -> dict[str, Array]:
            return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}

        self.kept_from = int(state["kept_from"][0])
        self.rows = self.rows.load(under("rows."), self.plan.types)
        self.emitted = self.emitted.load(under("emitted."))
        for name in ("gone", "done", "wake"):
            getattr(self, name).load(under(f"{name}."))


def _in_step(changes: Changes, mine: EmittedWindows, now: EmittedWindows, may_emit: Array, matches: Array) -> Changes:
    """Return changes with all windows that look alike emitted together, and with one revision.

    Who reads answers matches windows that look alike in order, revision by revision: so each revision has all of them.
    """
    if max(int(now.names[3].max(initial=0)), int(mine.names[3].max(initial=0))) == 0:
        return changes
    seen = np.stack([np.concatenate(pair) for pair in zip(now.names[:3], mine.names[:3], strict=True)], axis=1)
    _, looks = np.unique(seen, axis=0, return_inverse=True)
    looks = looks.reshape(-1)
    several = np.zeros(int(looks.max()) + 1, np.bool_)
    several[looks[np.concatenate((now.names[3], mine.names[3])) > 0]] = True
    of_now, of_mine = looks[: len(now)], looks[len(now) :]
    gone = mine.places_of(changes.retracted)
    changed = np.zeros(len(several), np.bool_)
    changed[of_now[changes.windows]] = changed[of_mine[gone]] = True
    changed &= several
    last = np.full(len(several), -1)
    np.maximum.at(last, of_mine, mine.revision)
    known = matches >= 0
    stays = may_emit.copy()
    stays[known] |= ~mine.retracted[matches[known]]
    chosen = np.zeros(len(now), np.bool_)
    chosen[changes.windows] = True
    chosen |= changed[of_now] & stays
    revision = np.zeros(len(now), np.int64)
    revision[changes.windows] = changes.emitted.revision
    together = changed[of_now]
    revision[together] = last[of_now[together]] + 1
    of_gone = of_mine[gone]
    lost = np.where(changed[of_gone], last[of_gone] + 1, changes.retracted.revision)
    places = np.flatnonzero(chosen)
    return Changes(
        places,
        replace(now.take(places), revision=revision[places]),
        replace(changes.retracted, revision=lost),
    )


def _mixed(numbers: Array) -> Array:
    """Return random-looking numbers: sums of different ones differ.

    >>> (_mixed(np.array([1])) + _mixed(np.array([4])) == _mixed(np.array([2])) + _mixed(np.array([3]))).tolist()
    [False]
    """
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Array = mixed ^ (mixed >> np.uint64(31))
    return result
