"""Rows in order, from the buffer of rows in which states of version 2 kept them.

The buffer held rows by key, time and arrival, with the number of each in the order of arrival, and for each definition
the rows that it refused and the windows that it had emitted. Here the same rows go into a store, the definitions that
refused the same ones into a group, and every emitted window to where its kind remembers it: into the word of its row,
or into its ledger. What a kind remembers of a window's rows is computed from the rows that are held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from muntin.columns import Column, read_only
from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.errors import SnapshotError
from muntin.kernels.mixing import mix
from muntin.query.plan import Plan
from muntin.streams.change import under
from muntin.streams.emitted import EmittedWindows, places_of
from muntin.streams.rows import judging
from muntin.streams.rows.by_code import ByCode
from muntin.streams.rows.by_count import ByCount
from muntin.streams.rows.by_end import ByEnd
from muntin.streams.rows.by_mark import ByMark
from muntin.streams.rows.by_number import ByNumber
from muntin.streams.rows.by_policy import ByPolicy
from muntin.streams.rows.by_time import ByTime
from muntin.streams.rows.by_value import ByValue, as_order
from muntin.streams.rows.counting import AHEAD, DONE, EMITTED, EVERY, GONE, NUMBERS, SEEN, SINCE, UNTIL
from muntin.streams.rows.cut import Cuts, CutWindows
from muntin.streams.rows.finding import CHANGED, FRAMELESS, NEW, SKIPPED, Fresh
from muntin.streams.rows.part import Moment, Part
from muntin.streams.rows.rows import Group, Rows
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.states import STATE
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tiles import TiledFrames
from muntin.streams.rows.tree import NONE
from muntin.types import ANY, Array, ColumnType
from muntin.windows.edges import Edges
from muntin.windows.found import SortedRows

_CONTENT = "content"
_OTHER = -1
"""A content that no window has: what holds other rows than when it was emitted."""
_MARKS = ("watermark", "fresh", "arrived", "complete_from", "kept_from", "forgotten_at", "melted_at")


@dataclass(frozen=True)
class Buffer:
    """The rows of a buffer, by key and time, and what was known of all of them."""

    keys: Array
    times: Array
    numbers: Array
    """The number of each row in the order of arrival."""
    columns: Mapping[str, Column]
    marks: Mapping[str, int]

    @classmethod
    def of(cls, saved: Mapping[str, Array], types: Mapping[str, ColumnType]) -> Buffer:
        """Return the rows of a saved buffer, whose columns have these types."""
        marks = dict(zip(_MARKS, map(int, saved["marks"]), strict=False))
        # The first states of version 2 do not record what was evicted: assume all that may have been.
        evicted = {"kept_from": marks["complete_from"], "forgotten_at": marks["watermark"]}
        marks = {**evicted, "melted_at": marks["watermark"], **marks}
        columns = {}
        for name, kind in types.items():
            valid = saved.get(f"rows.valid.{name}", np.zeros(0, np.bool_))
            columns[name] = Column(read_only(saved[f"rows.value.{name}"]), valid if len(valid) else None, kind)
        return cls(saved["rows.keys"], saved["rows.times"], saved["rows.numbers"], columns, marks)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.keys)

    def take(self, which: Array) -> Buffer:
        """Return some of the rows, by a mask. O(rows)."""
        columns = {name: column.take(which) for name, column in self.columns.items()}
        return Buffer(self.keys[which], self.times[which], self.numbers[which], columns, self.marks)

    @cached_property
    def present(self) -> Array:
        """The keys that have rows, ascending."""
        return np.unique(self.keys)

    @cached_property
    def begins(self) -> Array:
        """The first row of each row's key."""
        return np.searchsorted(self.keys, self.keys)

    @cached_property
    def sizes(self) -> Array:
        """How many rows each row's key has."""
        sizes: Array = np.searchsorted(self.keys, self.keys, "right") - self.begins
        return sizes

    @cached_property
    def peers(self) -> Array:
        """How many rows of its key and time precede each row."""
        alike = (np.diff(self.keys, prepend=-1) == 0) & (np.diff(self.times, prepend=0) == 0)
        place = np.arange(len(self))
        peers: Array = place - np.maximum.accumulate(np.where(alike, 0, place)) if len(self) else place
        return peers

    @cached_property
    def hashes(self) -> Array:
        """A hash of each row, which tells windows with other rows apart."""
        if _CONTENT in self.columns:
            return np.asarray(self.columns[_CONTENT].values)
        return np.asarray(mix(self.numbers.astype(np.uint64)))

    def content(self, first: Array, last: Array) -> Array:
        """Return the hashes of the rows [first, last), as a window's emission recorded them."""
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(self.hashes, dtype=np.uint64)))
        return np.asarray(total[last] - total[first])

    def counted(self, upto: int) -> Array:
        """Return how many rows not later than a time each present key has."""
        return np.asarray([np.count_nonzero(self.times[self.keys == key] <= upto) for key in self.present], np.int64)


