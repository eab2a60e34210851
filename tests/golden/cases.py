"""Streams whose saved states lie in this folder: what they answer, the rows before the save, and those after it.

A case never changes once its file is written. It is read by the versions that write the files as well, so it needs
nothing but what every version since the first file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from muntin import Query, agg, policies, rows, window

Row = dict[str, Any]
Call = tuple[str, Any]
"""What is called, and with what: ("push", rows), ("advance", watermark), ("tick", time of the clock)."""
KINDS = {
    "k": pa.string(),
    "j": pa.int32(),
    "v": pa.float64(),
    "w": pa.int64(),
    "km": pa.float64(),
    "name": pa.string(),
    "mark": pa.bool_(),
}
"""The columns of all cases besides the time, `t`."""


@dataclass(frozen=True)
class Case:
    """One stream."""

    query: Query
    before: tuple[Call, ...]
    after: tuple[Call, ...]
    time: pa.DataType = field(default_factory=pa.int64)

    def table(self, given: list[Row]) -> pa.Table:
        """Return rows as a table."""
        columns = {"t": pa.array([row["t"] for row in given], pa.int64()).cast(self.time)}
        return pa.table({**columns, **{name: pa.array([row[name] for row in given], t) for name, t in KINDS.items()}})


class Clock:
    """A clock that shows what was set."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def play(stream: Any, case: Case, calls: tuple[Call, ...], clock: Clock) -> Iterator[pa.Table]:
    """Yield what a stream answers to each call."""
    for word, given in calls:
        if word == "push":
            yield stream.push(case.table(given))
        elif word == "advance":
            yield stream.advance(given)
        else:
            clock.now = given
            yield stream.tick()


class Numbers:
    """Numbers that are the same wherever they are drawn."""

    def __init__(self, seed: int) -> None:
        self._at = seed * 2654435761 % 2**31 + 1

    def below(self, bound: int) -> int:
        """Return a number in [0, bound)."""
        self._at = self._at * 1103515245 % 2147483647 + 12345
        return (self._at >> 8) % bound


def some_rows(seed: int, start: int, count: int, late: int = 7) -> list[Row]:
    """Return rows from a time on, two of each time, some of them late, some with nulls."""
    chance, found = Numbers(seed), []
    for i in range(count):
        time = start + i // 2
        if chance.below(4) == 0:
            time -= chance.below(late)
        found.append(
            {
                "t": time,
                "k": ("a", "b", None)[min(chance.below(5), 2)],
                "j": chance.below(2),
                "v": None if chance.below(8) == 0 else chance.below(40) / 2 - 5,
                "w": chance.below(9),
                "km": float(time),
                "name": (None, "x", "yy", "z")[chance.below(4)],
                "mark": chance.below(4) == 0,
            }
        )
    return found


BEFORE: tuple[Call, ...] = (("push", some_rows(1, 100, 16)), ("push", some_rows(2, 107, 12)))
AFTER: tuple[Call, ...] = (
    ("push", some_rows(3, 112, 10)),
    ("advance", 118),
    ("push", some_rows(4, 119, 12, late=12)),
    ("push", some_rows(5, 140, 4)),
)
REVISIONS: tuple[Call, ...] = tuple(
    ("push", some_rows(seed, start, count, late=1))
    for seed, start, count in ((1, 100, 24), (2, 103, 2), (3, 106, 1), (4, 104, 1), (5, 107, 2), (6, 112, 4))
)
"""Late rows that revise windows twice before the save, and again after it."""
REVISED: dict[str, Any] = {"time": "t", "key": "j", "allowed_lateness": 50}
NUMBERS = {"n": agg.count(), "total": agg.sum("v"), "spread": agg.std_pop("v")}
EXTREMES = {"hi": agg.max("v"), "lo": agg.min("v")}
TEXTS = {"n": agg.count("name"), "all": agg.collect("name"), "text": agg.concat("name"), "last": agg.max("name")}
VALUES = {"mid": agg.median("v"), "distinct": agg.count_distinct("name"), "high": agg.quantile("w", 0.9)}
SOME = {"n": agg.count(), "marked": agg.sum("w", where="mark"), "who": agg.arg_max("v", "name")}
LATE: dict[str, Any] = {"time": "t", "watermark": 2, "allowed_lateness": 6}
KEYED: dict[str, Any] = {**LATE, "key": "k"}


