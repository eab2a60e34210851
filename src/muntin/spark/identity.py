"""What identifies a window among the answers of a query, in SQL and by name."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.query.query import Query
from muntin.spark.quoting import quoted
from muntin.tables.latest import bound_columns


def identity(names: Sequence[str], bounds: Sequence[str], query: Query | None = None, alias: str = "") -> list[str]:
    """Return SQL expressions that together identify a window: of key columns, `window_id` and the fields of `window`.

    A bound is null for windows of another sort, and where late rows may move it. `alias` is a table's.

    >>> identity(["k"], ["start", "end"], alias="t")
    ['t.`k`', 't.window_id', 't.window.start', 't.window.end']
    """
    of = f"{alias}." if alias else ""
    found = [f"{of}{quoted(name)}" for name in names] + [f"{of}window_id"]
    moving = moving_bounds(query)
    taken: list[str] = []
    """Whether a window is of one of the sorts before."""
    for sort, fields in bound_columns(list(bounds)).items():
        when = [f"NOT ({each})" for each in taken]
        if sort != "times":
            when.append(f"{of}window.{fields[0]} IS NOT NULL")
        for name in fields:
            fixed = [f"{of}window_id NOT IN ({', '.join(map(str, moving[name]))})"] if moving.get(name) else []
            conditions = " AND ".join([*when, *fixed])
            field = f"{of}window.{name}"
            found.append(f"CASE WHEN {conditions} THEN {field} END" if conditions else field)
        taken.append(f"{of}window.{fields[0]} IS NOT NULL")
    return found


def moving_bounds(query: Query | None) -> dict[str, list[int]]:
    """Return the bounds that late rows may move, and the window_ids of the windows that have them.

    >>> from muntin import agg, rows, window
    >>> moving_bounds(Query(window.tumbling(rows(3)), {"n": agg.count()}, partial=True, emit_early=1))
    {'to_row': [0], 'start': []}
    """
    return {"to_row": _filling(query), "start": _moved(query)}


def _filling(query: Query | None) -> list[int]:
    """Return the windows emitted before they are full: their end only shows how full they were."""
    if query is None or not query.partial or query.emit_early is None:
        return []
    return [i for i, each in enumerate(query.windows) if not each.each_row]


def _moved(query: Query | None) -> list[int]:
    """Return the windows whose starts late rows may move."""
    return [i for i, each in enumerate(query.windows) if each.start_moves] if query else []
