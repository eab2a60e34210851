"""Windows by hand: which rows each holds, by the definition of its kind and nothing else. Times are minutes."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

MIDNIGHT = datetime.datetime(2024, 3, 1)
Row = dict[str, Any]
Windows = dict[tuple[Any, ...], list[Row]]
"""The rows of each window, by its keys, its start and its end."""

SALES: list[Row] = [
    {"minute": minute, "amount": amount, "shop": shop, "paid": paid}
    for minute, amount, shop, paid in [
        (481, 10, "north", True),
        (483, 7, "south", True),
        (488, 4, "north", False),
        (489, None, "south", True),
        (490, 9, "north", None),
        (497, 2, "south", False),
        (499, 5, "north", True),
        (516, 8, "north", True),
        (516, 1, "south", True),
    ]
]
"""What some shops sold, from eight in the morning on."""


def table(rows: Iterable[Row] = SALES) -> pa.Table:
    """Return rows with their time as a timestamp, too."""
    rows = list(rows)
    times = [MIDNIGHT + datetime.timedelta(minutes=row["minute"]) for row in rows]
    return pa.Table.from_pylist(rows).append_column("sold_at", pa.array(times, pa.timestamp("us")))


def answered(answer: pa.Table, key: tuple[str, ...], *aggregates: str) -> set[tuple[Any, ...]]:
    """Return an answer as tuples of keys, start and end in minutes, and aggregates."""
    found = {
        (
            *(row[name] for name in key),
            *((row["window"][bound] - MIDNIGHT) / datetime.timedelta(minutes=1) for bound in ("start", "end")),
            *(row[name] for name in aggregates),
        )
        for row in answer.to_pylist()
    }
    assert len(found) == answer.num_rows
    return found


def expected(windows: Windows, *aggregates: Callable[[list[Row]], Any]) -> set[tuple[Any, ...]]:
    """Return what an answer must be, given the windows and functions of their rows."""
    return {(*identity, *(compute(rows) for compute in aggregates)) for identity, rows in windows.items()}


def amounts(rows: list[Row]) -> list[int]:
    """Return the amounts that are known."""
    return [row["amount"] for row in rows if row["amount"] is not None]


def total(rows: list[Row]) -> int | None:
    """Return the sum of the amounts; None where none is known."""
    return sum(amounts(rows)) if amounts(rows) else None


def hop(rows: Iterable[Row], size: int, slide: int, offset: int = 0, key: tuple[str, ...] = ()) -> Windows:
    """Return windows of a size, one every slide: those of all that begin within a day of a row which hold it."""
    found: Windows = defaultdict(list)
    for row in rows:
        for start in range(offset - 10 * slide, offset + 2000, slide):
            if start <= row["minute"] < start + size:
                found[*(row[name] for name in key), start, start + size].append(row)
    return found


def cumulate(rows: Iterable[Row], size: int, step: int, offset: int = 0) -> Windows:
    """Return windows that grow by a step until they have their size."""
    found: Windows = defaultdict(list)
    for row in rows:
        for start in range(offset - size, 2000, size):
            for end in range(start + step, start + size + 1, step):
                if start <= row["minute"] < end:
                    found[start, end].append(row)
    return found


def session(rows: Iterable[Row], gap: int, key: tuple[str, ...] = ()) -> Windows:
    """Return rows of a key that follow each other by at most a gap."""
    found: Windows = {}
    open_ones: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["minute"]):
        of = tuple(row[name] for name in key)
        held = open_ones.get(of)
        if held is None or row["minute"] - held[-1]["minute"] > gap:
            held = open_ones[of] = []
        elif held:
            del found[*of, held[0]["minute"], held[-1]["minute"] + gap]
        held.append(row)
        found[*of, held[0]["minute"], row["minute"] + gap] = held
    return found