@dataclass(frozen=True)
class Definition:
    """One definition of windows over a buffer, and the part that goes on with it."""

    part: Any
    plan: Plan
    rows: Buffer
    """The rows that it has not refused."""
    saved: Mapping[str, Array]

    @cached_property
    def emitted(self) -> EmittedWindows:
        """The windows that were emitted, and may still change."""
        held = under("emitted.", self.saved)
        names = tuple(held.pop(f"name{i}") for i in range(4))
        kind = type(self.part)
        if kind in _ORDERS:
            held |= {each: held[each].astype(self.part.number) for each in ("low", "high")}
            held["order"] = _ORDERS[kind](held)
        if kind is ByValue:  # named by the bits of their first values
            names = (names[0], held["order"], *names[2:])
        return EmittedWindows(names, held.pop("content"), held.pop("revision"), held.pop("retracted"), held)

    @property
    def watermark(self) -> int:
        """The watermark at which windows were emitted last."""
        return self.rows.marks["watermark"]

    def refused(self, why: str) -> SnapshotError:
        """Return the error that says why a definition cannot go on."""
        return SnapshotError(
            f"the snapshot has version 2, in which {self.part.window!r}, window {self.part.window_id}, cannot go on: "
            f"{why}. Let the version that wrote it finish the stream, or push its rows again"
        )

    def places(self, names: tuple[Array, ...]) -> Array:
        """Return which of these windows each emitted one is; reject a state in which one is none of them."""
        places = places_of(names, self.emitted.names)
        if ((places < 0) & ~self.emitted.retracted).any():
            raise self.refused("it emitted a window that its rows do not tell")
        return places

    def changed(self, content: Array) -> Array:
        """Return which emitted windows hold other rows than they did; only early ones are not emitted at once."""
        return np.asarray(self.emitted.facts["early"] & (self.emitted.content != content))


def rows_from_buffer(strategy: Rows, saved: Mapping[str, Array], types: Mapping[str, ColumnType]) -> dict[str, Array]:
    """Return the state of a strategy, empty so far, that goes on with a saved buffer. O(n log n).

    `saved` are the arrays of the buffer, whose definitions are those of the strategy, in their order.
    """
    rows = Buffer.of(saved, types)
    plan, watermark = strategy.plan, rows.marks["watermark"]
    parts = [part for group in strategy.groups for part in group.parts]
    of_window = {window_id: under(f"{i}.", saved) for i, window_id in enumerate(plan.windows)}
    strategy.groups = []
    for mine in _alike(parts, of_window):
        refused = of_window[mine[0].window_id]["refused"]
        view = rows.take(~np.isin(rows.numbers, refused)) if len(refused) else rows
        group = strategy._group(mine)
        _fill(group, view, len(saved["wake"]))
        _note_what_is_held(group, rows, view)
        for part in mine:
            _restore(Definition(part, plan, view, of_window[part.window_id]), group.store)
        group.wake_at(np.union1d(view.present, group.held_keys()), BEFORE_TIME)
        strategy.groups.append(group)
    strategy._watermark = watermark
    return strategy.save()


def _alike(parts: list[Part], saved: Mapping[int, Mapping[str, Array]]) -> list[list[Part]]:
    """Return parts by the rows that they have refused; each that needs a store of its own alone."""
    groups: dict[Any, list[Part]] = {}
    for part in parts:
        refused = tuple(saved[part.window_id]["refused"].tolist())
        groups.setdefault((refused, part.window_id if part.is_apart else None), []).append(part)
    return list(groups.values())


def _fill(group: Group, rows: Buffer, keys: int) -> None:
    """Put rows into the store of a group; what is kept beside them is set by its parts."""
    beside: dict[Any, Array] = {
        name: np.zeros(len(rows), kind) for part in group.parts for name, kind in part.beside.items()
    }
    columns = {name: column for name, column in rows.columns.items() if name != _CONTENT}
    group.store.insert(rows.keys, rows.times, columns, beside)
    group.store.know_keys(max(keys, int(rows.keys.max(initial=-1)) + 1))


