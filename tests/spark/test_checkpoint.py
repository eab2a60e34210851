"""Which checkpoints a query resumes from; test_rescaling has more of them.

Random queries resume from the state of others that are like them: many in the parts of the pipeline, and some on Spark
itself, `MUNTIN_SPARK_CASES` families.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from queries import test_resuming as local
from sampling import examples
from spark.feed import Feed
from spark.model import Machine

from muntin import Query, agg, window
from muntin import rows as wide
from muntin.errors import SnapshotError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.spark import memory
from muntin.streams.facts import differences, facts

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string()})
QUERY = Query(window.tumbling(4), {"n": agg.count()}, key="k", time="t")


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"t": t, "k": "abc"[t % 3]} for t in range(begin, end)]


def test_what_is_no_checkpoint(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    feed.add(rows(0, 4))
    feed.collect(feed.frame().dropDuplicates(["k"]))
    path = str(tmp_path / "checkpoint")
    with pytest.raises(SnapshotError, match="is no checkpoint of a query of muntin that can be read"):
        QUERY.spark(feed.frame(), checkpoint=path)
    with pytest.raises(UnsupportedOperationError, match="checkpoint, adopt and allow_pickle are for streaming"):
        QUERY.spark(session.createDataFrame(pa.Table.from_pylist(rows(0, 4), SCHEMA)), checkpoint=path)


WINDOWS = [window.sliding("6 seconds", every="2 seconds"), window.session("3 seconds"), window.tumbling(wide(4))]
SOME = {
    "hi": agg.max("v"),
    "lo": agg.min("v"),
    "n": agg.count(),
    "sum": agg.sum("v"),
    "all": agg.collect("v"),
    "mid": agg.median("v"),
    "first": agg.first("v"),
}
TIMED = pa.schema({"t": pa.timestamp("us", tz="UTC"), "k": pa.string(), "v": pa.float64()})


def timed(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"t": t * 1_000_000, "k": "abc"[t % 3], "v": float(t * 7 % 11)} for t in range(begin, end)]


def listed(tables: list[pa.Table]) -> list[str]:
    return sorted(repr(sorted(row.items())) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("windows", [WINDOWS[:1], WINDOWS], ids=["slices sent", "rows sent"])
def test_a_restart_with_the_aggregates_in_another_order(session: Any, tmp_path: Path, windows: Any) -> None:
    """It answers as if it had never stopped, from the state and from streams that workers still have."""
    aggregates = {name: SOME[name] for name in list(SOME)[: 4 if len(windows) == 1 else None]}
    query = Query(windows, aggregates, key="k", time="t", watermark="2 seconds", allowed_lateness="4 seconds")
    turned = replace(query, aggregates=dict(reversed(aggregates.items())), watermark="2000 ms", allowed_lateness="4s")
    found: dict[str, list[pa.Table]] = {}
    for name, second in (("same", query), ("other", turned)):
        feed = Feed(session, tmp_path / name, TIMED)
        path = str(tmp_path / name / "checkpoint")
        found[name] = []
        for step, asked in enumerate((query, second, query)):
            feed.add(timed(8 * step, 8 * step + 10))
            found[name] += feed.collect(asked.spark(feed.frame(), checkpoint=path, buckets=3), "update")
            assert [each for each in found[name][-1].column_names if each in aggregates] == list(asked.aggregates)
    assert listed(found["other"]) == listed(found["same"])
    assert sum(table.num_rows for table in found["same"]) > 0


def head_of_error(answers: Any, checkpoint: Path) -> str:
    """Return what Spark says to a query that fails, before all frames."""
    from pyspark.errors import PySparkException

    writer = answers.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    with pytest.raises(PySparkException) as failed:
        writer.trigger(availableNow=True).start().awaitTermination()
    head, _, _ = str(failed.value).partition("Traceback")
    return head


def test_a_restart_with_another_query(session: Any, tmp_path: Path) -> None:
    """All differences are in one message: at the head of Spark's error, or before the start if the path is known."""
    aggregates = {name: SOME[name] for name in ("hi", "lo", "n")}
    query = Query(WINDOWS[:1], aggregates, key="k", time="t", watermark="2 seconds")
    changed = {"hi": agg.min("v"), "n": agg.count(), "sum": agg.sum("v")}
    other = replace(query, aggregates=changed, windows=[window.tumbling("4 seconds")], watermark="3 seconds")
    feed = Feed(session, tmp_path, TIMED)
    feed.add(timed(0, 9))
    feed.run(query, buckets=3)
    wanted = (
        "the checkpoint is of another query: its window 0 is window.sliding('6 seconds', every='2 seconds'), this "
        "one's is window.tumbling('4 seconds'); its aggregate hi is agg.max('v'), this one's is agg.min('v'); its "
        "aggregate sum is none, this one's is agg.sum('v'); its watermark is '2 seconds', this one's is '3 seconds'; "
        "its aggregate lo is agg.min('v'), this one's is none. Go on with the query it was made for, or with "
        "adopt=True, or begin with a new checkpoint"
    )
    with pytest.raises(SnapshotError) as refused:
        other.spark(feed.frame(), checkpoint=str(tmp_path / "checkpoint"))
    assert str(refused.value) == wanted
    with pytest.raises(SnapshotError, match="its buckets is 3, this one's is 4; pass buckets=3"):
        query.spark(feed.frame(), checkpoint=str(tmp_path / "checkpoint"), buckets=4)
    feed.add(timed(9, 12))
    assert wanted in head_of_error(other.spark(feed.frame(), buckets=3), tmp_path / "checkpoint")
    assert feed.run(query, buckets=3)  # nothing was changed by either


