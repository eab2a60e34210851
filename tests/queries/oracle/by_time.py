"""Windows whose edges are times: tumbling, sliding and cumulative ones, one's own, sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queries.oracle.results import Found, Row

from muntin import window as w
from muntin.windows.kinds.cumulative import Cumulative
from muntin.windows.kinds.session import Session
from muntin.windows.kinds.session_by_column import SessionByColumn
from muntin.windows.kinds.sliding import Sliding


def by_time(spans: Iterable[tuple[int, int]], rows: list[Row]) -> list[Found]:
    found = []
    for start, end in spans:
        members = tuple(row for row in rows if start <= row.time < end)
        if members:
            found.append(Found((start, end), start, end, members, end))
    return found


def sliding_spans(definition: Sliding, low: int, high: float) -> list[tuple[int, int]]:
    """Return the windows that hold a time from low to high."""
    start = low - (low - definition.offset) % definition.every
    while start - definition.every + definition.range > low:
        start -= definition.every
    spans = []
    while start <= high:
        spans.append((start, start + definition.range))
        start += definition.every
    return spans


def cumulative_spans(definition: Cumulative, low: int, high: float) -> list[tuple[int, int]]:
    start = low - (low - definition.offset) % definition.range
    spans = []
    while start <= high:
        ends = (start + (j + 1) * definition.every for j in range(definition.range // definition.every))
        spans += [(start, end) for end in ends if end > low]
        start += definition.range
    return spans


def sliding(definition: Sliding, rows: list[Row]) -> list[Found]:
    return by_time(sliding_spans(definition, rows[0].time, rows[-1].time), rows)


def cumulative(definition: Cumulative, rows: list[Row]) -> list[Found]:
    return by_time(cumulative_spans(definition, rows[0].time, rows[-1].time), rows)


def empty(definition: Any, found: list[Found], horizon: float) -> list[Found]:
    """Return the windows without rows, from the first with one to the last that ends by the horizon."""
    spans = sliding_spans if isinstance(definition, Sliding) else cumulative_spans
    first = min(row.time for each in found for row in each.members)
    held = {each.name for each in found}
    candidates = (span for span in spans(definition, first, horizon) if span[1] <= horizon)
    return [Found(span, *span, (), span[1]) for span in candidates if span not in held]


def ones_own(definition: w.ContextFree, rows: list[Row]) -> list[Found]:
    spans: list[tuple[int, int]] = []
    previous, last = rows[0].time, rows[-1].time
    while (edge := definition.next_edge(previous)) is not None:
        ended = list(definition.ended(previous, edge))
        if any(start > last for start, _ in ended):
            break
        spans += ended
        previous = edge
    return by_time(spans, rows)


def sessions_by_column(definition: SessionByColumn, rows: list[Row]) -> list[Found]:
    """Return the windows [t, t + gap) that meet, joined; a row without a gap is in none."""
    groups: list[tuple[list[Row], int]] = []
    for row in rows:
        gap = row.values[definition.gap_column]
        if not gap:
            continue
        if groups and row.time <= groups[-1][1]:
            members, end = groups[-1]
            groups[-1] = [*members, row], max(end, row.time + gap)
        else:
            groups.append(([row], row.time + gap))
    return [Found((m[0].time, end), m[0].time, end, tuple(m), end) for m, end in groups]


def sessions(definition: Session, rows: list[Row]) -> list[Found]:
    groups: list[list[Row]] = []
    for row in rows:
        if groups and row.time <= groups[-1][-1].time + definition.gap:
            groups[-1].append(row)
        else:
            groups.append([row])
    ends = [group[-1].time + definition.gap for group in groups]
    return [
        Found((group[0].time, end), group[0].time, end, tuple(group), end)
        for group, end in zip(groups, ends, strict=True)
    ]