def _note_what_is_held(group: Group, rows: Buffer, view: Buffer) -> None:
    """Note since when no row is missing, and which rows have come since windows were emitted last."""
    marks = rows.marks
    group.kept_from, group.forgotten_at = marks["kept_from"], marks["forgotten_at"]
    group.complete_from = marks["complete_from"]
    if len(view) < len(rows):
        refused = rows.times[~np.isin(rows.numbers, view.numbers)]
        group.complete_from = max(group.complete_from, int(refused.max()) + 1)
    fresh = view.numbers >= marks["fresh"] if marks["fresh"] < marks["arrived"] else np.zeros(len(view), np.bool_)
    if fresh.any():
        group.fresh = [(view.keys[fresh], view.times[fresh])]


def _restore(definition: Definition, store: RowStore) -> None:
    """Give a part what its definition remembered of windows."""
    for kind, restore in _KINDS.items():
        if isinstance(definition.part, kind):
            restore(definition, store)
            return
    raise definition.refused("what it had examined is not in the snapshot as this version needs it")


def _set_beside(store: RowStore, name: str, values: Array) -> None:
    _, places = store.rows()
    store.beside[name][places] = values


# ------------------------------------------------------------ frames


def _words(definition: Definition, places: Array, content: Array, words: Array) -> Array:
    """Return the words of rows, with the revisions of the frames that were emitted."""
    emitted = definition.emitted
    if emitted.retracted.any():
        raise definition.refused("one of its frames was taken back, which no row can do")
    changed = definition.changed(content[places])
    words[places] = np.where(changed, CHANGED - emitted.revision, emitted.revision)
    return words


def _frames_by_time(definition: Definition, store: RowStore) -> None:
    part, rows, watermark = definition.part, definition.rows, definition.watermark
    frames = _find(definition)
    words = np.where(rows.times <= part._final(watermark), FRAMELESS, NEW).astype(np.int32)
    places = definition.places((rows.keys, rows.times, rows.peers, np.zeros(len(rows), np.int64)))
    content = _with_time(definition, rows.content(frames.first, frames.last))
    _set_beside(store, part._word, _words(definition, places, content, words))
    part._looked_at = watermark
    if isinstance(part, TiledFrames):
        part.melted_at = rows.marks["melted_at"]


def _find(definition: Definition) -> Any:
    rows, plan = definition.rows, definition.plan
    ends = np.append(np.flatnonzero(np.diff(rows.keys)) + 1, len(rows)).astype(np.int64)[: len(rows.present)]
    return definition.part.window.find(SortedRows(rows.times, ends, range(len(rows)), rows.columns, plan.time_type))


def _with_time(definition: Definition, content: Array) -> Array:
    """Return the content of frames, with the times of their rows if their answers tell these."""
    if not definition.part.window.tells_at:
        return content
    return np.asarray(mix(content) ^ definition.rows.times.astype(np.uint64))


def _frames_by_number(definition: Definition, store: RowStore) -> None:
    part, rows, watermark = definition.part, definition.rows, definition.watermark
    shape = part._shape
    gone, done = (_per_key(definition.saved[f"kind.{name}"], store.keys) for name in ("gone", "done"))
    done = done * int(shape[EVERY])
    numbers = np.zeros((store.keys, NUMBERS), np.int64)
    numbers[:, GONE], numbers[:, DONE] = gone, done
    numbers[:, SEEN] = np.maximum(done, gone)
    present = rows.present
    reached = gone[present] + np.maximum(0, rows.counted(watermark) - int(shape[AHEAD]))
    numbers[present, SEEN] = np.maximum(numbers[present, SEEN], reached)
    numbers[:, EMITTED] = numbers[:, SEEN]
    if part.beside:
        number = np.arange(len(rows)) - rows.begins + gone[rows.keys]
        nothing = np.zeros(len(rows), np.int64)
        places = definition.places((rows.keys, number, nothing, nothing))
        np.maximum.at(numbers[:, EMITTED], definition.emitted.keys, definition.emitted.names[1] + 1)
        words = _numbered_words(number, numbers[rows.keys], int(shape[EVERY]))
        content = _with_time(definition, _numbered_content(rows, number, gone[rows.keys], shape))
        _set_beside(store, part._word, _words(definition, places, content, words))
    part._numbers = numbers.ravel()


def _per_key(values: Array, keys: int) -> Array:
    """Return a number of each key, of which only the first may have one."""
    return np.concatenate((values[:keys], np.zeros(max(0, keys - len(values)), np.int64)))


def _numbered_words(number: Array, numbers: Array, every: int) -> Array:
    """Return the words of rows as if none of their windows had been emitted."""
    words = np.where(number < numbers[:, DONE], 0, SKIPPED)
    words = np.where(number % every > 0, FRAMELESS, words)
    return np.where(number < numbers[:, EMITTED], words, NEW).astype(np.int32)