# ---------------------------------------------------------------- random queries, resumed from the state of others

PUSHED = pa.schema([pa.field("t", pa.timestamp("us")), *list(local.SCHEMA)[1:]])
PUSHES = [table.cast(PUSHED) for table in local.PUSHES]
CASES = int(os.environ.get("MUNTIN_SPARK_CASES", "1"))


def family(seed: int, size: int) -> list[Query]:
    """Return queries that are like each other, and that a stream on Spark takes."""
    chance = random.Random(seed)
    found = [each for each in local.family(chance, size, local.SECONDS[:-1]) if not each.ordered]
    # Early answers are by batches, and a restart has one more.
    return [replace(each, forget_after=None) for each in found if each.emit_early is None]


def seen(tables: list[pa.Table], windows: int) -> list[str]:
    """Return the answers of the first windows, in no order, with their columns in no order."""
    rows = [row for table in tables for row in table.to_pylist() if row["window_id"] < windows]
    return sorted(repr(sorted(row.items())) for row in rows)


def appended_to(one: Query, other: Query) -> list[str]:
    """Return the facts of windows that a query has beyond those of another: they may be appended at a restart."""
    return [f"window {i}" for i in range(len(one.windows), len(other.windows))]


@dataclass
class Kept:
    """A query, the pipeline's state after some batches, and what it went on to answer without a restart."""

    query: Query
    machine: Machine
    whole: list[pa.Table]

    @classmethod
    def of(cls, query: Query) -> Kept:
        machine = played(query)
        return cls(query, copy.deepcopy(machine), rest(machine))

    def resumed(self, query: Query, *, cached: bool = False, **changed: Any) -> Machine:
        """Return the pipeline of another query over this one's state; with `cached` the worker has its streams."""
        before = played(self.query) if cached else copy.deepcopy(self.machine)
        machine = Machine(query, **{"schema": PUSHED, **changed}, store=before.store)
        machine.seen, machine.watermark = before.seen, before.watermark
        return machine


def played(query: Query) -> Machine:
    machine = Machine(query, PUSHED)
    for table in PUSHES[: local.SAVED]:
        machine.tables(table.to_pylist())
    return machine


def rest(machine: Machine) -> list[pa.Table]:
    batches = [*(table.to_pylist() for table in PUSHES[local.SAVED :]), [], []]
    return [each for rows in batches for each in machine.tables(rows)]


