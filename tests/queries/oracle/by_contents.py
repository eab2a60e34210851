"""Windows that depend on what is in the rows: delta and punctuated ones, policies, context-aware ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from queries.oracle.results import NEVER, Found, Row, aggregate

from muntin import window as w
from muntin.durations import in_unit_of
from muntin.kernels.source import Function
from muntin.policies import Clause, Policy
from muntin.types import ColumnType
from muntin.windows.kinds.delta import Delta
from muntin.windows.kinds.policy import Programmed
from muntin.windows.kinds.punctuated import Punctuated


def delta(definition: Delta, rows: list[Row]) -> list[Found]:
    valued = [(row, row.values[definition.column]) for row in rows]
    valued = [(row, value) for row, value in valued if value is not None and value == value]
    low: dict[Any, Any] = {}
    for _, value in valued:
        k = math.floor((value - definition.offset) / definition.every) + 1
        while k * definition.every + definition.offset + definition.range > value:
            start = k * definition.every + definition.offset
            if start <= value:
                low[k] = start
            k -= 1
    found = []
    for start in sorted(low.values()):
        end = start + definition.range
        members = tuple(row for row, value in valued if start <= value < end)
        due = min((row.time for row, value in valued if value >= end), default=NEVER)
        found.append(Found(start, members[0].time, members[-1].time, members, due, values=(start, end)))
    return found


def punctuated(definition: Punctuated, rows: list[Row]) -> list[Found]:
    found: list[Found] = []
    members: list[Row] = []

    def add(due: float) -> None:
        start, end = members[0].time, members[-1].time
        which = sum((each.start, each.end) == (start, end) for each in found)
        found.append(Found((start, end, which), start, end, tuple(members), due))
        members.clear()

    for row in rows:
        members.append(row)
        if row.values[definition.column]:
            add(row.time)
    if members:
        add(NEVER)
    return found


def programmed(definition: Programmed, rows: list[Row], time_type: ColumnType) -> list[Found]:
    goes = plain_policy(definition.policy, time_type)
    members = [row for row in rows if row.judged]
    found = []
    for row in rows[len(members) :]:
        members.append(row)
        gone = max((n for n in range(1, len(members) + 1) if goes(members, members[:n])), default=0)
        members = members[gone:]
        if members:
            name = (row.time, row.number)
            found.append(Found(name, members[0].time, row.time, tuple(members), row.time))
    return found


def plain_policy(policy: Policy, time: ColumnType) -> Callable[[list[Row], list[Row]], bool]:
    """Return a policy as a function of two lists of rows."""
    conditions = [plain_condition(each, time) for each in policy.conditions]

    def goes(whole: list[Row], old: list[Row]) -> bool:
        return bool(eval(policy.joined.format(*(each(whole, old) for each in conditions))))

    return goes


def plain_condition(condition: Clause, time: ColumnType) -> Callable[[list[Row], list[Row]], bool]:
    """Return a condition as a function of two lists of rows."""
    function = runnable(condition.function)
    spans = {name: in_unit_of(span, time, name) for name, span in condition.spans.items()}

    def seen(members: list[Row]) -> SimpleNamespace:
        answers = {name: aggregate(each, members) for name, each in condition.aggregations.items()}
        return SimpleNamespace(**{name: 0 if answer is None else answer for name, answer in answers.items()})

    return lambda whole, old: bool(function(seen(whole), seen(old), **spans))


def runnable(function: Function) -> Any:
    """Return a captured function as one to call."""
    space = {name: runnable(each) if isinstance(each, Function) else each for name, each in function.outer.items()}
    exec(function.text, space)
    return space[function.name]


def context_aware(definition: w.ContextAware, rows: list[Row]) -> list[Found]:
    edges = w.Edges()
    for row in sorted(rows, key=lambda row: row.number):
        definition.on_tuple(row.time, {name: row.values[name] for name in definition.columns}, edges)
    between = [-NEVER, *edges, NEVER]
    found = []
    for low, high in pairwise(between):
        members = tuple(row for row in rows if low <= row.time < high)
        if members:
            start = members[0].time if low == -NEVER else int(low)
            end = members[-1].time + 1 if high == NEVER else int(high)
            found.append(Found((start, end), start, end, members, high))
    return found
