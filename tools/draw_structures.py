"""Draws the data structures of windows from their real state: rows are letters, and aggregates are what they hold.

    python tools/draw_structures.py

A state is the concatenation of its rows, so that a cell shows which rows its aggregate covers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import draw_windows
from svg import Drawing

from muntin import agg, aggregators

CELL, HEIGHT, LEFT, TOP = 74, 30, 12, 28


def text_of(state: Any) -> str:
    """Return the rows that a state covers."""
    return "" if state is None else str(state[0])


def filled(kind: type[Any], letters: str, *, most: int | None = None, **options: Any) -> Any:
    """Return a window that letters went through, one by one; the oldest leave where there are more than `most`."""
    window = kind(agg.concat("v"), compiled=False, **options)
    for time, letter in enumerate(letters):
        window.insert(time, letter)
        if most is not None and len(window) > most:
            window.evict()
    return window


def cells(drawing: Drawing, top: float, texts: Sequence[str], kinds: Sequence[str]) -> None:
    """Draw slots side by side."""
    for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        drawing.box(LEFT + CELL * i, top, CELL - 3, HEIGHT, kind)
        drawing.text(LEFT + CELL * (i + 0.5) - 1, top + 19, text, "middle code")


def marks(drawing: Drawing, top: float, named: Mapping[str, int]) -> None:
    """Write names above the slots that marks point to; several marks may point to one."""
    by_place: dict[int, list[str]] = {}
    for name, place in named.items():
        by_place.setdefault(place, []).append(name)
    for place, names in by_place.items():
        drawing.text(LEFT + CELL * place, top - 6, ", ".join(names), "faint")
        drawing.line([(LEFT + CELL * place - 2, top - 4), (LEFT + CELL * place - 2, top + HEIGHT + 4)], "axis")


def legend(drawing: Drawing, top: float, entries: Mapping[str, str]) -> None:
    """Say what the colours mean, one below the other."""
    for i, (kind, text) in enumerate(entries.items()):
        drawing.box(LEFT, top + 20 * i, 12, 12, kind)
        drawing.text(LEFT + 20, top + 20 * i + 10, text)


def two_stacks() -> Drawing:
    """Return two stacks in one ring, after one eviction."""
    window = filled(aggregators.TwoStacks, "abcde")
    window.evict()
    for time, letter in enumerate("fghi", 5):
        window.insert(time, letter)
    state = window._window
    front, end, middle = state.marks
    drawing = Drawing("Two stacks: suffixes in the front, rows in the back")
    kinds = ["grey" if i < front else "blue" if i < middle else "orange" for i in range(end)]
    cells(drawing, TOP, ["" if i < front else text_of(state.slots[i]) for i in range(end)], kinds)
    marks(drawing, TOP, {"front": front, "middle": middle, "end": end})
    back, first = text_of(state.back[0]), text_of(state.slots[front])
    entries = {
        "blue": "the front: aggregates from here to the middle",
        "orange": f"the back: rows as they came, and beside them their aggregate, {back}",
        "grey": f"has left. The answer is one combine: {first} + {back}",
    }
    legend(drawing, TOP + HEIGHT + 18, entries)
    return drawing


def daba() -> Drawing:
    """Return Daba in the middle of its work."""
    state = filled(aggregators.Daba, "abcdefgh")._window
    front, end, left, right, across, back = state.marks
    drawing = Drawing("Daba: a front that is being finished from both ends")
    kinds = ["green" if i < left or across <= i < back else "blue" if i < right else "orange" for i in range(end)]
    cells(drawing, TOP, [text_of(state.slots[i]) for i in range(end)], kinds)
    marks(drawing, TOP, {"front": front, "left": left, "right": right, "across": across, "back": back, "end": end})
    entries = {
        "green": "finished: from here to the end of the front",
        "blue": f"lacks what is behind right, {text_of(state.sums[0])}: one combine each",
        "orange": "as it came: aggregated from the end towards right",
    }
    legend(drawing, TOP + HEIGHT + 18, entries)
    return drawing


def flat_fit() -> Drawing:
    """Return FlatFit after a query, with how far each slot reaches."""
    window = filled(aggregators.FlatFit, "abcde")
    window.query()
    window.evict()
    window.insert(5, "f")
    window.query()
    state = window._window
    first, end = state.marks
    drawing = Drawing("FlatFit: each slot knows how far its aggregate reaches")
    kinds = ["grey" if i < first else "green" if state.reach[i] == end else "blue" for i in range(end)]
    cells(drawing, TOP, ["" if i < first else text_of(state.slots[i]) for i in range(end)], kinds)
    marks(drawing, TOP, {"oldest": first, "end": end})
    for i in range(first, end):
        where = "the end" if state.reach[i] == end else text_of(state.slots[state.reach[i]])
        drawing.text(LEFT + CELL * (i + 0.5), TOP + HEIGHT + 16, f"to {where}", "middle faint")
    entries = {"green": "reaches the end", "blue": "reaches only to f, where the walk goes on", "grey": "has left"}
    legend(drawing, TOP + HEIGHT + 30, entries)
    return drawing


def slick_deque() -> Drawing:
    """Return the list of SlickDeque beside the rows of its window."""
    values = [5, 3, 4, 1, 2]
    window = aggregators.SlickDeque(agg.max("v"), compiled=False)
    window.bulk_insert(range(len(values)), values)
    state = window._window
    begin, stop = state.marks[2:4]
    listed = [int(row) for row in state.rows[begin:stop]]
    drawing = Drawing("SlickDeque: of the rows of a window, those that can still be the maximum")
    drawing.text(LEFT, TOP - 8, "the rows of the window", "faint")
    cells(drawing, TOP, [str(v) for v in values], ["blue" if i in listed else "grey" for i in range(len(values))])
    drawing.text(LEFT, TOP + HEIGHT + 22, "the list: the answer is its first", "faint")
    cells(drawing, TOP + HEIGHT + 30, [str(values[row]) for row in listed], ["green", *["blue"] * (len(listed) - 1)])
    entries = {"grey": "beaten by a younger row, which stays longer: forgotten"}
    legend(drawing, TOP + 2 * HEIGHT + 46, entries)
    return drawing


def flat_fat() -> Drawing:
    """Return the tree of FlatFat when its ring of leaves has wrapped."""
    window = aggregators.FlatFat(agg.concat("v"), capacity=8, compiled=False)
    window.bulk_insert(range(6), "abcdef")
    window.query()
    window.bulk_evict(3)
    window.bulk_insert(range(6, 10), "ghij")
    answer = window.query()
    nodes = [text_of(each) for each in window._window.slots]
    leaves = len(nodes) // 2
    live = [False] * leaves + [text in answer for text in nodes[leaves:]]
    for v in range(leaves - 1, 0, -1):
        live[v] = live[2 * v] and live[2 * v + 1] and nodes[v] == nodes[2 * v] + nodes[2 * v + 1]
    used = {3, 4}  # the suffix of the tree from the oldest row on, and the prefix up to the youngest
    assert "".join(nodes[v] for v in sorted(used)) == answer
    drawing = Drawing("FlatFat: a tree whose ring of leaves has wrapped")
    places = {}
    for v in range(1, 2 * leaves):
        level = v.bit_length() - 1
        width = CELL * leaves / 2**level
        places[v] = (LEFT + width * (v - 2**level + 0.5), TOP + 52 * level)
    for v in range(2, 2 * leaves):
        (x, y), (to_x, to_y) = places[v], places[v // 2]
        drawing.line([(x, y), (to_x, to_y + HEIGHT)], "grid")
    for v, (x, y) in places.items():
        kind = "green" if v in used else "blue" if live[v] else "grey"
        drawing.box(x - 29, y, 58, HEIGHT, kind)
        drawing.text(x, y + 19, nodes[v] if live[v] else "", "middle code")
    entries = {
        "green": f"what a query combines: {nodes[3]} + {nodes[4]}",
        "blue": "holds the aggregate of the leaves below it",
        "grey": "has old rows below it, and is not kept up",
    }
    legend(drawing, TOP + 52 * 4 + 4, entries)
    return drawing


def boundary() -> Drawing:
    """Return Boundary with a window that spans three chunks."""
    state = filled(aggregators.Boundary, "abcdefghi", most=6, range=6)._window
    front, end = state.marks[:2]
    edges = [int(each) for each in state.begins[:3]]
    drawing = Drawing("Boundary: chunks that are turned over when they are full")
    kinds = ["grey" if i < front else "blue" if i < edges[2] else "orange" for i in range(end)]
    for i in (front, edges[1]):
        kinds[i] = "green"
    cells(drawing, TOP, [text_of(state.slots[i]) for i in range(end)], kinds)
    marks(drawing, TOP, {"chunk 0": edges[0], "chunk 1": edges[1], "current": edges[2], "end": end})
    parts = [text_of(state.slots[front]), text_of(state.slots[edges[1]]), text_of(state.current[0])]
    entries = {
        "green": f"what a query combines, with the prefix of the current chunk: {' + '.join(parts)}",
        "blue": "aggregates from here to the end of the chunk",
        "orange": "rows as they came; their aggregate is beside the ring",
        "grey": "has left",
    }
    legend(drawing, TOP + HEIGHT + 18, entries)
    return drawing


def monoid_tree() -> Drawing:
    """Return the levels of a monoid tree after one eviction."""
    window = filled(aggregators.MonoidTree, "abcdefghijk")
    window.evict()
    answer = window.query()
    state = window._window
    size = len(state.times)
    drawing = Drawing("A monoid tree: levels of pairs, and two aggregates beside them")
    begin, level = 0, 0
    while size >= 2 and any(state.slots[begin : begin + size]):
        for i in range(size):
            text = text_of(state.slots[begin + i])
            if text:
                width, y = 46 * 2**level, TOP + (HEIGHT + 8) * level
                drawing.box(LEFT + width * i, y, width - 3, HEIGHT, "blue" if text in answer else "grey")
                drawing.text(LEFT + width * (i + 0.5), y + 19, text if text in answer else "", "middle code")
        begin, size, level = begin + size, size // 2, level + 1
    front, back = text_of(state.results[0]), text_of(state.results[1])
    assert front + back == answer
    entries = {
        "blue": "an aggregate of rows that are all in the window",
        "grey": "has left, or holds a row that has",
        "green": f"beside the levels: the front, {front}, and the back, {back}; the answer is one combine",
    }
    legend(drawing, TOP + (HEIGHT + 8) * level + 8, entries)
    return drawing


def slices() -> Drawing:
    """Return the slices that two kinds of windows share."""
    kinds = {"window.tumbling(6)": "window.tumbling(6)", "window.sliding(9, every=3)": "window.sliding(9, every=3)"}
    spans = [span for expression in kinds.values() for span in draw_windows.answers(expression)]
    edges = sorted({edge for start, end, _ in spans for edge in (start, end)})
    found = []
    for start, end in itertools.pairwise(edges):
        rows = [v for t, v in zip(draw_windows.MINUTES, draw_windows.VALUES, strict=True) if start <= t < end]
        found += [(start, end, sum(rows))] if rows else []
    return draw_windows.panels(
        "Slices: a row is combined once, and windows are made of slices",
        {"slices: cut at every edge of a window": found}
        | {label: draw_windows.answers(expression) for label, expression in kinds.items()},
    )


DRAWINGS = {
    "two_stacks": two_stacks,
    "daba": daba,
    "flat_fit": flat_fit,
    "slick_deque": slick_deque,
    "flat_fat_tree": flat_fat,
    "boundary": boundary,
    "monoid_tree": monoid_tree,
    "slices": slices,
}


def main() -> None:
    """Draw all."""
    for name, drawn in DRAWINGS.items():
        drawn().write(name)


if __name__ == "__main__":
    main()