def refusals(machine: Machine, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Return what each bucket says, whichever Spark calls first."""
    now = SimpleNamespace(
        getCurrentWatermarkInMs=lambda: machine.watermark, getCurrentProcessingTimeInMs=lambda: machine.now
    )
    had = {bucket for bucket, name in machine.store.values}
    for bucket, packed in machine.pack(rows).items():
        machine.store.bucket = bucket
        if bucket in had:
            with pytest.raises(SnapshotError) as refused:
                list(machine.processor.rows(bucket, iter(packed), now))
            yield str(refused.value)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels as plain Python, and a worker that has no stream yet."""
    monkeypatch.setattr("muntin.spark.bucket.MEMORY", memory.Memory())
    with uncompiled():
        yield


@pytest.mark.usefixtures("plain")
def test_every_pair_of_a_family_in_the_parts() -> None:
    """Refused by each bucket with all differences, or equal to the run without a restart."""
    resumed = reordered = appended = refused = 0
    for seed in range(examples(12)):
        chance, kept = random.Random(seed), []
        for query in family(seed, 6):
            with suppress(UnsupportedOperationError):
                kept.append(Kept.of(query))
        for one, other in permutations(kept, 2):
            machine = one.resumed(other.query, cached=chance.random() < 0.3)
            found = differences(facts(one.query), other.query)
            known = len(one.query.windows)
            added = appended_to(one.query, other.query)
            if set(found) <= set(added):
                assert seen(rest(machine), known) == seen(other.whole, known), (one.query, other.query)
                resumed += 1
                appended += bool(added)
                reordered += list(one.query.aggregates) != list(other.query.aggregates)
                continue
            before = copy.deepcopy(machine.store.values)
            wanted = [text for name, text in found.items() if name not in added]
            for said in refusals(machine, PUSHES[local.SAVED].to_pylist()):
                assert all(text in said for text in wanted), said
            assert machine.store.values == before
            refused += 1
    assert min(resumed, reordered, appended, refused) > 0


@pytest.mark.usefixtures("plain")
def test_every_bucket_names_all_differences() -> None:
    """Also those that are not the query's: which bucket Spark calls first is not known."""
    query = Query(window.tumbling("4 seconds"), {"hi": agg.max("v"), "lo": agg.min("v")}, key="k", time="t")
    kept = Kept.of(query)
    wider = PUSHED.set(PUSHED.get_field_index("v"), pa.field("v", pa.float32()))
    other = replace(query, aggregates={"lo": agg.min("v"), "hi": agg.last("v")})
    machine = kept.resumed(other, schema=wider)
    said = list(refusals(machine, PUSHES[local.SAVED].to_pylist()))
    assert len(said) > 1
    wanted = (
        "the checkpoint is of another query: its aggregate hi is agg.max('v'), this one's is agg.last('v'); its type "
        "of v is double, this one's is float. Go on with the query it was made for, or with adopt=True, or begin with "
        "a new checkpoint"
    )
    assert set(said) == {wanted}
    machine = kept.resumed(query, buckets=6)
    for each in refusals(machine, PUSHES[local.SAVED].to_pylist()):
        assert "its buckets is 3, this one's is 6; pass buckets=3" in each


@pytest.mark.parametrize("seed", range(CASES))
def test_every_pair_of_a_family_on_spark(seed: int, session: Any, tmp_path: Path) -> None:
    """As in the parts: refused at the head of Spark's error, or equal to the run without a restart."""
    one, *others = family(seed, 12)
    known = len(one.windows)
    like, unlike = [], []
    for other in others:
        found = differences(facts(one), other)
        texts = [text for name, text in found.items() if name not in appended_to(one, other)]
        (unlike if texts else like).append((other, texts))
    feed = Feed(session, tmp_path, PUSHED)
    for table in PUSHES[: local.SAVED]:
        feed.add(table)
    before = feed.collect(one.spark(feed.frame(), buckets=2), "update")
    for table in PUSHES[local.SAVED :]:
        feed.add(table)
    whole = feed.collect(one.spark(feed.frame(), buckets=2), "update", checkpoint="whole")
    for i, (other, texts) in enumerate([*like[:2], *unlike[:2]]):
        shutil.copytree(tmp_path / "checkpoint", tmp_path / f"{i}")
        answers = other.spark(feed.frame(), buckets=2)
        if texts:
            head = head_of_error(answers, tmp_path / f"{i}")
            assert all(text in head for text in texts), head
        else:
            after = feed.collect(answers, "update", checkpoint=f"{i}")
            assert seen([*before, *after], known) == seen(whole, known), (one, other)
    assert like
    assert unlike
