"""Writes docs/support.md: which window and which aggregation works where. A test compares the two.

python tools/support_matrix.py

Each cell is found by doing it, on a few rows with plain kernels: a call that is refused as unsupported is a dash.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("MUNTIN_UNCOMPILED", "1")  # read when muntin is imported: a few rows need no compiler

import pyarrow as pa

from muntin import Query, agg, policies, rows, serving, slide, window
from muntin.aggregations.aggregation import Aggregation
from muntin.errors import MuntinError
from muntin.kernels.cache import uncompiled
from muntin.query.plan import resolve
from muntin.spark.native_values import known
from muntin.windows.base import Window

PAGE = Path(__file__).parent.parent / "docs" / "support.md"
YES, NO = "yes", "-"
ROWS = pa.table(
    {
        "ts": pa.array(range(1, 13)).cast(pa.timestamp("s")),
        "k": ["a", "b"] * 6,
        "v": [float(i * 5 % 7) for i in range(12)],
        "n": pa.array([i % 5 for i in range(12)]),
        "flag": [i % 3 == 0 for i in range(12)],
        "text": list("abcabcabcabc"),
    }
)
ORDERED = ROWS.set_column(2, "v", pa.array([float(i) for i in range(12)]))


class Doubling(window.ContextFree):
    """A user's own windows: [1, 2), [2, 4), [4, 8), ..."""

    def next_edge(self, t: int) -> int:
        """Return the next edge after a time."""
        return 1 << t.bit_length() if t > 0 else 1

    def ended(self, previous: int, watermark: int) -> Any:
        """Yield the windows that end up to a watermark."""
        end = max(2, self.next_edge(previous))
        while end <= watermark:
            yield end // 2, end
            end *= 2


WINDOWS: Mapping[str, Window] = {
    'window.tumbling("1 minute")': window.tumbling("1 minute"),
    'window.sliding("1 hour", every="1 minute")': window.sliding("1 hour", every="1 minute"),
    'window.cumulative("1 day", every="1 hour")': window.cumulative("1 day", every="1 hour"),
    'window.calendar("1 month", zone="Europe/Berlin")': window.calendar("1 month", zone="Europe/Berlin"),
    'window.session("5 minutes")': window.session("5 minutes"),
    "window.tumbling(rows(3))": window.tumbling(rows(3)),
    "window.sliding(rows(3), every=rows(2))": window.sliding(rows(3), every=rows(2)),
    'window.sliding(rows(3), every="5 seconds")': window.sliding(rows(3), every="5 seconds"),
    'window.trailing("1 hour")': window.trailing("1 hour"),
    'window.trailing("1 hour", closed="left")': window.trailing("1 hour", closed="left"),
    'window.trailing("30 days", hop="5 minutes")': window.trailing("30 days", hop="5 minutes"),
    "window.trailing(rows(3))": window.trailing(rows(3)),
    'window.leading("1 hour")': window.leading("1 hour"),
    'window.frame("30 minutes", "30 minutes")': window.frame("30 minutes", "30 minutes"),
    "window.lifetime()": window.lifetime(),
    'window.delta("v", 4.0, every=2.0)': window.delta("v", 4.0, every=2.0),
    'window.punctuated("flag")': window.punctuated("flag"),
    "window.policy(policies.at_most_rows(3))": window.policy(policies.at_most_rows(3)),
    "a class of `window.ContextFree`": Doubling(),
}
"""One of each kind, as the page names it."""
ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "arg_max": ("v", "n"),
    "arg_min": ("v", "n"),
    "correlation": ("v", "n"),
    "covariance": ("v", "n"),
    "linear_regression": ("v", "n"),
    "count": (),
    "all": ("flag",),
    "any": ("flag",),
    "bit_and": ("n",),
    "bit_or": ("n",),
    "bit_xor": ("n",),
    "bloom": ("text",),
    "collect_distinct": ("text",),
    "count_distinct": ("text",),
    "hyperloglog": ("text",),
    "concat": ("text", ","),
    "ewm_mean": ("v", "1 hour"),
    "histogram": ("v", [0, 3, 6]),
    "quantile": ("v", 0.9),
    "top_k": ("v", 2),
    "bottom_k": ("v", 2),
    "first_k": ("v", 2),
    "last_k": ("v", 2),
    "longest_increasing_run": ("v",),
    "per": ("text", agg.sum("v")),
}
"""What an aggregation is given here, if that is not the column `v` alone."""
_NO_AGGREGATIONS = ("by_type", "define", "hash64", "bloom_contains")