class Marked(window.ContextAware):
    """Windows that begin with each row that is marked."""

    columns = ("mark",)

    def on_tuple(self, t: int, values: Any, edges: Any) -> None:
        """Add the edge of a marked row."""
        if values["mark"]:
            edges.add(t)


class Shifts(window.ContextFree):
    """A shift of 3, then one of 5, and so on; nobody works for the 2 after that."""

    def next_edge(self, t: int) -> int:
        """Return the first edge after a time."""
        return next(t // 10 * 10 + each for each in (3, 8, 10) if t % 10 < each)

    def ended(self, previous: int, watermark: int) -> Iterator[tuple[int, int]]:
        """Yield the shifts that end in (previous, watermark]."""
        end = self.next_edge(previous)
        while end <= watermark:
            if end % 10:
                yield end - (3 if end % 10 == 3 else 5), end
            end = self.next_edge(end)


def _case(windows: Any, aggregates: Mapping[str, Any], options: Mapping[str, Any], **given: Any) -> Case:
    return Case(Query(windows, aggregates, **options), **{"before": BEFORE, "after": AFTER, **given})


def _seconds(windows: Any, aggregates: Mapping[str, Any], **options: Any) -> Case:
    words = {"key": "k", "time": "t", "watermark": "2 seconds", "allowed_lateness": "6 seconds"}
    return _case(windows, aggregates, {**words, **options}, time=pa.timestamp("s"))


CASES: dict[str, Case] = {
    # slices
    "sliding": _case(window.sliding(6, every=2), NUMBERS, KEYED),
    "sliding_extremes": _case(window.sliding(6, every=2), EXTREMES, KEYED),
    "sliding_text": _case(window.sliding(6, every=2), TEXTS, KEYED),
    "sliding_values": _case(window.sliding(6, every=2), VALUES, KEYED),
    "tumbling_two_keys": _case(window.tumbling(5), SOME, {**LATE, "key": ["k", "j"]}),
    "tumbling_no_key": _case([window.tumbling(5), window.tumbling(3)], NUMBERS, LATE),
    "many_windows": _case([window.sliding(8, every=2), window.cumulative(6, every=2), window.session(2)], SOME, KEYED),
    "session": _case(window.session(3), {**NUMBERS, **EXTREMES}, KEYED),
    "session_text": _case(window.session(2), TEXTS, LATE),
    "session_values": _case(window.session(2), VALUES, KEYED),
    "seconds": _seconds([window.sliding("10 seconds", every="5s"), window.session("3000ms")], {**NUMBERS, **TEXTS}),
    "calendar": _seconds(window.calendar("1 day", zone="Europe/Berlin"), NUMBERS),
    "emit_empty": _case(window.tumbling(2), {"n": agg.count()}, {**KEYED, "emit_empty": True}),
    "emit_early": _case([window.tumbling(9), window.session(4)], NUMBERS, {**KEYED, "emit_early": 3}),
    "ewm": _case(window.sliding(6, every=3), {"mean": agg.ewm_mean("v", half_life=2)}, KEYED),
    "top": _case(window.sliding(6, every=2), {"top": agg.top_k("w", 2), "seen": agg.collect_distinct("w")}, KEYED),
    # frames
    "trailing": _case(window.trailing(4), NUMBERS, KEYED),
    "trailing_text": _case(window.trailing(4), TEXTS, KEYED),
    "trailing_values": _case(window.trailing(5, closed="left"), VALUES, KEYED),
    "trailing_delay": _case(window.trailing(4, delay=1), SOME, LATE),
    "leading": _case(window.leading(4), NUMBERS, KEYED),
    "frame": _case([window.frame(3, 2), window.trailing(3)], {**NUMBERS, **EXTREMES}, KEYED),
    "trailing_rows": _case(window.trailing(rows(3)), {**NUMBERS, **EXTREMES}, KEYED),
    "trailing_rows_delay": _case(window.trailing(rows(3), delay=rows(1)), NUMBERS, KEYED),
    "frame_rows": _case(window.frame(rows(2), rows(1)), SOME, KEYED),
    "early_frames": _case(window.leading(5), NUMBERS, {**KEYED, "emit_early": 3}),
    "tiles": _case(window.trailing(8, hop=2), NUMBERS, KEYED),
    "tiles_text": _case([window.trailing(8, hop=2), window.trailing(4, hop=4)], TEXTS, KEYED),
    # windows by rows
    "tumbling_rows": _case(window.tumbling(rows(4)), NUMBERS, KEYED),
    "sliding_rows": _case([window.sliding(rows(6), every=rows(2)), window.tumbling(rows(3))], SOME, KEYED),
    "sliding_rows_extremes": _case(window.sliding(rows(5), every=rows(2)), EXTREMES, LATE),
    "sliding_rows_text": _case(window.sliding(rows(4), every=rows(2)), TEXTS, KEYED),
    "sliding_rows_values": _case(window.sliding(rows(4), every=rows(2)), VALUES, KEYED),
    "single_rows": _case([window.tumbling(rows(1)), window.tumbling(rows(2))], NUMBERS, KEYED),
    "partial_rows": _case(window.tumbling(rows(5)), NUMBERS, {**KEYED, "partial": True}),
    "last_rows": _case(window.sliding(rows(3), every=4), {**NUMBERS, **EXTREMES}, KEYED),
    # windows that rows mark
    "delta": _case(window.delta("km", 6.0, every=2.0), NUMBERS, KEYED),
    "punctuated": _case(window.punctuated("mark"), {**NUMBERS, **EXTREMES}, KEYED),
    "policy": _case(window.policy(policies.at_most_rows(3)), NUMBERS, KEYED),
    "policy_duration": _case(window.policy(policies.at_most_duration(4)), EXTREMES, KEYED),
    "own_aware": _case(Marked(), NUMBERS, KEYED),
    "own_free": _case(Shifts(), {**NUMBERS, **EXTREMES}, KEYED),
    # streams
    "everything": _seconds(
        [
            window.sliding("10 seconds", every="5 seconds"),
            window.cumulative("20 seconds", every="5 seconds"),
            window.session("3 seconds"),
            window.trailing("4 seconds"),
            window.sliding(rows(4), every=rows(2)),
            window.trailing(rows(3)),
            window.sliding(rows(2), every="5 seconds"),
            window.delta("km", 10.0, every=5.0),
            window.punctuated("mark"),
            window.trailing("8 seconds", hop="2 seconds"),
        ],
        {"n": agg.count(), "sum": agg.sum("v"), "all": agg.collect("name"), "mid": agg.median("v")},
        key=["k", "j"],
    ),
    "no_rows": _case(window.tumbling(5), NUMBERS, KEYED, before=(("advance", 103),)),
    "silent": _case(window.session(3), NUMBERS, {**KEYED, "forget_after": 40}),
    "idle": _case(
        [window.tumbling(4), window.trailing(4)],
        {"n": agg.count()},
        {**KEYED, "idle_timeout": 4},
        before=(("tick", 10), *BEFORE),
        after=(("tick", 30), *AFTER),
    ),
    "in_order": _case(
        [window.sliding(6, every=2), window.trailing(3)],
        NUMBERS,
        {"time": "t", "key": "k", "ordered": True},
        before=tuple(("push", sorted(given, key=lambda row: row["t"])) for given in (some_rows(1, 100, 12, 1),)),
        after=tuple(("push", sorted(given, key=lambda row: row["t"])) for given in (some_rows(2, 106, 12, 1),)),
    ),
    "revised": _case(
        [window.tumbling(5), window.trailing(4), window.trailing(rows(3)), window.delta("km", 4.0)],
        NUMBERS,
        REVISED,
        before=REVISIONS[:3],
        after=REVISIONS[3:],
    ),
    "revised_rows": _case(
        [window.tumbling(rows(4)), window.sliding(rows(4), every=rows(2))],
        NUMBERS,
        REVISED,
        before=REVISIONS[:3],
        after=REVISIONS[3:],
    ),
    "late_rows": _case(
        [window.tumbling(2), window.trailing(2)],
        NUMBERS,
        {"time": "t", "key": "k"},
        before=(*BEFORE, ("push", some_rows(6, 103, 6))),
    ),
}
