"""A query that goes on with the state of another one: what stays, what is new, and what is refused.

A window is the same if it means the same, an aggregate if it has the same name and means the same. What stays goes on
bit for bit. An aggregate that is new is null in every window that had begun before, never a part of the truth.

    aggregates                  n  high           n was there, high is new; the latest row had the time 14
    window [ 0, 20)             7  null           it had begun
    window [20, 40)             5  9.5            it had not
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME, in_unit_of
from muntin.errors import InvalidArgumentError, MuntinError, SnapshotError
from muntin.query.computing import COLUMN
from muntin.query.query import Query
from muntin.snapshots import Snapshot, refusing_forged
from muntin.streams.begun import Begun, begun_by
from muntin.streams.change import Change, Missing, under
from muntin.streams.contents import latest_row
from muntin.streams.core import StreamCore
from muntin.streams.facts import facts, in_words
from muntin.streams.places import Places
from muntin.streams.plan import STRATEGIES
from muntin.streams.snapshots import expressions_in, load_counts, require_readable, require_strategies, save, types_of
from muntin.streams.state import StreamState
from muntin.types import NULL, Array, ColumnType

FREE = ("watermark", "allowed_lateness", "idle_timeout", "emit_early", "forget_after")
"""The facts of a query, besides windows and aggregates, that may differ: on others its state depends as a whole."""
KEPT, ADDED, REMOVED = "kept", "added", "removed"


@dataclass(frozen=True)
class Adoption:
    """What becomes of a state when a query goes on with it. True if it can.

    Iterating over it yields the changes in words.
    """

    changes: tuple[str, ...]
    """Each difference between the query of the state and the other one, in words."""
    windows: Mapping[str, str]
    """Whether each window, by its name, is "kept" or "added"; of those "removed" the expressions."""
    aggregates: Mapping[str, str]
    """Whether each aggregate is "kept", "added" or "removed"; a changed one is added, and what it was is lost."""
    refusals: tuple[str, ...]
    """Why the query cannot go on with the state; empty if it can."""
    places: Mapping[int, int]
    """The numbers of the windows that stay: in the state, and in the query."""

    @classmethod
    def of(cls, saved: Mapping[str, str], query: Query, present: Iterator[int] | list[int] | None = None) -> Adoption:
        """Compare the facts of a state with a query; `present` are the numbers of the windows not removed since.

        >>> from muntin import Query, agg, window
        >>> old = Query(window.tumbling("60 seconds"), {"n": agg.count(), "low": agg.min("v")})
        >>> new = Query([window.session("1 hour"), window.tumbling("1 minute")], {"n": agg.count()})
        >>> found = Adoption.of(facts(old), new)
        >>> found.windows, found.aggregates, found.places
        ({'w0': 'added', 'w1': 'kept'}, {'n': 'kept', 'low': 'removed'}, {0: 1})
        """
        asked = facts(query)
        held = {i: saved[f"window {i}"] for i in range(len(saved)) if f"window {i}" in saved}
        if present is not None:
            held = {i: held[i] for i in present}
        names = [each for each in dict.fromkeys((*asked, *saved)) if not each.startswith(("window ", "aggregate "))]
        changed = [name for name in names if saved.get(name) != asked.get(name)]
        # What reads a column that is computed otherwise now is not the same, though it is called so.
        other = {name.removeprefix(COLUMN) for name in changed if name.startswith(COLUMN)}
        texts = [asked[f"window {i}"] if other.isdisjoint(each.columns) else "" for i, each in enumerate(query.windows)]
        places = _matches(held, texts)
        new = set(places.values())
        windows = {name: KEPT if i in new else ADDED for i, name in enumerate(query.windows.names)}
        windows |= {text: REMOVED for i, text in held.items() if i not in places}
        aggregates = _aggregates(saved, asked)
        aggregates |= {name: ADDED for name, each in query.aggregates.items() if not other.isdisjoint(each.reads)}
        words = [in_words(name, saved.get(name), asked.get(name)) for name in changed]
        changes = [*words, *_listed("window", windows), *_listed("aggregate", aggregates)]
        fixed = {f"{COLUMN}{name}" for name in (*query.key, query.time)}
        refusals = [
            word
            for name, word in zip(changed, words, strict=True)
            if name not in FREE and (name in fixed or not name.startswith(COLUMN))
        ]
        return cls(tuple(changes), windows, aggregates, tuple(refusals), places)

    def __bool__(self) -> bool:
        """Return whether the query can go on with the state."""
        return not self.refusals

    def __iter__(self) -> Iterator[str]:
        """Yield the changes."""
        return iter(self.changes)

    def __str__(self) -> str:
        """Return the changes and what becomes of windows and aggregates, in lines."""
        fates = [f"  {name}: {fate}" for name, fate in {**self.windows, **self.aggregates}.items()]
        end = [f"refused: {each}" for each in self.refusals] or ["it can go on with the state"]
        return "\n".join([*self.changes, *fates, *end])

    def require(self) -> None:
        """Raise an error if the query cannot go on with the state."""
        if self.refusals:
            raise SnapshotError(
                f"the query cannot go on with this state: {'; '.join(self.refusals)}. Begin without the state, "
                "and give the rows as history="
            )

    @property
    def kept(self) -> frozenset[str]:
        """The aggregates that stay."""
        return frozenset(name for name, fate in self.aggregates.items() if fate == KEPT)

    @property
    def is_needed(self) -> bool:
        """Whether the query differs from that of the state, or has its windows in another order."""
        return bool(self.changes) or any(old != new for old, new in self.places.items())


def _matches(held: Mapping[int, str], asked: list[str]) -> dict[int, int]:
    """Return which window of a query each of a state is: the first of those that mean the same and are not taken."""
    places: dict[int, int] = {}
    for i, text in held.items():
        free = [j for j, each in enumerate(asked) if each == text and j not in places.values()]
        if free:
            places[i] = i if i in free else free[0]
    return places


def _aggregates(saved: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in asked if name.startswith("aggregate ")]
    found = {name.removeprefix("aggregate "): KEPT if saved.get(name) == asked[name] else ADDED for name in names}
    gone = (name.removeprefix("aggregate ") for name in saved if name.startswith("aggregate ") and name not in asked)
    return found | dict.fromkeys(gone, REMOVED)


def _listed(what: str, fates: Mapping[str, str]) -> list[str]:
    return [f"the {what} {name!r} is {fate}" for name, fate in fates.items() if fate != KEPT]


def lateness_of(saved: Mapping[str, str], time: ColumnType) -> int:
    """Return the allowed lateness of the query of a state, in the unit of its times."""
    return in_unit_of(ast.literal_eval(saved["allowed_lateness"]), time, "allowed_lateness")


def can_adopt(state: Any, query: Query) -> Adoption:
    """Return what would become of a state if a query went on with it by `adopt=True`. Changes nothing.

    `state` is a snapshot of a stream, or the path of the checkpoint of a query on Spark, which a small job reads. The
    answer is true if the query can go on, lists the changes, and says of each window and aggregate whether it is kept,
    added or removed. O(state) for a snapshot, which is tried out.

    >>> import muntin
    >>> from muntin import Query, agg, window
    >>> old = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    >>> stream = old.stream()
    >>> _ = stream.push({"t": [1, 4], "v": [2.5, 3.5]})
    >>> new = Query(window.tumbling(10), {"n": agg.count(), "high": agg.max("v")}, time="t")
    >>> found = muntin.can_adopt(stream.snapshot(), new)
    >>> bool(found), list(found), dict(found.aggregates)
    (True, ["the aggregate 'high' is added"], {'n': 'kept', 'high': 'added'})
    """
    if isinstance(state, bytes | bytearray | memoryview):
        return _of_snapshot(Snapshot.decode(bytes(state)), query)
    if isinstance(state, str | PathLike):
        from muntin.spark.checkpoint import facts_at

        return Adoption.of(facts_at(str(state)), query)
    raise InvalidArgumentError(
        f"can_adopt takes the snapshot of a stream, or the path of a checkpoint; this is {type(state).__name__}"
    )


def _of_snapshot(snapshot: Snapshot, query: Query) -> Adoption:
    from muntin.streams.stream import Stream

    header = snapshot.header
    found = Adoption.of(header["query"], query, header["windows"])
    if found:
        try:
            Stream(query, snapshot.encode(), adopt=True)
        except MuntinError as error:
            return replace(found, refusals=(str(error),))
    return found


# ------------------------------------------------------------ a stream goes on


def go_on(
    state: StreamState, snapshot: Snapshot, schema: pa.Schema | None = None, history: pa.Table | None = None
) -> None:
    """Restore the state of another query into a new stream. `schema` has the types of columns not known so far.

    What is kept goes on bit for bit; windows are added as to a running stream. With a `history`, the rows that the
    stream has taken since some time, what is new is whole from then on. O(state), O(n log n) for n rows of a history.
    """
    if history is not None:
        schema = history.schema
    schema = pa.schema([]) if schema is None else schema
    with refusing_forged():
        require_readable(snapshot.header)
        adoption = Adoption.of(snapshot.header["query"], state.query, snapshot.header["windows"])
        adoption.require()
        load_counts(state, snapshot)
        known = {adoption.places[i]: since for i, since in state.complete_from.items() if i in adoption.places}
        state.complete_from = known
        if snapshot.header["core"] is not None:
            state.expressions = expressions_in(snapshot, state.query)
            if history is not None:
                history, state.expressions = state.computed(history)
                schema = history.schema
            adopting = _Adopting(state, snapshot, adoption, schema)
            adopting.run()
            if history is not None:
                adopting.complete(history)
        state.windows = dict(enumerate(state.query.windows))


def learn_types(state: StreamState, schema: pa.Schema) -> StreamCore:
    """Give columns of which only nulls were known the types of a schema; return the core. O(state) if there are any."""
    lacking = {name for name, kind in state.resolved.types.columns.items() if kind == NULL}
    if any(field.name in lacking and not pa.types.is_null(field.type) for field in schema):
        _retype(state, schema)
    return state.resolved


def _retype(state: StreamState, schema: pa.Schema) -> None:
    fresh = StreamState(state.query, state.forced, state.clock, {}, most_late=state.most_late)
    snapshot = save(state)
    held = state.resolved
    names = {name for name, kind in held.types.columns.items() if kind == NULL}
    with refusing_forged():
        load_counts(fresh, snapshot)
        windows = dict.fromkeys(snapshot.header["windows"], KEPT)
        _Adopting(fresh, snapshot, Adoption((), {}, {}, (), {i: i for i in windows}), schema).retype(frozenset(names))
    state.core = fresh.core


class _Adopting:
    """One stream that goes on with the state of another query."""

    def __init__(self, state: StreamState, snapshot: Snapshot, adoption: Adoption, schema: pa.Schema) -> None:
        self.state, self.snapshot, self.adoption = state, snapshot, adoption
        self.saved = snapshot.header["core"]
        self.types = types_of(snapshot, state.query, schema)
        kept = {new: state.query.windows[new] for new in sorted(adoption.places.values())}
        self.core = StreamCore(state.query, kept, self.types, state.forced, state.clock)

    def run(self) -> None:
        """Load what is kept, then add the windows that are new."""
        state, core, adoption = self.state, self.core, self.adoption
        query = self.snapshot.header["query"]
        latest = latest_row(self.snapshot)
        core.begun = Begun.load(self.saved.get("begun", {})).moved(adoption.places, adoption.kept)
        core.latest = latest
        core.progress.adopt(
            self.saved["progress"],
            idle=query["idle_timeout"] != "None",
            early=query["emit_early"] == facts(state.query)["emit_early"],
        )
        before = self._lateness()
        if core.plan.lateness > before and core.progress.watermark > BEFORE_TIME:
            core.go_on_after((core.progress.watermark, before))
        self._load(adoption.kept, before, early=query["emit_early"] != "None")
        self._load_silence()
        since = begun_by(max(latest, core.progress.seen))
        new = frozenset(core.plan.aggregates) - adoption.kept
        core.begun.note(new, sorted(adoption.places.values()), since)
        state.core = core
        self._add_windows(new, since)

    def complete(self, history: pa.Table) -> None:
        """Give what is new the rows of a history, all or those since some time."""
        core = self.core
        new = frozenset(core.plan.aggregates) - self.adoption.kept
        if not new or not history.num_rows:
            return
        batch = core.known_rows(history)
        batch = batch.take(np.flatnonzero(batch.times <= core.latest))
        since = core.first_time(history) if history.num_rows < self.state.counts["rows"] else BEFORE_TIME
        known = {name.removeprefix("column ") for name, _ in self.snapshot.schema if name.startswith("column ")}
        missing = Missing(new, frozenset(core.types.columns) - known, since, core.shown)
        for each in core.strategies:
            each.complete(batch, missing)
        core.begun = core.begun.whole_from(new, since, self.state.complete_from)

    def retype(self, names: frozenset[str]) -> None:
        """Load the state of the same query, with columns that held only nulls in other types."""
        core = self.core
        core.begun = Begun.load(self.saved.get("begun", {}))
        core.latest = self.saved.get("latest", BEFORE_TIME)
        core.go_on_after(tuple(self.saved.get("adopted", core.plan.adopted)))
        core.progress.load(self.saved["progress"])
        kept = frozenset(
            name
            for name, each in core.plan.aggregates.items()
            if names.isdisjoint(each.reads) or each.definition.nulls  # nulls are values to these
        )
        self._load(kept, self._lateness(), early=core.plan.early)
        self._load_silence()
        self.state.core = core

    def _lateness(self) -> int:
        """Return how late rows came to the query of the state, at its watermark."""
        watermark = self.saved["progress"]["watermark"]
        lateness = lateness_of(self.snapshot.header["query"], self.types.time)
        if watermark == BEFORE_TIME:
            return lateness
        before = replace(self.core.plan, lateness=lateness, adopted=tuple(self.saved.get("adopted", (BEFORE_TIME, 0))))
        return int(watermark) - before.settled(watermark)

    def _load(self, kept: frozenset[str], lateness: int, *, early: bool) -> None:
        """Load keys, and what strategies hold of the windows that stay."""
        core, places = self.core, self.adoption.places
        core.keys.load(under("keys.", self.snapshot.arrays))
        groups = []
        for i, each in enumerate(self.saved["strategies"]):
            windows = [places[old] for old in each["windows"] if old in places]
            if windows:
                groups.append((i, {"name": each["name"], "windows": windows}))
        require_strategies([group["name"] for _, group in groups], self.state.forced.strategy if groups else "auto")
        for _, group in groups:
            self._require_able(group)
        core.regroup([group for _, group in groups])
        for (i, _), strategy in zip(groups, core.strategies, strict=True):
            where = [Places.from_json(each) for each in self.saved["places"][i]]
            mine = {old: new for old, new in places.items() if old in self.saved["strategies"][i]["windows"]}
            arrays = under(f"{i}.", self.snapshot.arrays)
            if "ids" not in arrays and "sinces" in arrays:
                arrays["ids"] = _ids_in_slices(self.saved["strategies"][i]["windows"], self.snapshot.header["query"])
            change = Change(mine, kept, where, core.progress.watermark, lateness, early)
            strategy.adopt(arrays, change)

    def _require_able(self, group: Mapping[str, Any]) -> None:
        windows = {i: self.core.plan.windows[i] for i in group["windows"]}
        reason = STRATEGIES[group["name"]].can(replace(self.core.plan, windows=windows))
        if reason is not None:
            raise SnapshotError(
                f"the query cannot go on with this state, whose windows {list(windows.values())} are answered from "
                f"{group['name']}: {reason}. Leave that aggregate out, or begin anew and give the rows as history="
            )

    def _load_silence(self) -> None:
        """Load when keys came last; those of which nothing is known count from now on."""
        core = self.core
        if core.silence is None:
            return
        saved = under("silence.", self.snapshot.arrays)
        if saved:
            core.silence.load(saved)
        else:
            keys = core.keys.in_use()
            core.silence.note(keys, np.full(len(keys), max(core.latest, core.progress.seen), np.int64))

    def _add_windows(self, new: frozenset[str], since: int) -> None:
        state, core = self.state, self.core
        known = set(self.adoption.places.values())
        old = core.plan.aggregates.keys() - new
        for window_id in range(len(state.query.windows)):
            if window_id in known:
                continue
            window = state.query.windows[window_id]
            complete = core.add(state.query, window_id, window, may_widen=True)
            state.complete_from[window_id] = complete
            core.begun.note(frozenset(old), [window_id], BEFORE_TIME if complete is None else complete)
            core.begun.note(new, [window_id], since if complete is None else max(complete, since))


def _ids_in_slices(ids: list[int], words: Mapping[str, str]) -> Array:
    """Return the windows in the order in which slices know them, for states that do not record it."""

    def place(window_id: int) -> int:
        text = words[f"window {window_id}"]
        if text.startswith("window.session("):
            return 2
        return int(not text.startswith("window.") or text.startswith("window.calendar("))

    return np.array(sorted(ids, key=place), np.int64)
