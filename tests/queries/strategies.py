"""Random queries and rows: several windows of several kinds, keys, aggregates, disorder, and cuts into pushes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import strategies as st
from queries import definitions
from queries.oracle import Query

from muntin import ProcessingTime, agg, policies, rows, window

SMALL = st.integers(1, 12)

COLUMNS = ("t", "k", "v", "km", "mark")
"""Time, key, value (or null), a column that advances with time (or null), markers (or null)."""


@st.composite
def sliding(draw: Any) -> Any:
    length = draw(SMALL)
    every = draw(st.integers(max(1, length // 5), length))
    return window.sliding(length, every=every, offset=draw(st.integers(-15, 15)))


@st.composite
def cumulative(draw: Any) -> Any:
    every = draw(st.integers(1, 5))
    return window.cumulative(every * draw(st.integers(1, 4)), every=every, offset=draw(st.integers(-15, 15)))


@st.composite
def sliding_rows(draw: Any) -> Any:
    length = draw(st.integers(1, 6))
    return window.sliding(rows(length), every=rows(draw(st.integers(1, length))))


@st.composite
def rows_every(draw: Any) -> Any:
    return window.sliding(rows(draw(st.integers(1, 5))), every=draw(SMALL), offset=draw(st.integers(-5, 5)))


@st.composite
def delta(draw: Any) -> Any:
    length = draw(st.integers(1, 10))
    every = draw(st.integers(max(1, length // 4), length))
    return window.delta("km", length, every=every, offset=draw(st.integers(-5, 5)))


CLOSED = st.sampled_from(["right", "left", "both", "neither"])


@st.composite
def trailing(draw: Any) -> Any:
    if draw(st.booleans()):
        closed = draw(st.sampled_from(["right", "left"]))
        return window.trailing(draw(SMALL), closed=closed, delay=draw(st.integers(0, 6)), hop=draw(SMALL))
    return window.trailing(draw(SMALL), closed=draw(CLOSED), delay=draw(st.integers(0, 6)))


@st.composite
def leading(draw: Any) -> Any:
    return window.leading(draw(SMALL), closed=draw(CLOSED), delay=draw(st.sampled_from([0, 0, 1, 5])))


@st.composite
def frames(draw: Any) -> Any:
    return window.frame(draw(st.integers(0, 8)), draw(st.integers(0, 8)), closed=draw(CLOSED))


@st.composite
def frames_of_rows(draw: Any) -> Any:
    some = st.sampled_from([0, *map(rows, range(1, 5))])
    kind = draw(st.sampled_from(["trailing", "leading", "frame"]))
    if kind == "frame":
        return window.frame(rows(draw(st.integers(1, 4))), draw(some), closed=draw(CLOSED))
    made = window.trailing if kind == "trailing" else window.leading
    return made(rows(draw(st.integers(1, 5))), closed=draw(CLOSED), delay=draw(some))


POLICIES = st.one_of(
    st.integers(1, 5).map(policies.at_most_rows),
    SMALL.map(policies.at_most_duration),
    st.integers(5, 40).map(lambda most: policies.sum_at_most("v", most)),
)

KINDS: dict[str, Any] = {
    "sliding": sliding(),
    "tumbling": st.builds(lambda n, o: window.tumbling(n, offset=o), SMALL, st.integers(-15, 15)),
    "cumulative": cumulative(),
    "session by column": st.just(window.session(gap_column="v")),
    "session": st.integers(1, 6).map(window.session),
    "trailing": SMALL.map(window.trailing),
    "sliding rows": sliding_rows(),
    "trailing rows": st.integers(1, 5).map(rows).map(window.trailing),
    "trailing, closed and delayed": trailing(),
    "lifetime": st.sampled_from(["right", "left"]).map(lambda closed: window.lifetime(closed=closed)),
    "leading": leading(),
    "frame": frames(),
    "frame of rows": frames_of_rows(),
    "rows every": rows_every(),
    "time every": st.builds(lambda n, k: window.sliding(n, every=rows(k)), SMALL, st.integers(1, 4)),
    "delta": delta(),
    "punctuated": st.just(window.punctuated("mark")),
    "policy": POLICIES.map(window.policy),
    "own, context free": st.sampled_from([definitions.Doubling(), definitions.Shifts()]),
    "own, context aware": st.integers(1, 6).map(definitions.Silence),
}

AGGREGATES: dict[str, Any] = {
    "n": agg.count(),
    "values": agg.count("v"),
    "total": agg.sum("v"),
    "high": agg.max("v"),
    "all": agg.collect("v"),
    "first": agg.first("v"),
    "last": agg.last("v"),
    "where": agg.arg_max("v", "km"),
    "median": agg.median("v"),
    "distinct": agg.count_distinct("v"),
    "marked distinct": agg.count_distinct("km", where="mark"),
    "marked": agg.sum("v", where="mark"),
    "marked rows": agg.count(where="mark"),
    "marked high": agg.max("v", where="mark"),
    "marked all": agg.collect("v", where="mark"),
    "marked median": agg.median("v", where="mark"),
}


ANY_KIND = st.sampled_from(sorted(KINDS))


@st.composite
def queries(draw: Any, kinds: Any = ANY_KIND, most_windows: int = 3) -> Query:
    """Queries over `COLUMNS`."""
    chosen = draw(st.lists(kinds, min_size=1, max_size=most_windows))
    names = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=3, unique=True))
    return Query(
        windows=[draw(KINDS[kind]) for kind in chosen],
        aggregates={name: AGGREGATES[name] for name in names},
        key=draw(st.sampled_from([(), ("k",)])),
        watermark=draw(st.sampled_from([0, 0, 1, 3, 8])),
        allowed_lateness=draw(st.sampled_from([10, 30, 3, 1, 0])),
        partial=draw(st.booleans()),
        emit_empty=draw(st.booleans()),
    )


@dataclass(frozen=True)
class Push:
    """Rows that come together."""

    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Advance:
    """A watermark from outside."""

    watermark: int


@dataclass(frozen=True)
class Tick:
    """The clock goes on, and the stream is asked what is due by it."""

    by: int
    asked: bool


@st.composite
def tables(draw: Any, most: int = 25) -> list[dict[str, Any]]:
    """Rows in the order of event time. The odometer only goes on; no value is negative."""
    now, travelled, table = draw(st.integers(-30, 10)), draw(st.integers(-20, 20)), []
    for _ in range(draw(st.sampled_from([most, most // 2, most // 2, 5, 2, 0]))):
        now += draw(st.sampled_from([0, 0, 1, 1, 1, 2, 3, 7, 25]))
        travelled += draw(st.sampled_from([0, 1, 2, 5, 12]))
        table.append(
            {
                "t": now,
                "k": draw(st.sampled_from("ab")),
                "v": draw(st.one_of(st.none(), st.integers(0, 20))),
                "km": draw(st.sampled_from([travelled] * 5 + [None])),
                "mark": draw(st.sampled_from([False, False, True, None])),
            }
        )
    return table


@st.composite
def disordered(draw: Any, table: list[dict[str, Any]], delay: int) -> list[dict[str, Any]]:
    """Let each row come up to so much later than it should: after rows of times up to its own plus the delay.

    Rows of equal time keep their order.
    """
    times = sorted({row["t"] for row in table})
    late = draw(st.lists(st.sampled_from([0, 1, delay // 2, delay]), min_size=len(times), max_size=len(times)))
    delays = dict(zip(times, late, strict=True))
    return sorted(table, key=lambda row: row["t"] + delays[row["t"]])


@st.composite
def cuts(draw: Any, table: list[dict[str, Any]]) -> list[Push]:
    """Cut rows into pushes: one by one, or some of them empty."""
    if draw(st.sampled_from([True, True, False])):
        return [Push([row]) for row in table]
    places = sorted(draw(st.lists(st.integers(0, len(table)), max_size=6)))
    return [Push(table[a:b]) for a, b in zip([0, *places], [*places, len(table)], strict=True)]


@st.composite
def advances(draw: Any, pushes: list[Push]) -> list[Push | Advance]:
    """Put watermarks between pushes that may make any row late."""
    steps: list[Push | Advance] = []
    for push in pushes:
        steps.append(push)
        if draw(st.integers(0, 3)) == 0:
            steps.append(Advance(draw(st.integers(-30, 60))))
    return steps


@st.composite
def ticks(draw: Any, steps: list[Push | Advance]) -> list[Push | Advance | Tick]:
    """Let the clock go on between steps, with a tick or without."""
    timed: list[Push | Advance | Tick] = []
    for step in steps:
        timed += [step, *draw(st.lists(st.builds(Tick, st.integers(0, 9), st.booleans()), max_size=1))]
    return timed


EARLY = st.sampled_from([None, 1, 4, 10, ProcessingTime(1), ProcessingTime(6)])
IDLE = st.sampled_from([None, 1, 3, 10])


def drawn(strategy: st.SearchStrategy[Any], seed: int, tries: int = 8) -> Any:
    """Return one example of a strategy, always the same; the first that is tried is a small one."""
    found = []

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=tries, database=None, phases=[hypothesis.Phase.generate], deadline=None)
    @hypothesis.given(strategy)
    def note(example: Any) -> None:
        found.append(example)

    note()
    return found[-1]
