"""One definition over a buffer of rows: the rows it rejected, the windows it emitted, the rows it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregations.binding import Binding
from muntin.arrays.results import Raw, to_arrow
from muntin.arrays.runner import folded_windows, windows_of_rows
from muntin.columns import Column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvariantError
from muntin.kernels.mixing import mix
from muntin.query.plan import Plan
from muntin.streams.emitted import Changes, EmittedWindows
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.buffered import BufferedWindows, Moment, Windows
from muntin.windows.found import Points, SortedRows
from muntin.windows.held_rows import HeldRows
from muntin.windows.shapes import Lookback


def under(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays under a prefix, with the prefix removed from their names."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


class BufferedDefinition:
    """One definition over a buffer of rows: the rows it rejected, and the windows it emitted."""

    def __init__(self, window_id: int, kind: BufferedWindows, plan: Plan) -> None:
        self.window_id = window_id
        self.kind = kind
        self.plan = plan
        self.refused = np.zeros(0, np.int64)
        self._number = getattr(kind, "number", np.int64)
        times = ("start", "end", "due", "at") if kind.definition.tells_at else ("start", "end", "due")
        facts = dict.fromkeys(times, np.int64) | dict.fromkeys(("low", "high"), self._number)
        self.emitted = EmittedWindows.none(names=4, content=np.uint64, **facts, early=np.bool_)
        self._pending = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def begin(self, rows: HeldRows, watermark: int) -> None:
        """Start with earlier rows: take them, and skip windows that are already final."""
        self.kind.takes(rows.take(np.argsort(rows.numbers)), rows.take(slice(0, 0)), BEFORE_TIME)
        self.kind.note(rows)
        windows = self.kind.windows(rows, rows.present, Moment(BEFORE_TIME, BEFORE_TIME, BEFORE_TIME, 0))
        self.kind.finalize(windows, self.kind.final(windows.due, watermark), watermark)

    # ------------------------------------------------------------ rows

    def refuse(self, numbers: Array) -> None:
        """Reject rows, by their numbers."""
        if len(numbers):
            self.refused = np.union1d(self.refused, numbers)

    def forget(self, rows: HeldRows, first: Array) -> None:
        """Reject the rows that are no longer needed, if they must be hidden: other definitions may keep them."""
        if self.kind.forgets and len(rows):
            lengths = np.diff(rows.ends, prepend=0)
            self.refuse(rows.numbers[np.arange(len(rows)) < np.repeat(first, lengths)])

    def takes_part(self, rows: HeldRows) -> Array:
        """Return a mask of the rows that the definition has not rejected."""
        return ~np.isin(rows.numbers, self.refused) if len(self.refused) else np.ones(len(rows), np.bool_)

    def view(self, rows: HeldRows) -> HeldRows:
        """Return the rows of the definition: `rows` itself if it rejected none."""
        mine = self.takes_part(rows) if len(self.refused) else None
        return rows if mine is None or mine.all() else rows.take(np.flatnonzero(mine))

    # ------------------------------------------------------------ windows

    def emit(self, rows: HeldRows, active: Array, moment: Moment, early: bool) -> tuple[list[Answers], Array]:
        """Return the changed windows of the active keys, and the first row that each key still needs."""
        windows = self.kind.windows(rows, active, moment)
        alive = np.flatnonzero(~windows.final)
        complete = np.ones(len(alive), np.bool_) if windows.full is None or self.plan.partial else windows.full[alive]
        is_due = complete & (windows.due[alive] <= moment.watermark)
        may_emit = is_due
        if early:
            may_emit = is_due | (complete & (windows.found.first < windows.found.last)[alive])
        changes = self._revise(self._described(windows, rows, alive, is_due), active, may_emit)
        self._forget(moment.watermark)
        answers = []
        if len(changes.emitted):
            answers.append(self._aggregated(windows, rows, alive[changes.windows], changes.emitted))
        if len(changes.retracted):
            answers.append(self._retracted(changes.retracted))
        final = self.kind.final(windows.due, moment.watermark) | windows.final
        self.kind.finalize(windows, final, moment.watermark)
        self._pending = windows.key[~final], windows.due[~final]
        return answers, self.kind.needed(rows, windows, final, moment.watermark)

    def close_keys(self, rows: HeldRows, keys: Array, moment: Moment) -> list[Answers]:
        """Return the remaining windows of some keys, and forget the keys."""
        mine = self._is_active(keys)
        self.emitted, others = self.emitted.take(mine), self.emitted.take(~mine)
        answers, _ = self.emit(rows, keys, moment, early=False)
        self.emitted = others
        self.kind.forget_keys(keys)
        return answers

    def _described(self, windows: Windows, rows: HeldRows, which: Array, is_due: Array) -> EmittedWindows:
        """Return windows as the ledger holds them; their content is the sum of the hashes of their rows' numbers."""
        found = windows.found
        content = self._content(rows) if found.members is None else self._content(rows)[found.members]
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(content, dtype=np.uint64)))
        nothing = np.zeros(len(found.first), np.int64)
        low, high = found.rows or found.values or (nothing, nothing)
        held = total[found.last[which]] - total[found.first[which]]
        at = {}
        if self.kind.definition.tells_at and found.at is not None:
            at = {"at": found.at[which]}
            # A frame by rows may hold the same rows for another row. Its time must not be hashed like a row number: in
            # a sum of both hashes, row 9 at time 10 would equal row 10 at time 9.
            held = mix(held) ^ at["at"].astype(np.uint64)
        return EmittedWindows.of(
            (windows.key[which], *(name[which] for name in windows.name)),
            held,
            start=found.start[which],
            end=found.end[which],
            low=low[which].astype(self._number),
            high=high[which].astype(self._number),
            due=windows.due[which],
            early=~is_due,
            **at,
        )

    def _content(self, rows: HeldRows) -> Array:
        """Return a hash of each row."""
        content: Array = mix(rows.numbers.astype(np.uint64))
        return content

    def _revise(self, now: EmittedWindows, active: Array, may_emit: Array) -> Changes:
        """Compare the windows of the active keys with the ledger, and update it."""
        is_active = self._is_active(active)
        ledger, others = self.emitted.take(is_active), self.emitted.take(~is_active)
        places = ledger.places_of(now)
        known = np.flatnonzero(places >= 0)
        mine = places[known]
        early = ledger.facts["early"][mine]
        # A window that was emitted early and is not due yet stays; one that was due and is no longer is retracted.
        stays = np.zeros(len(ledger), np.bool_)
        stays[mine] = may_emit[known] | early
        changes = ledger.changes(now, may_emit, stays, places)
        ledger = ledger.with_facts(mine, due=now.facts["due"][known], early=early & now.facts["early"][known])
        self.emitted = others.with_windows(ledger.with_changes(changes))
        return changes

    def _is_active(self, active: Array) -> Array:
        return np.isin(self.emitted.keys, active) if len(self.emitted) else np.zeros(0, np.bool_)

    def _forget(self, watermark: int) -> None:
        """Drop final windows from the ledger; retracted ones once a window of that name cannot come back."""
        self.emitted = self.emitted.keep(~self.kind.final(self._final_from(), watermark))

    def _final_from(self) -> Array:
        """Return when emitted windows become final, without the lateness: when they are due, or would have been."""
        due, end = self.emitted.facts["due"], self.emitted.facts["end"]
        return np.where(self.emitted.retracted, np.minimum(due, end), due)

    def wakes(self, rows: HeldRows, active: Array, first: Array, watermark: int) -> Array:
        """Return when each active key must be examined again."""
        wake = self.kind.wakes_without_rows(active, watermark)
        key, due = self._pending
        becomes_final = np.minimum(due, END_OF_TIME - self.kind.slack) + self.kind.slack
        np.minimum.at(wake, np.searchsorted(active, key), np.where(due > watermark, due, becomes_final))
        mine = self._is_active(active)
        final = np.minimum(self._final_from()[mine], END_OF_TIME - self.kind.slack) + self.kind.slack
        np.minimum.at(wake, np.searchsorted(active, self.emitted.keys[mine]), final)
        np.minimum.at(wake, np.searchsorted(active, rows.present), self.kind.wakes(rows, first, watermark))
        return np.minimum(wake, END_OF_TIME - 1)  # at the latest when the stream closes

    # ------------------------------------------------------------ points

    @cached_property
    def lookback(self) -> Lookback:
        """How far a frame reaches from its row."""
        reach: Lookback = self.kind.definition.lookback
        return reach

    def asked_rows(self, rows: SortedRows) -> SortedRows:
        """Return the rows without those that the definition rejected: `rows` itself if none. O(rows)."""
        if not len(self.refused):
            return rows
        arrival = np.asarray(rows.arrival)
        mine = ~np.isin(arrival, self.refused)
        total = np.concatenate(([0], np.cumsum(mine)))
        columns = {name: column.take(mine) for name, column in rows.columns.items()}
        return replace(rows, times=rows.times[mine], ends=total[rows.ends], arrival=arrival[mine], columns=columns)

    def complete_from(self, held: HeldRows, key: int, least: int, *, all_known: bool) -> int | None:
        """Return the earliest time, from `least` on, at which frames of a key can be answered; None if never. O(n)."""
        mine = self.view(held.take(held.of_key(key)))
        times = np.unique(np.concatenate(([least], mine.times, mine.times + 1)))
        points = Points(times, np.array([len(times)]))
        rows = replace(self.kind.sorted_rows(mine), ends=np.array([len(mine)]))
        complete = self.kind.complete_at(rows, points, np.array([key]), all_known=all_known)
        answered = times[(times >= least) & (True if complete is None else complete)]
        return int(answered[0]) if len(answered) else None

    # ------------------------------------------------------------ answers

    def _aggregated(self, windows: Windows, rows: HeldRows, which: Array, emitted: EmittedWindows) -> Answers:
        found = windows.found
        first, last = found.first[which], found.last[which]
        data: Mapping[str, Column] = rows.columns
        times = rows.times
        if found.members is not None:
            rows = rows.take(found.members)
            data, times = rows.columns, rows.times
        raw = self.aggregate(data, times, first, last)
        return self._answers(emitted, {name: to_arrow(each, found.end[which]) for name, each in raw.items()})

    def aggregate(self, columns: Mapping[str, Column], times: Array, first: Array, last: Array) -> Mapping[str, Raw]:
        """Return the aggregates of the rows [first, last), both bounds ascending."""
        return windows_of_rows(columns, times, self.plan.time_type, first, last, self.plan.aggregates)

    @cached_property
    def binding(self) -> Binding:
        """All aggregates as one state, whatever the rows."""
        return self.plan.bind(self.plan.aggregates, gaps=True)

    @cached_property
    def asks_for_ends(self) -> bool:
        """Whether an aggregate depends on the end of its window."""
        return any(result.ending is not None for result in self.binding.results)

    def fold(self, columns: Mapping[str, Column], times: Array, first: Array, last: Array) -> Mapping[str, Raw]:
        """Return the aggregates of the rows [first, last), in any order. One combine per row of a window."""
        return folded_windows(self.binding, columns, times, first, last)

    def _retracted(self, gone: EmittedWindows) -> Answers:
        return self._answers(gone, {name: pa.nulls(len(gone)) for name in self.plan.aggregates})

    def _answers(self, windows: EmittedWindows, aggregates: Mapping[str, Any]) -> Answers:
        bounds = (windows.facts["low"], windows.facts["high"])
        fields = self.kind.definition.bounds(self.plan.types)
        return Answers(
            windows.keys,
            np.full(len(windows), self.window_id, np.int64),
            windows.facts["start"],
            windows.facts["end"],
            aggregates,
            windows.revision,
            windows.retracted,
            rows=bounds if "from_row" in fields else None,
            values=bounds if "from_value" in fields else None,
            at=windows.facts.get("at"),
        )

    # ------------------------------------------------------------ state

    def held_keys(self) -> Array:
        """Return the keys with any state."""
        return np.union1d(self.emitted.keys, self.kind.held_keys())

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.save().values())

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = {f"emitted.{name}": array for name, array in self.emitted.save().items()}
        kind = {f"kind.{name}": array for name, array in self.kind.save().items()}
        return {"refused": self.refused, **state, **kind}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        self.refused = state["refused"]
        self.emitted = self.emitted.load(under("emitted.", state))
        self.kind.load(under("kind.", state))

    def check(self, rows: HeldRows) -> None:
        """Raise `InvariantError` if the state contradicts the rows."""
        if not np.isin(self.refused, rows.numbers).all():
            raise InvariantError(f"window {self.window_id} has refused a row that nobody has")
