"""Plays the oracle's steps to a strategy, and says where the two differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from queries import oracle
from queries.strategies import Advance
from queries.test_run import plain

from muntin.aggregators.states import close
from muntin.columns import read_column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import INT64, column_type

TYPES = {"v": INT64, "km": INT64, "mark": column_type(pa.bool_())}


def plan_of(query: oracle.Query, **more: Any) -> Plan:
    return Plan(
        windows=dict(enumerate(query.resolved)),
        aggregates=query.aggregates,
        types=TYPES,
        time_type=INT64,
        lateness=query.lateness,
        partial=query.partial,
        emit_empty=query.emit_empty,
        **more,
    )


class Duel:
    """A stream in small: it numbers keys, keeps the watermark, and compares every call with the oracle's."""

    def __init__(self, query: oracle.Query, kind: type[Strategy], **more: Any) -> None:
        self.query, self.kind, self.more = query, kind, more
        self.strategy = kind(plan_of(query, **more))
        self.oracle = oracle.Stream(query)
        self.keys: dict[Any, int] = {}
        self.watermark, self.seen, self.horizon, self.arrived = BEFORE_TIME, BEFORE_TIME, BEFORE_TIME, 0
        self.late: list[Any] = []

    def step(self, step: Any) -> None:
        if isinstance(step, Advance):
            self.horizon = max(self.horizon, step.watermark)
            ours, theirs = self.emit(max(self.watermark, step.watermark)), self.oracle.advance(step.watermark)
        else:
            ours, theirs = self.push(step.rows), self.oracle.push(step.rows)
        self.compare(ours, theirs)
        assert self.late == self.oracle.late

    def ahead(self) -> None:
        self.compare(self.emit(self.watermark, early=True), self.oracle._emit(self.oracle.watermark, early=True))

    def close(self) -> None:
        self.compare(self.emit(END_OF_TIME), self.oracle.close())

    def push(self, rows: list[dict[str, Any]]) -> list[Answers]:
        if rows:
            taken = self.strategy.take(self.batch(rows), self.watermark)
            self.late += [row for row, ok in zip(rows, taken, strict=True) if not ok]
        self.arrived += len(rows)
        self.seen = max([self.seen, *(row["t"] for row in rows)])
        self.horizon = max(self.horizon, self.seen)
        return self.emit(max(self.watermark, self.seen - self.query.delay))

    def batch(self, rows: list[dict[str, Any]]) -> Batch:
        numbers = [self.keys.setdefault(self.query.key_of(row), len(self.keys)) for row in rows]
        columns = {name: read_column(pa.array([r[name] for r in rows], k.logical), name) for name, k in TYPES.items()}
        return Batch(np.array(numbers), np.array([row["t"] for row in rows]), columns, self.arrived)

    def emit(self, watermark: int, **words: Any) -> list[Answers]:
        self.watermark = watermark
        found = self.strategy.emit(watermark, self.horizon, **words)
        self.strategy.check()
        return found

    def reload(self) -> None:
        """Go on with another strategy that has loaded what this one saved."""
        saved = self.strategy.save()
        held = self.strategy.held_keys().tolist()
        self.strategy = self.kind(plan_of(self.query, **self.more))
        self.strategy.load(saved)
        self.strategy.check()
        assert self.strategy.held_keys().tolist() == held

    def compare(self, ours: list[Answers], theirs: list[oracle.Result]) -> None:
        keys = {number: key for key, number in self.keys.items()}
        mine = sorted((row for each in ours for row in said(each, keys)), key=repr)
        truth = sorted(map(expected, theirs), key=repr)
        same = len(mine) == len(truth) and all(close(a, b) for a, b in zip(mine, truth, strict=True))
        assert same, f"\nours  {mine}\ntruth {truth}"


def said(answers: Answers, keys: dict[int, Any]) -> list[tuple[Any, ...]]:
    none = (None, None)
    columns = {name: each.to_pylist() for name, each in answers.aggregates.items()}
    rows = []
    for i, number in enumerate(answers.keys.tolist()):
        spans = [none if s is None else (int(s[0][i]), int(s[1][i])) for s in (answers.rows, answers.values)]
        is_empty = spans[0] != none and spans[0][0] == spans[0][1]  # a frame by rows without any has no times
        times = none if is_empty else (int(answers.start[i]), int(answers.end[i]))
        head = (keys[number], int(answers.window_ids[i]), *times, *spans)
        tail = (int(answers.revision[i]), bool(answers.retracted[i]), [plain(each[i]) for each in columns.values()])
        rows.append((*head, *tail))
    return rows


def expected(r: oracle.Result) -> tuple[Any, ...]:
    none = (None, None)
    values = [plain(each) for each in r.aggregates.values()]
    return (r.key, r.window_id, r.start, r.end, r.rows or none, r.values or none, r.revision, r.retracted, values)
