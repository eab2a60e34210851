"""What is no checkpoint of a query; test_rescaling has those that are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.feed import Feed

from muntin import Query, agg, window
from muntin.errors import SnapshotError, UnsupportedOperationError

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
    with pytest.raises(UnsupportedOperationError, match="checkpoint are for streaming DataFrames"):
        QUERY.spark(session.createDataFrame(pa.Table.from_pylist(rows(0, 4), SCHEMA)), checkpoint=path)
