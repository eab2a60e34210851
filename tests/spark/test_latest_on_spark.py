"""`muntin.latest` of DataFrames: what it keeps of the same answers in Arrow, in whatever order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from queries.test_latest import answers, listed
from spark.feed import Feed

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import UnsupportedOperationError
from muntin.kernels.cache import uncompiled


@pytest.mark.connect
def test_frames_in_any_order(session: Any) -> None:
    emitted, final = answers()
    for partitions in (1, 3):
        frame = session.createDataFrame(emitted).repartition(partitions, "n")
        kept = muntin.latest(frame)
        assert kept.columns == frame.columns
        assert listed(kept.toArrow().cast(final.schema)) == listed(final)


def test_early_windows_by_rows_and_the_answers_of_batches(session: Any) -> None:
    query = Query(window.sliding(rows(4), every=rows(2)), {"n": agg.count()}, time="t", partial=True, emit_early=3)
    data = {"t": list(range(11))}
    with uncompiled():
        stream = query.stream()
        emitted = [stream.push({"t": data["t"][low : low + 3]}) for low in range(0, 11, 3)]
        whole, final = pa.concat_tables([*emitted, stream.close()]), query.run(data)
    assert listed(muntin.latest(session.createDataFrame(whole)).toArrow().cast(final.schema)) == listed(final)
    batch = query.spark(session.createDataFrame(pa.table(data)))
    assert muntin.latest(batch).count() == batch.count() == final.num_rows


def test_after_a_history(session: Any) -> None:
    query = Query(window.session(3), {"n": agg.count()}, time="t", allowed_lateness=50)
    with uncompiled():
        emitted = query.stream(history={"t": [10, 12, 40]}).push({"t": [9]})
    assert muntin.latest(session.createDataFrame(emitted)).toArrow()["n"].to_pylist() == [3]


def test_a_streaming_frame_is_refused(session: Any, tmp_path: Path) -> None:
    emitted, _ = answers()
    feed = Feed(session, tmp_path, emitted.schema)
    with pytest.raises(UnsupportedOperationError, match="latest is for a finite DataFrame"):
        muntin.latest(feed.frame())
