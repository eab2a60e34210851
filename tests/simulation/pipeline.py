"""A whole pipeline in one process: source, engine, disk, sink and clock, of which each may fail at any moment.

The source has all steps and gives them again from any one on. The sink takes the answers of a step once and is given
them again after a restart: they must be the same. After each step the answers and the late rows must be the oracle's.
Everything is drawn from one number, so that what went wrong once goes wrong again.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from queries import oracle, strategies
from queries.strategies import Push, Tick
from queries.streams import answering
from queries.test_stream import same
from simulation.engines import Engine, SparkEngine, StreamEngine
from simulation.faults import CrashError, Disk, dying_compiler, refused_memory

from muntin.errors import InterruptedCallError, SnapshotError
from muntin.spark import bucket, cutter, memory

IN_A_STEP = (*("crash before", "crash before the sink", "crash after the sink", "no memory", "repeated"), *[None] * 10)
IN_A_CHECKPOINT = ("full disk", "torn write", "damaged write", None, None, None, None)
DYING = 17
"""Of so many pipelines one has a compiler that dies; no divisor of the number of parts in which tests run them."""
DEATH = "the compiler dies"
drawn = partial(strategies.drawn, tries=2)
JUMP = 1_000
SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "km": pa.int64(), "mark": pa.bool_()})


class Sink:
    """Answers by the number of their step."""

    def __init__(self) -> None:
        self.said: dict[int, Any] = {}

    def accept(self, position: int, said: Any) -> None:
        if position in self.said:
            assert agree(said, self.said[position]), f"step {position} says something else when it is repeated"
        self.said[position] = said


def agree(ours: Any, theirs: Any) -> bool:
    """Say whether windows and late rows are the same, in whatever order."""
    late = [sorted(map(repr, rows)) for _, rows in (ours, theirs)]
    return same(ours[0], theirs[0]) and late[0] == late[1]


class Pipeline:
    """One life of a pipeline."""

    def __init__(self, seed: int) -> None:
        self.seed, self.chance = seed, random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.disk, self.sink = Disk(self.chance), Sink()
        self.engine, self.steps = self._drawn(seed)
        self.times = self._times()

    def _drawn(self, seed: int) -> tuple[Engine, list[Any]]:
        query: oracle.Query = drawn(strategies.queries(), seed)
        rows = drawn(strategies.tables(), seed + 1)
        came = drawn(strategies.disordered(rows, query.delay + query.lateness), seed + 2)
        steps: list[Any] = drawn(strategies.cuts(came), seed + 3)
        if self.chance.random() < 0.4:
            cut = replace(query, key=self.chance.choice([(), ("k",)]))
            return SparkEngine(cut, SCHEMA, self.chance.choice([1, 3]), self.chance.random() < 0.5), [*steps, Push([])]
        early, idle = (drawn(each, seed + 4) for each in (strategies.EARLY, strategies.IDLE))
        query = replace(query, emit_early=early, idle_timeout=idle)
        steps = drawn(strategies.ticks(drawn(strategies.advances(steps), seed + 5)), seed + 6)
        return StreamEngine(query, rows, self.chance.choice(answering(query)[1:])), steps

    def _times(self) -> list[int]:
        """Return what the clock says at each step; now and then it jumps."""
        now, times = 0, []
        for step in self.steps:
            now += step.by if isinstance(step, Tick) else 0
            now += JUMP if self.chance.random() < 0.03 else 0
            times.append(now)
        return times

    def run(self) -> None:
        """Do all steps, whatever happens in between."""
        dies = self.seed % DYING == 0
        self.faults[DEATH] += dies
        held = memory.Memory((self.seed % 2) << 20)
        with (
            dying_compiler(self.seed) if dies else nullcontext(),
            patch.object(cutter, "_FEW", 0),  # few rows are cut as many would be
            patch.object(bucket, "MEMORY", held),
        ):
            self._run()

    def _run(self) -> None:
        position = self._recovered()
        while position < len(self.steps):
            try:
                position = self._step(position)
            except CrashError:
                position = self._recovered()

    def _recovered(self) -> int:
        """Start from the last checkpoint that can be read; return the step that comes next."""
        while self.disk.checkpoints:
            position, saved = self.disk.checkpoints[-1]
            try:
                self.engine.start(saved)
            except SnapshotError:
                self.disk.checkpoints.pop()
            else:
                return position
        self.engine.start(None)
        return 0

    def _step(self, position: int) -> int:
        fault = self._drawn_fault(IN_A_STEP)
        if fault == "crash before":
            raise CrashError
        said = self._done(position, fault)
        if fault == "crash before the sink":
            raise CrashError
        if position not in self.sink.said:
            truth = self.engine.expected(self.steps[position], self.times[position])
            assert agree(said, truth), f"step {position}\nours  {said}\ntruth {truth}"
        self.sink.accept(position, said)
        if fault == "crash after the sink":
            raise CrashError
        self._save(position + 1)
        if fault == "repeated":
            return self._recovered()
        return position + 1

    def _done(self, position: int, fault: str | None) -> Any:
        step, now = self.steps[position], self.times[position]
        if fault == "no memory":
            refusing = partial(refused_memory, self.chance.randrange(1, 120))
            try:
                return self.engine.do(step, now, refusing)
            except (MemoryError, SnapshotError) as error:
                if not any(isinstance(each, MemoryError) for each in (error, error.__cause__)):
                    raise
                if not self.engine.survives:
                    raise CrashError from None
        try:
            return self.engine.do(step, now, nullcontext)
        except InterruptedCallError:  # of the call that got no memory, a part could not be taken back
            assert fault == "no memory"
            raise CrashError from None

    def _save(self, position: int) -> None:
        if self.chance.random() < 0.4:
            fault = self._drawn_fault(IN_A_CHECKPOINT if self.engine.survives else (None,))  # Spark's files are its own
            try:
                self.disk.write(position, self.engine.save(), fault)
            except OSError:
                return  # the next one may succeed

    def _drawn_fault(self, of: tuple[str | None, ...]) -> str | None:
        fault = self.chance.choice(of)
        self.faults[fault or "none"] += 1
        return fault
