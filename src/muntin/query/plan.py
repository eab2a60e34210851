"""A query resolved: what is to be answered, once the types of the columns are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muntin.aggregations.aggregation import Aggregation
from muntin.durations import in_unit_of
from muntin.query.query import Query
from muntin.types import ColumnType
from muntin.windows.base import Window


@dataclass(frozen=True)
class Plan:
    """What a strategy is to answer, with everything settled that the types of the columns decide."""

    windows: Mapping[int, Window]
    """The definitions by their window_id, resolved."""
    aggregates: Mapping[str, Aggregation]
    types: Mapping[str, ColumnType]
    """The types of the columns that aggregates and windows read. They never change."""
    time_type: ColumnType
    lateness: int = 0
    """For how long after it was due a window may change, in the unit of the times."""
    partial: bool = False
    emit_empty: bool = False
    early: bool = False
    """Whether windows are emitted before they are due, too."""
    ordered: bool = False
    """Whether it was promised that rows come in the order of their times."""
    merge: str = "auto"
    """What merges slices into windows (see mergers.py)."""


def plan_of(query: Query, windows: Mapping[int, Window], types: Mapping[str, ColumnType], time: ColumnType) -> Plan:
    """Return what is to be answered, now that the types of the columns are known."""
    return Plan(
        windows={i: each.resolve(time) for i, each in windows.items()},
        aggregates=query.aggregates,
        types=types,
        time_type=time,
        lateness=in_unit_of(query.allowed_lateness, time, "allowed_lateness"),
        partial=query.partial,
        emit_empty=query.emit_empty,
        early=query.emit_early is not None,
        ordered=query.ordered,
    )
