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

FOLDERS = tuple(Path(__file__).parents[1] / "golden" / f"spark-{version}" for version in (2, 3))
DELAY = 2


def recomputed(case: Any) -> Iterator[tuple[bool, list[oracle.Result]]]:
    """Yield what plain recomputation answers in each micro-batch, and whether that was after the restart.

    The watermark of a batch is that which those before it have brought about, so it is moved by hand.
    """
    stream = oracle.Stream(replace(in_plain_python(case), watermark=10**9))
    latest = -1
    for after, calls in enumerate((case.before, case.after)):
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
