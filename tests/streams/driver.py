"""Plays the steps of a conversation to a strategy alone, without a stream around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from queries import oracle

from muntin.columns import read_column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.strategy import Batch, Strategy

TYPES = {"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "km": pa.int64(), "mark": pa.bool_()}


class Driver:
    """What a stream does around a strategy, in its simplest form."""

    def __init__(self, query: oracle.Query, make: Any) -> None:
        self.query = query
        columns = {c for each in query.aggregates.values() for c in each.reads}
        columns |= {c for each in query.windows for c in each.columns}
        self.columns = sorted(columns)
        plan = Plan(
            windows=dict(enumerate(query.resolved)),
            aggregates=query.aggregates,
            types={name: read_column(pa.array([], TYPES[name]), name).type for name in self.columns},
            time_type=query.time_type,
            lateness=query.lateness,
            partial=query.partial,
            emit_empty=query.emit_empty,
        )
        self.make = lambda: make(plan)
        self.strategy: Strategy = self.make()
        self.keys: list[tuple[Any, ...]] = []
        self.watermark, self.seen, self.horizon = BEFORE_TIME, BEFORE_TIME, BEFORE_TIME
        self.late: list[Mapping[str, Any]] = []
        self.arrived = 0

    def push(self, rows: Iterable[Mapping[str, Any]]) -> list[oracle.Result]:
        rows = list(rows)
        if rows:
            for row in rows:
                if self.query.key_of(row) not in self.keys:
                    self.keys.append(self.query.key_of(row))
            batch = Batch(
                keys=np.array([self.keys.index(self.query.key_of(row)) for row in rows], np.int64),
                times=np.array([row[self.query.time] for row in rows], np.int64),
                columns={
                    name: read_column(pa.array([row[name] for row in rows], TYPES[name]), name) for name in self.columns
                },
                arrived=self.arrived,
            )
            taken = self.strategy.take(batch, self.watermark)
            self.late += [row for row, each in zip(rows, taken, strict=True) if not each]
            self.arrived += len(rows)
            self.seen = max(self.seen, *(row[self.query.time] for row in rows), self.seen)
            self.horizon = max(self.horizon, self.seen)
        reached = self.seen - self.query.delay if self.seen > BEFORE_TIME else BEFORE_TIME
        return self._emit(max(self.watermark, reached))

    def advance(self, watermark: int) -> list[oracle.Result]:
        self.horizon = max(self.horizon, watermark)
        return self._emit(max(self.watermark, watermark))

    def close(self) -> list[oracle.Result]:
        return self._emit(END_OF_TIME)

    def restart(self) -> None:
        saved = self.strategy.save()
        self.strategy = self.make()
        self.strategy.load(saved)

    def _emit(self, watermark: int) -> list[oracle.Result]:
        self.watermark = watermark
        answers = self.strategy.emit(watermark, self.horizon)
        self.strategy.check()
        return [result for each in answers for result in self._results(each)]

    def _results(self, answers: Any) -> Iterable[oracle.Result]:
        aggregates = {name: array.to_pylist() for name, array in answers.aggregates.items()}
        for i in range(len(answers.keys)):
            yield oracle.Result(
                self.keys[answers.keys[i]],
                int(answers.window_ids[i]),
                int(answers.start[i]),
                int(answers.end[i]),
                {name: values[i] for name, values in aggregates.items()},
                int(answers.revision[i]),
                bool(answers.retracted[i]),
                rows=None if answers.rows is None else (int(answers.rows[0][i]), int(answers.rows[1][i])),
                values=None if answers.values is None else (answers.values[0][i], answers.values[1][i]),
            )
