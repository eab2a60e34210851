"""`Stream.ask`, five windows of two aggregates of a million cards: one card in less than a millisecond, and in bulk.

Card payments of 30 days, four per card; count and sum of the last hour, six hours, day, week and 30 days, excluding
rows with the point's own time. The rivals are the least that Python can do for this one query, a dict of sorted lists
with bisection and no types, tables or late rows, and pandas, which scans all rows for one card, and joins rows and
points for many. For one card the 99th percentile is compared, in CPU time; in bulk the points per second.
"""

from __future__ import annotations

import gc
import statistics
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
from harness import OURS, Entrant, Figure, Timing, check_equal, race, rounds_for, rows_for

from muntin import Query, agg, window

CARDS, PAYMENTS, POINTS = 1_000_000, 4, 200_000
HOUR = 3600 * 10**6
LENGTHS = {"hour": HOUR, "six": 6 * HOUR, "day": 24 * HOUR, "week": 168 * HOUR, "month": 720 * HOUR}
AGGREGATES = {"n": agg.count(), "spent": agg.sum("v")}


def query(**options: Any) -> Query:
    """Return the query; with a hop it is answered from tiles."""
    windows = {name: window.trailing(length, closed="left", **options) for name, length in LENGTHS.items()}
    return Query(windows, AGGREGATES, key="card", time="t", watermark=60 * 10**6)


def payments(cards: int) -> pa.Table:
    """Return rows in time order."""
    chance = np.random.default_rng(5)
    count = cards * PAYMENTS
    times = np.sort(chance.integers(0, LENGTHS["month"], count))
    return pa.table({"t": times, "card": chance.integers(0, cards, count), "v": chance.integers(0, 1000, count) / 4})


class Lists:
    """The same by hand: the times of each card, and the sums up to each."""

    def __init__(self, data: pa.Table) -> None:
        self.times: dict[int, list[int]] = defaultdict(list)
        values: dict[int, list[float]] = defaultdict(list)
        for t, card, v in zip(*(data[name].to_pylist() for name in ("t", "card", "v")), strict=True):
            self.times[card].append(t)
            values[card].append(v)
        self.sums = {card: [0.0, *accumulate(each)] for card, each in values.items()}

    def ask(self, card: int, now: int) -> dict[str, Any]:
        """Return the ten answers for a card."""
        times, answer = self.times.get(card, []), {}
        last = bisect_left(times, now)
        for name, length in LENGTHS.items():
            first = bisect_left(times, now - length)
            answer[f"n_{name}"] = last - first
            answer[f"spent_{name}"] = self.sums[card][last] - self.sums[card][first] if first < last else None
        return answer


def one_by_pandas(frame: pandas.DataFrame, card: int, now: int) -> dict[str, Any]:
    """Return the ten answers for a card."""
    mine, answer = frame[frame["card"] == card], {}
    for name, length in LENGTHS.items():
        held = mine[(mine["t"] >= now - length) & (mine["t"] < now)]
        answer |= {f"n_{name}": len(held), f"spent_{name}": held["v"].sum() if len(held) else None}
    return answer


def many_by_pandas(frame: pandas.DataFrame, cards: Any, now: int) -> pandas.DataFrame:
    """Return the ten answers for cards."""
    joined = pandas.DataFrame({"card": cards, "point": np.arange(len(cards))}).merge(frame, on="card")
    out = pandas.DataFrame(index=np.arange(len(cards)))
    for name, length in LENGTHS.items():
        held = joined[(joined["t"] >= now - length) & (joined["t"] < now)].groupby("point")["v"].agg(["size", "sum"])
        out[f"n_{name}"] = held["size"].reindex(out.index, fill_value=0)
        out[f"spent_{name}"] = held["sum"].reindex(out.index)
    return out


