"""Tables of changes: rows of which later ones take some back, and which of them stay, found one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from muntin.query.changes import ADDING, TAKING

OP = "op"
COMES = st.sampled_from([*ADDING, None])
GOES = st.sampled_from(TAKING)


def surviving(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows that stay: each deletion takes the latest equal row before it, else the next one after it."""
    alive: list[tuple[int, dict[str, Any]]] = []
    waiting: list[tuple[Any, ...]] = []
    for i, row in enumerate(rows):
        value = tuple(row[name] for name in names)
        if row[OP] in TAKING:
            same = [j for j, (_, other) in enumerate(alive) if tuple(other[name] for name in names) == value]
            if same:
                del alive[same[-1]]
            else:
                waiting.append(value)
        elif value in waiting:
            waiting.remove(value)
        else:
            alive.append((i, row))
    return [row for _, row in alive]


@st.composite
def changelogs(draw: Any, rows: Sequence[dict[str, Any]], *, wrong: bool = True) -> list[dict[str, Any]]:
    """Return rows with deletions of some among them: after their row, some before it or of a row that never came."""
    placed = [(float(i), {**row, OP: draw(COMES)}) for i, row in enumerate(rows)]
    most = len(rows)
    for i, row in enumerate(rows):
        kind = draw(st.sampled_from(["stays"] * 6 + ["goes"] * 4 + ["moves", "twice", "before", "unknown"]))
        if kind == "stays" or (kind in ("before", "unknown") and not wrong):
            continue
        gone = {**row, OP: draw(GOES)}
        after = i + draw(st.sampled_from([0.5, 0.5, 1.5, 3.5, most + 0.5]))
        if kind == "before":
            after = i - draw(st.sampled_from([0.5, 1.5, 3.5]))
        if kind == "unknown":
            gone["t"] += 1
        placed.append((after, gone))
        if kind == "moves":
            placed.append((after + 0.1, {**row, "t": row["t"] + draw(st.integers(-3, 3)), OP: draw(COMES)}))
        if kind == "twice":
            placed.append((after + 0.2, {**row, OP: draw(COMES)}))
    return [row for _, row in sorted(placed, key=lambda pair: pair[0])]
