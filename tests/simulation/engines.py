"""What a simulated pipeline runs: a stream, or the functions that Spark runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from queries import oracle, streams
from queries.strategies import Advance, Push, Tick
from spark.model import Expected, Machine

Refusing = Callable[[], AbstractContextManager[None]]
"""Within it a call may be refused memory."""
Said = tuple[list[oracle.Result], list[Any]]
"""The windows that a step emits, and its late rows."""


class StreamEngine:
    """`Query.stream`, and the oracle."""

    survives = True
    """Whether it goes on after a call that failed, as if that had not been made."""

    def __init__(self, query: oracle.Query, rows: list[dict[str, Any]], strategy: str) -> None:
        self.query, self.rows, self.strategy = query, rows, strategy
        self.clock = streams.Clock()
        self.truth = oracle.Stream(query, self.clock)

    def start(self, saved: bytes | None) -> None:
        self.ours = streams.Stream(self.query, self.rows, self.clock, strategy=self.strategy)
        if saved is not None:
            self.ours.stream = streams.asked(self.query).stream(saved, strategy=self.strategy, clock=self.clock)

    def save(self) -> bytes:
        return self.ours.stream.snapshot()

    def do(self, step: Any, now: int, refusing: Refusing) -> Said:
        self.clock.now = now
        known = len(self.ours.late)
        call = self._call(step)
        with refusing():
            table = call()
        self.ours.stream.check()
        return self.ours.results(table), self.ours.late[known:]

    def _call(self, step: Any) -> Callable[[], Any]:
        stream = self.ours.stream
        if isinstance(step, Push):
            table = self.ours.table(step.rows)
            return lambda: stream.push(table)
        return lambda: stream.advance(step.watermark) if isinstance(step, Advance) else stream.tick()

    def expected(self, step: Any, now: int) -> Said:
        """Return what the oracle says; it is told each step once."""
        self.clock.now = now
        known = len(self.truth.late)
        if isinstance(step, Push):
            said = self.truth.push(step.rows)
        else:
            said = self.truth.advance(step.watermark) if isinstance(step, Advance) else self.truth.tick()
        return said, list(self.truth.late[known:])


class SparkEngine:
    """The functions that Spark runs; it gives them the state of the last batch that was completed."""

    survives = False

    def __init__(self, query: oracle.Query, schema: Any, buckets: int, sliced: bool) -> None:
        self.query, self.words = query, (query, schema, buckets)
        self.sliced = sliced
        self.truth = Expected(query)

    def start(self, saved: bytes | None) -> None:
        self.machine = Machine(*self.words, sliced=self.sliced)
        if saved is not None:
            vars(self.machine).update(pickle.loads(saved))

    def save(self) -> bytes:
        kept = ("store", "seen", "watermark", "now", "lost", "counts")
        return pickle.dumps({name: getattr(self.machine, name) for name in kept})

    def do(self, step: Any, now: int, refusing: Refusing) -> Said:
        known = len(self.machine.lost)
        self.told = self.machine.ticks()
        with refusing():
            said = self.machine.batch(step.rows if isinstance(step, Push) else [])
        return said, [] if self.sliced else self.machine.lost[known:]

    def expected(self, step: Any, now: int) -> Said:
        known = len(self.truth.stream.late)
        said = self.truth.batch(step.rows if isinstance(step, Push) else [], self.told)
        return said, [] if self.sliced else list(self.truth.stream.late[known:])


Engine = StreamEngine | SparkEngine
__all__ = ["Engine", "SparkEngine", "StreamEngine", "Tick"]
