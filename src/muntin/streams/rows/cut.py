"""Windows between edges that rows or a rule tell: which of them are due, or have changed, and what became of the rest.

A kind puts its windows into an *order*: their ends, say. A row can change only the windows in a stretch of that order,
and so can the watermark. So a push looks at a few stretches: it finds the windows there among the rows, compares them
with those emitted from there before, and leaves all others alone.

    order     0    10    20    30    40    50        the watermark comes from 40 to 50,
    spans          [late row ]           [due]       and a row of time 12 is in the windows that end at 15 to 27
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.emitted import Changes, EmittedWindows
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.ledger import Ledger
from muntin.streams.rows.part import Emission, Moment, Part
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import NONE
from muntin.types import Array
from muntin.windows.base import ROW_BOUNDS, VALUE_BOUNDS, Window


class Kept(Protocol):
    """What is kept besides rows: a table whose rows begin with their keys, in their order."""

    @property
    def nbytes(self) -> int:
        """The bytes of it."""

    def save(self) -> dict[str, Array]:
        """Return its columns; those of `keys` are in order."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace it by what `save` returned."""


@dataclass(frozen=True)
class Cuts:
    """Windows of one definition in some stretches of their order."""

    keys: Array
    first: Array
    last: Array
    """The positions between which their rows are, NONE where they hold none; numbers among `places`, if given."""
    start: Array
    end: Array
    due: Array
    order: Array
    content: Array
    """A number that changes when a window gets another row."""
    name: tuple[Array, ...] = ()
    """What tells windows of a key apart, up to three numbers; start and end by default."""
    bounds: tuple[Array, Array] | None = None
    """From and to which row or value, for windows that tell it."""
    places: Array | None = None
    """The places of rows, if those of a window are not next to one another."""
    is_final: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which were final before, and never change; none if empty."""

    def take(self, which: Array) -> Cuts:
        """Return some of the windows, by a mask."""
        if which.all():
            return self
        named = ("keys", "first", "last", "start", "end", "due", "order", "content")
        return replace(
            self,
            **{name: getattr(self, name)[which] for name in named},
            name=tuple(each[which] for each in self.name),
            bounds=None if self.bounds is None else (self.bounds[0][which], self.bounds[1][which]),
            is_final=self.is_final[which] if len(self.is_final) else self.is_final,
        )


class CutWindows(Part):
    """One definition of windows between edges."""

    counts: ClassVar[tuple[str, ...]] = ("looked_at", "splits")
    """The numbers that it keeps of all keys, by the names of its attributes."""
    number: type = np.int64
    """The type of their bounds besides start and end."""
    for_ever: bool = True
    waits_at_end: ClassVar[int] = 0
    """How long after it is due a window may change at least."""

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        bounds = window.bounds(plan.types)
        self._tells = next((each for each in (ROW_BOUNDS, VALUE_BOUNDS) if each[0] in bounds), None)
        self._early = plan.early
        self.slack = max(self.lateness, self.waits_at_end)
        self.remembers = self.slack > 0 or plan.early
        """Whether a window may change after it was emitted."""
        self.ledger = Ledger(self.number)
        self.looked_at = BEFORE_TIME
        """The watermark up to which windows that were due have been looked at."""

    @abstractmethod
    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return where windows are due that were not before, or may have changed."""

    @abstractmethod
    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows in stretches of their order."""

    def due_now(self, fresh: Fresh, moment: Moment) -> tuple[Array, Array, Array]:
        """Return the times at which windows of some keys have become due: of all to come, if emitted early."""
        low = BEFORE_TIME if self.looked_at == BEFORE_TIME else self.looked_at + 1
        upto = END_OF_TIME if moment.early else moment.watermark
        return fresh.keys, np.full(len(fresh.keys), low), np.full(len(fresh.keys), upto)

    def has_tails(self, moment: Moment) -> bool:
        """Return whether windows that no edge ends yet may be emitted now, or were before."""
        return self._early or moment.watermark == END_OF_TIME

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held: windows that are final already are not emitted."""
        self.looked_at = self.settled(watermark)

    def settled(self, watermark: int) -> int:
        """Return the time by which windows must have been due to be final at a watermark."""
        return self._settled(watermark, self.slack) if watermark < END_OF_TIME else END_OF_TIME

    # ------------------------------------------------------------ windows

    def emit(self, store: RowStore, fresh: Fresh, moment: Moment) -> Iterator[Emission]:
        """Yield the windows that are due, or have changed since they were emitted."""
        spans = self.spans(store, fresh, moment)
        if moment.watermark < END_OF_TIME:  # else only some keys may be closed
            self.looked_at = moment.watermark
        for part in self.apart(spans):
            yield from self._emit(store, part, moment)

    def apart(self, spans: Spans) -> Iterator[Spans]:
        """Yield the stretches whose windows are found together."""
        if len(spans.keys):
            yield spans

    def _emit(self, store: RowStore, spans: Spans, moment: Moment) -> Iterator[Emission]:
        windows = self.cut(store, spans, moment)
        if len(windows.is_final):
            windows = windows.take(~windows.is_final)
        is_due = windows.due <= moment.watermark
        may_emit = is_due | (windows.first != NONE) if moment.early else is_due
        if not self.remembers:
            windows = windows.take(may_emit)
            yield self._emission(windows, np.zeros(len(windows.keys), np.int64))
            return
        changes = self._revise(windows, spans, is_due, may_emit, moment)
        chosen = np.zeros(len(windows.keys), np.bool_)
        chosen[changes.windows] = True
        yield self._emission(windows.take(chosen), changes.emitted.revision)
        if len(changes.retracted):
            yield self._retraction(changes.retracted)

    def _revise(self, windows: Cuts, spans: Spans, is_due: Array, may_emit: Array, moment: Moment) -> Changes:
        """Compare the windows in some stretches with those emitted from there, and note what is emitted now."""
        places, held = self.alive(spans, moment)
        now = self._described(windows, is_due)
        matches = held.places_of(now)
        known = np.flatnonzero(matches >= 0)
        mine = matches[known]
        early = held.facts["early"][mine]
        # A window that was emitted early and is not due yet stays; one that was due and is no longer is retracted.
        stays = np.zeros(len(held), np.bool_)
        stays[mine] = may_emit[known] | early
        changes = held.changes(now, may_emit, stays, matches)
        held = held.with_facts(mine, due=now.facts["due"][known], early=early & now.facts["early"][known])
        gone = np.flatnonzero(~stays & ~held.retracted)
        if len(places) or len(changes.windows):
            self.ledger.note(places, held, matches[changes.windows], changes, gone)
        return changes

    def alive(self, spans: Spans, moment: Moment) -> tuple[Array, EmittedWindows]:
        """Return the places of emitted windows in some stretches that may still change, and these windows."""
        places, held, is_alive = self.ledger.within(spans, self.settled(moment.before))
        return (places, held) if is_alive.all() else (places[is_alive], held.take(is_alive))

    def _described(self, windows: Cuts, is_due: Array) -> EmittedWindows:
        nothing = np.zeros(len(windows.keys), np.int64)
        name = windows.name or (windows.start, windows.end)
        low, high = windows.bounds or (nothing.astype(self.number), nothing.astype(self.number))
        return EmittedWindows.of(
            (windows.keys, *name, *[nothing] * (3 - len(name))),
            windows.content,
            start=windows.start,
            end=windows.end,
            low=low,
            high=high,
            due=windows.due,
            order=windows.order,
            early=~is_due,
        )

    def _emission(self, windows: Cuts, revisions: Array) -> Emission:
        return Emission(
            windows.keys,
            windows.first,
            windows.last,
            windows.start,
            windows.end,
            revisions,
            rows=windows.bounds if self._tells == ROW_BOUNDS else None,
            values=windows.bounds if self._tells == VALUE_BOUNDS else None,
            places=windows.places,
        )

    def _retraction(self, gone: EmittedWindows) -> Emission:
        bounds = gone.facts["low"], gone.facts["high"]
        nothing = np.full(len(gone), NONE)
        return Emission(
            gone.keys,
            nothing,
            nothing,
            gone.facts["start"],
            gone.facts["end"],
            gone.revision,
            rows=bounds if self._tells == ROW_BOUNDS else None,
            values=bounds if self._tells == VALUE_BOUNDS else None,
            is_retracted=True,
        )

    # ------------------------------------------------------------ keys

    def let_go(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of windows that may change; look at a key when one is due or final."""
        self.need(store, keys, watermark, needed, wake)
        if self.remembers:
            final = self.ledger.settle(keys, self.settled(watermark))
            np.minimum(wake, np.minimum(final, END_OF_TIME - self.slack) + self.slack, out=wake)

    @abstractmethod
    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Lower `needed` and `wake`, as `let_go` does, for rows and windows that were not emitted."""

    def forget(self, keys: Array) -> None:
        """Forget the emitted windows of keys."""
        self.ledger.forget(keys)

    def held_keys(self) -> Array:
        """Return the keys with emitted windows that may change."""
        return self.ledger.keys

    # ------------------------------------------------------------ state

    @property
    def kept(self) -> Mapping[str, Kept]:
        """What is kept besides rows, by name: entries that begin with their keys."""
        return {"ledger": self.ledger}

    @property
    def nbytes(self) -> int:
        """The bytes of what is kept besides rows and their numbers."""
        return sum(kept.nbytes for kept in self.kept.values())

    def save(self) -> dict[str, Array]:
        """Return the emitted windows, and what else is kept of keys."""
        state = {name: np.array([getattr(self, name)], np.int64) for name in self.counts}
        for part, kept in self.kept.items():
            state |= {f"entries.{part}.{name}": array for name, array in kept.save().items()}
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        for name in self.counts:
            setattr(self, name, int(state[name][0]))
        for part, kept in self.kept.items():
            prefix = f"entries.{part}."
            kept.load({n.removeprefix(prefix): array for n, array in state.items() if n.startswith(prefix)})

    def check(self, store: RowStore) -> None:
        """Raise `InvariantError` if the emitted windows are inconsistent."""
        self.ledger.check()


def owners(fresh: Fresh) -> Array:
    """Return the key of each new row."""
    return np.repeat(fresh.keys, np.diff(fresh.ends, prepend=0))
