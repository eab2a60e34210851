"""Checkpoints that earlier versions have written go on as if the query had never stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden.spark_cases import SPARK_CASES
from golden.test_golden_streams import Player, as_a_set, in_plain_python
from golden.write_spark import tables, unpack
from queries import oracle
from spark.feed import Feed

import muntin.spark
from muntin.errors import SnapshotError
from muntin.spark.checkpoint import saved_facts

FOLDERS = tuple(Path(__file__).parents[1] / "golden" / f"spark-{version}" for version in (2, 3))
DELAY = 2


def recomputed(case: Any, *runs: Any) -> Iterator[tuple[bool, list[oracle.Result]]]:
    """Yield what plain recomputation answers in each micro-batch, and whether that was after the first run.

    The watermark of a batch is that which those before it have brought about, so it is moved by hand.
    """
    stream = oracle.Stream(replace(in_plain_python(case), watermark=10**9))
    latest = -1
    for after, calls in enumerate(runs or (case.before, case.after)):
        for word, given in calls:
            assert word == "push"
            yield bool(after), stream.advance(latest - DELAY) if latest >= 0 else []
            yield bool(after), stream.push(given)
            latest = max(latest, *(row["t"] for row in given))
        yield bool(after), stream.advance(latest - DELAY)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", SPARK_CASES)
def test_a_checkpoint_goes_on(session: Any, tmp_path: Path, folder: Path, name: str) -> None:
    case = SPARK_CASES[name]
    unpack(folder / f"{name}.tar.xz", tmp_path / "checkpoint")
    given = tables(case, case.after)
    feed = Feed(session, tmp_path, given[0].schema)
    feed.files = len(tables(case, case.before))
    for each in given:
        feed.add(each)
    found = feed.run(case.query, checkpoint=str(tmp_path / "checkpoint"))
    player = Player(case, None)
    mine = [row for table in found for row in player.results(table)]
    right = [row for after, rows in recomputed(case) if after for row in rows]
    assert as_a_set(mine) == as_a_set(right)
    assert any(each.revision for each in right)
    assert any(each.retracted for each in right) or name != "slices"


def test_a_checkpoint_of_version_2_is_rescaled_after_its_buckets_are_converted(session: Any, tmp_path: Path) -> None:
    """Here a batch touches all of them; the order of the aggregates stays recorded as it was, whatever the query's."""
    case, path = SPARK_CASES["slices"], str(tmp_path / "checkpoint")
    unpack(FOLDERS[0] / "slices.tar.xz", tmp_path / "checkpoint")
    before = [name for name in saved_facts(session, path) or {} if name.startswith("aggregate ")]
    with pytest.raises(
        SnapshotError, match=r"has buckets of an earlier version of muntin \([\d, ]+\), which are converted"
    ):
        muntin.spark.rescale(path, tmp_path / "refused", buckets=3)
    assert not (tmp_path / "refused").exists()
    given = tables(case, case.after)
    feed = Feed(session, tmp_path, given[0].schema)
    feed.files = len(tables(case, case.before))
    feed.add(given[0])
    query = replace(case.query, aggregates=dict(reversed(case.query.aggregates.items())))
    found = feed.run(query, checkpoint=path)
    after = [name for name in saved_facts(session, path) or {} if name.startswith("aggregate ")]
    assert after == before
    muntin.spark.rescale(path, tmp_path / "target", buckets=3)
    for each in given[1:]:
        feed.add(each)
    rescaled = query.spark(feed.frame(), checkpoint=str(tmp_path / "target"))
    found += feed.collect(rescaled, "update", checkpoint="target")
    mine = [row for table in found for row in Player(case, None).results(table)]
    right = [
        row for after, rows in recomputed(case, case.before, case.after[:1], case.after[1:]) if after for row in rows
    ]
    assert as_a_set(mine) == as_a_set(right)
