"""The query of a checkpoint, read by Spark's state reader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from muntin.errors import SnapshotError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOT_BEGUN = "STDS_COMMITTED_BATCH_UNAVAILABLE"


def read_state(session: SparkSession, path: str, name: str, batch: int | None = None) -> DataFrame:
    """Return one of the states of a checkpoint, as of a batch, by default the last committed one."""
    reader = session.read.format("statestore").option("stateVarName", name)
    return (reader if batch is None else reader.option("batchId", batch)).load(path)


def saved_facts(session: SparkSession, path: str) -> dict[str, str] | None:
    """Return the facts of a checkpoint's query, as text; None before the first committed batch.

    Runs a small Spark job.
    """
    from pyspark.errors import PySparkException

    try:
        rows = read_state(session, path, "muntin_query").select("value.facts").collect()
    except PySparkException as error:
        if error.getCondition() == _NOT_BEGUN:
            return None
        reason = str(error).splitlines()[0]
        raise SnapshotError(f"{path!r} is no checkpoint of a query of muntin that can be read: {reason}") from error
    return dict(json.loads(rows[0][0])) if rows else None