def _numbered_content(rows: Buffer, number: Array, gone: Array, shape: Array) -> Array:
    """Return the content of the window of each row, of some rows before and after it."""
    first = np.clip(number + shape[SINCE] - gone, 0, rows.sizes)
    last = np.clip(number + shape[UNTIL] - gone, first, rows.sizes)
    return rows.content(rows.begins + first, rows.begins + last)


def _windows_of_policy(definition: Definition, store: RowStore) -> None:
    """Ask the policy about the rows behind the last final one; the rows held before are its window there."""
    part, rows, watermark = definition.part, definition.rows, definition.watermark
    if part.policy.thorough or definition.plan.early:
        raise definition.refused("what its policy decides depends on rows that are gone, or on early answers")
    final = np.zeros(store.keys, np.int64)
    final[rows.present] = rows.counted(less(watermark, part.lateness))
    numbers = np.zeros((store.keys, judging.NUMBERS), np.int64)
    numbers[:, judging.JUDGED] = numbers[:, judging.EXAMINED] = final
    part._numbers = numbers.ravel()
    if not part.beside:
        return
    word = f"{part.window_id}.word"
    _set_beside(store, word, np.full(len(rows), judging.NEW))
    keys = rows.present
    part._find(store, Fresh(keys, *np.zeros((2, len(keys)), np.int64)), np.array([watermark, *[BEFORE_TIME] * 2, 0]))
    _, order = store.rows()
    words = store.beside[word][order]
    emitted, none = definition.emitted, np.zeros(len(rows), np.int64)
    places = places_of((rows.keys, rows.times, rows.numbers, none), emitted.names)
    expected = np.zeros(len(rows), np.bool_)
    expected[places[(places >= 0) & ~emitted.retracted]] = True
    if (places < 0).any() or not np.array_equal(expected, words >= 0):
        raise definition.refused("it emitted other windows than its policy leaves of its rows")
    words[places] = np.where(emitted.retracted, judging.RETRACTED - 2 * emitted.revision, emitted.revision)
    _set_beside(store, word, words)


# ------------------------------------------------------------ windows between edges


def _between_edges(definition: Definition, store: RowStore) -> None:
    part, watermark = definition.part, definition.watermark
    if len(definition.saved.get("kind.born_key", ())):
        raise definition.refused("rows had come since its windows were emitted last")
    if not isinstance(part, ByCode):  # whose code has seen these rows
        part.begin(store, watermark)
    find: Callable[..., list[Cuts]] = next(each for kind, each in _CUTS.items() if isinstance(part, kind))
    found = find(definition, store)
    part.looked_at = watermark
    if part.remembers and len(definition.emitted):
        part.ledger._insert(_ledger(definition, found, store))


def _ledger(definition: Definition, found: list[Cuts], store: RowStore) -> EmittedWindows:
    """Return the emitted windows with what the ledger of this version remembers of them."""
    emitted = definition.emitted
    places = definition.places(tuple(map(np.concatenate, zip(*map(_names, found), strict=True))))
    mine = places >= 0
    content = np.full(len(emitted), _OTHER, np.int64)
    content[mine] = np.concatenate([each.content for each in found])[places[mine]]
    now = np.zeros(len(emitted), np.uint64)
    now[mine] = np.concatenate([_content_of(definition.rows, each, store) for each in found])[places[mine]]
    content[definition.changed(now)] = _OTHER
    return replace(emitted, content=content)


def _names(windows: Cuts) -> tuple[Array, ...]:
    """Return what tells windows apart: the key, and three numbers."""
    name = windows.name or (windows.start, windows.end)
    return windows.keys, *name, *[np.zeros(len(windows.keys), np.int64)] * (3 - len(name))


def _content_of(rows: Buffer, windows: Cuts, store: RowStore) -> Array:
    """Return the content of windows as version 2 recorded it."""
    _, order = store.rows()
    number = np.zeros(len(store.tree.times), np.int64)
    number[order] = np.arange(len(order))
    if windows.places is not None:
        total = np.cumsum(rows.hashes[number[windows.places]], dtype=np.uint64)
        total = np.concatenate((np.zeros(1, np.uint64), total))
        return np.asarray(total[windows.last] - total[windows.first])
    held = windows.first != NONE
    first, last = np.zeros((2, len(windows.keys)), np.int64)
    first[held] = number[store.places_at(windows.first[held])]
    last[held] = number[store.places_at(windows.last[held] - 1)] + 1
    return rows.content(first, last)