def names() -> list[str]:
    """Return the names of all built-in aggregations."""
    return [name for name in agg.__all__ if name[0].islower() and name not in _NO_AGGREGATIONS]


def made(name: str) -> Aggregation:
    """Return an aggregation of this name."""
    found: Aggregation = getattr(agg, name)(*ARGUMENTS.get(name, ("v",)))
    return found


def tried(call: Callable[[], object]) -> str:
    """Say whether a call is supported."""
    try:
        with uncompiled():
            call()
    except (MuntinError, NotImplementedError):
        return NO
    return YES


def _streamed(query: Query) -> None:
    stream = query.stream()
    stream.push(ORDERED)
    stream.close()


def _asked(query: Query) -> None:
    stream = query.stream(history=ORDERED)
    stream.ask({"k": ["a"]})


def _served(query: Query) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/features.db"
        query.stream(serve=url).push(ORDERED)
        served = serving.open(url, query)
        try:
            served.ask({"k": ["a"], "ts": ORDERED["ts"][-1:]})
        finally:
            served.close()


def of_window(each: Window) -> dict[str, str]:
    """Return what can be done with a window, by the name of the column."""
    query = Query(each, {"sum": agg.sum("v"), "last": agg.last("text")}, key="k", allowed_lateness="1 minute")
    plain = Query(each, {"sum": agg.sum("v")}, key="k")
    streamed = tried(lambda: _streamed(query))
    return {
        "`run`": tried(lambda: query.run(ORDERED)),
        "`over`, `at=`": tried(lambda: query.over(ORDERED)),
        "`stream`": streamed,
        "`ask`": tried(lambda: _asked(query)),
        "[served](reference/serving.md)": tried(lambda: _served(plain)),
        "Spark, batch": tried(lambda: query.run(ORDERED)),  # by the same code, in Spark's tasks
        "Spark, stream": streamed,
        "SQL": tried(plain.to_sql),
        "Spark's SQL": tried(lambda: plain.to_sql(dialect="spark")),
    }


def of_aggregation(name: str) -> dict[str, str]:
    """Return what can be done with an aggregation, by the name of the column."""
    each = made(name)
    windows = Query(window.sliding("10 s", every="5 s"), {"x": each}, key="k")
    frames, tiles = (Query(one, {"x": each}, key="k") for one in (window.trailing("10 s"), window.lifetime()))
    streamed = tried(lambda: _streamed(windows))
    return {
        "`slide`": tried(lambda: slide(ORDERED, {"x": each}, range="3 s", times="ts")),
        "`run`, `stream`": streamed if tried(lambda: windows.run(ORDERED)) == YES else NO,
        "`over`, `ask`": tried(lambda: (frames.over(ORDERED), _asked(frames))),
        "of a lifetime": tried(lambda: (tiles.over(ORDERED), _asked(tiles))),
        "[served](reference/serving.md)": tried(lambda: _served(frames)),
        "state": "numbers" if resolve(windows, ROWS.schema).bind(windows.aggregates).fixed else "values",
        "taken back by": "`invert`" if each.invertible else "folding again",
        "Spark": "its own operators, or Python" if known(each) else streamed,
        "SQL": tried(windows.to_sql),
        "Spark's SQL": tried(lambda: windows.to_sql(dialect="spark")),
    }


def table(first: str, found: Mapping[str, dict[str, str]]) -> str:
    """Return a table in Markdown."""
    columns = [first, *next(iter(found.values()))]
    lines = [columns, ["---"] * len(columns), *([f"`{name}`", *cells.values()] for name, cells in found.items())]
    return (
        "".join(f"| {' | '.join(line)} |\n" for line in lines)
        .replace("`a class of `", "a class of `")
        .replace("``", "`")
    )


def page() -> str:
    """Return the page."""
    windows = table("window", {name: of_window(each) for name, each in WINDOWS.items()})
    aggregations = table("aggregation", {f"agg.{name}": of_aggregation(name) for name in names()})
    return f"""# What works where

Every window and every aggregation by every way to ask. `python tools/support_matrix.py` finds each cell by doing it,
and a test sees that the page is up to date. On Spark the same code runs in Spark's tasks, so that what `run` and
`stream` do is done there, too; SQL is what [`Query.to_sql`](sql.md) can write, and `muntin.sql` reads.

## Windows

{windows}
Frames have an answer at each row: `over` and `ask` are theirs. The others are windows, which `run` and streams emit.

## Aggregations

{aggregations}
A state of numbers is flat, and of a fixed size: rows are folded into it and let go. Others hold values. What is not
inverted is folded again from the rows or slices that are left.
"""


if __name__ == "__main__":
    PAGE.write_text(page())