def timed(ask: Callable[[int], Any], cards: list[int]) -> list[float]:
    """Return the CPU time of each question, in nanoseconds, without the first ones, which warm up."""
    taken = []
    for card in cards:
        begun = time.thread_time_ns()
        ask(card)
        taken.append(time.thread_time_ns() - begun)
    return taken[len(taken) // 20 :]


def one(streams: dict[str, Any], lists: Lists, frame: pandas.DataFrame, cards: list[int], now: int) -> Figure:
    """Ask for one card at a time."""
    ways: dict[str, tuple[Callable[[int], Any], list[int]]] = {
        name: (lambda card, stream=stream: stream.ask({"card": [card]}), cards) for name, stream in streams.items()
    }
    ways["dict of lists"] = (lambda card: lists.ask(card, now), cards)
    ways["pandas"] = (lambda card: one_by_pandas(frame, card, now), cards[:40])
    times, worst = {}, {}
    for name, (ask, asked) in ways.items():
        taken = timed(ask, asked)
        worst[name] = float(np.percentile(taken, 99))
        times[name] = Timing(statistics.median(taken), min(taken), f"99 of 100 within {worst[name] / 1e3:,.0f} us")
    what = f"one card of {len(lists.times) / 1e6:g} M, 5 windows x 2 aggregates, 99 of 100 within"
    note = f"pandas takes {worst['pandas'] / worst[OURS]:.0f} times as long, a dict of lists 1/"
    note += f"{worst[OURS] / worst['dict of lists']:.0f}"
    return Figure("ask", what, worst[OURS] / 1e3, 1000.0, False, " us", times, note)


def bulk(streams: dict[str, Any], lists: Lists, frame: pandas.DataFrame, cards: Any, now: int, rounds: int) -> Figure:
    """Ask for many cards at once."""
    points, listed = pa.table({"card": cards}), cards.tolist()
    entrants = [Entrant(name, lambda each=each: each.ask(points), len(cards)) for name, each in streams.items()]
    entrants.append(Entrant("dict of lists", lambda: [lists.ask(card, now) for card in listed], len(cards)))
    entrants.append(Entrant("pandas", lambda: many_by_pandas(frame, cards, now), len(cards), apart=True))
    times = race(entrants, rounds)
    rate = 1e3 / times[OURS].median
    what = f"{len(cards) / 1e6:g} M cards of {len(lists.times) / 1e6:g} M at once, 5 windows x 2 aggregates"
    rivals = ", ".join(f"{name} {1e3 / times[name].median:.2f}" for name in ("dict of lists", "pandas"))
    note = f"M points a second, each with ten answers; {rivals}"
    return Figure("ask", what, rate, 1.0, True, " M points/s", times, note)


def check(streams: dict[str, Any], lists: Lists, frame: pandas.DataFrame, cards: Any, now: int) -> None:
    """Reject entrants that disagree; a frame that begins at a multiple of the hop may hold more."""
    found = streams[OURS].ask({"card": cards}).to_pandas()
    alone = pa.concat_tables([streams[OURS].ask({"card": [card]}) for card in cards[:100].tolist()]).to_pandas()
    pandas.testing.assert_frame_equal(alone, found[:100])
    by_hand = pandas.DataFrame([lists.ask(card, now) for card in cards.tolist()])
    by_pandas = many_by_pandas(frame, cards, now)
    for name in by_hand.columns:
        check_equal(by_hand[name].astype(float), found[name].astype(float), f"ask: {name}")
        check_equal(by_hand[name].astype(float), by_pandas[name].astype(float), f"ask by pandas: {name}")


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures: one card, and many."""
    data = payments(rows_for(quick, CARDS))
    streams = {OURS: query().stream(history=data), f"{OURS}, tiles": query(hop=HOUR // 12).stream(history=data)}
    lists, frame, now = Lists(data), data.to_pandas(), int(data["t"][-1].as_py())
    chance = np.random.default_rng(6)
    cards = chance.integers(0, rows_for(quick, CARDS), rows_for(quick, POINTS))
    check(streams, lists, frame, cards[:2000], now)
    gc.freeze()  # else the collector would scan a million lists now and then, whoever is timed
    yield one(streams, lists, frame, cards[:2000].tolist(), now)
    yield bulk(streams, lists, frame, cards, now, rounds_for(quick, 5))