def _by_end(definition: Definition, store: RowStore) -> list[Cuts]:
    part, emitted = definition.part, definition.emitted
    if definition.plan.emit_empty:
        part._since.values = definition.saved["kind.since"].copy()
    part._known_since.values = part._since.values.copy()
    keys, start, end, _ = emitted.names
    first, last, counts = store.within(keys, start, end)
    return [Cuts(keys, np.where(counts > 0, first, NONE), last, start, end, end, end, counts)]


def _by_count(definition: Definition, store: RowStore) -> list[Cuts]:
    part, rows, emitted = definition.part, definition.rows, definition.emitted
    gone = definition.saved["kind.gone"]
    part._gone.values = gone.copy()
    part.arrived = rows.marks["arrived"]
    if part.remembers:
        _set_beside(store, part._arrival, rows.numbers)
    keys, low, high, _ = emitted.names
    evicted = _per_key(gone, store.keys)[keys]
    first, last = np.maximum(low - evicted, 0), high - evicted
    begin, end = np.searchsorted(rows.keys, keys), np.searchsorted(rows.keys, keys, "right")
    is_there = (first < last) & (begin + last <= end)
    content = np.full(len(keys), _OTHER, np.int64)
    content[is_there] = rows.numbers[(begin + last - 1)[is_there]]
    first, last = np.where(is_there, first, 0), np.where(is_there, last, 0)
    store.kernels.at_ranks(store.tree, keys, first, last)
    facts = emitted.facts
    cuts = Cuts(keys, first, last, facts["start"], facts["end"], facts["due"], high, content, (low, high))
    return [cuts.take(is_there)]


def _by_mark(definition: Definition, store: RowStore) -> list[Cuts]:
    return _all_cuts(definition, store, BEFORE_TIME, END_OF_TIME)


def _by_code(definition: Definition, store: RowStore) -> list[Cuts]:
    part, saved, settled = definition.part, definition.saved, definition.part.settled(definition.watermark)
    edges, closed = saved["kind.edges"].reshape(-1, 2), saved["kind.closed"].reshape(-1, 3)
    for key in saved["kind.known"].tolist():
        part._sides.edges[key] = Edges(edges[edges[:, 0] == key, 1].tolist())
        part._sides.closed_to[key] = settled
    for key, start, end in closed.tolist():
        part._sides.close(key, [(start, end)])
    return _all_cuts(definition, store, BEFORE_TIME, END_OF_TIME)


def _by_value(definition: Definition, store: RowStore) -> list[Cuts]:
    part, keys = definition.part, store.present
    if len(keys) and definition.watermark > BEFORE_TIME:
        part._raise(store, part._reached, keys, BEFORE_TIME, definition.watermark)
    lowest = part._reached.default
    return _all_cuts(definition, store, lowest, -lowest - 1)


def _all_cuts(definition: Definition, store: RowStore, low: int, high: int) -> list[Cuts]:
    """Return all windows among the rows."""
    part, keys = definition.part, store.present
    moment = Moment(BEFORE_TIME, definition.watermark, definition.watermark)
    spans = Spans(keys, np.full(len(keys), low), np.full(len(keys), high))
    found = [part.cut(store, each, moment) for each in part.apart(spans)]
    if not found:
        none = np.zeros(0, np.int64)
        found = [Cuts(none, none, none, none, none, none, none, none)]
    return found


_ORDERS: dict[type[CutWindows], Callable[[Mapping[str, Array]], Array]] = {
    ByEnd: lambda facts: facts["end"],
    ByCount: lambda facts: facts["high"],
    ByMark: lambda facts: facts["end"],
    ByCode: lambda facts: facts["end"],
    ByValue: lambda facts: as_order(facts["low"]),
}
"""Where a ledger has a window."""
_CUTS: dict[type[CutWindows], Callable[[Definition, RowStore], list[Cuts]]] = {
    ByEnd: _by_end,
    ByCount: _by_count,
    ByMark: _by_mark,
    ByCode: _by_code,
    ByValue: _by_value,
}
_KINDS: dict[type[Any], Callable[[Definition, RowStore], None]] = {
    ByTime: _frames_by_time,
    ByNumber: _frames_by_number,
    ByPolicy: _windows_of_policy,
    **dict.fromkeys(_CUTS, _between_edges),
}
"""How the windows of each kind go on; those of others cannot."""


def tile_types() -> dict[str, ColumnType]:
    """Return the types of the columns of a buffer of tiles: their states, and the hashes of their rows."""
    return {STATE: ANY, _CONTENT: ANY}
