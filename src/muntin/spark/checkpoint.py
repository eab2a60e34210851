"""The query of a checkpoint, read by Spark's state reader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from muntin.errors import InvalidArgumentError, SnapshotError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY, ADOPTED = "history", "adopted"
"""What a checkpoint records besides the query: whether the stream started from a history, and whether its state was
another query's before."""
BUCKETS, TYPE = "buckets", "type of "
"""The facts of a checkpoint besides the query's: the number of buckets; what the names of columns' types begin with."""
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


def facts_at(path: str) -> dict[str, str]:
    """Return the facts of the query of a checkpoint, without those of the engine; the session that is active reads it.

    A query that has adopted the state of another one is what the checkpoint is of, once a micro-batch has committed.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidArgumentError(f"a checkpoint is read by Spark: begin a session before asking about {path!r}")
    saved = saved_facts(session, path)
    if saved is None:
        raise SnapshotError(f"the checkpoint {path!r} has no committed micro-batch: it holds no state yet")
    return {name: text for name, text in saved.items() if is_of_query(name)}


def is_of_query(name: str) -> bool:
    """Return whether a fact of a checkpoint is one of its query's own."""
    return name not in (HISTORY, ADOPTED, BUCKETS) and not name.startswith(TYPE)
