"""Against Spark: its windows, sessions and window frames of the same rows, as `ask_spark.py` wrote them.

The oracle, `run` and streams are asked. Streams get the rows in the disorder they have: once with a watermark that
waits for all of them, so that each window comes once, and once with none that waits, so that windows are revised.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from queries import oracle, streams
from queries.ask_spark import ANSWERS
from queries.test_run import as_table

from muntin import agg, rows, window
from muntin.types import INT64, ColumnType, column_type

SAID: dict[str, Any] = json.loads(ANSWERS.read_text())
ROWS = [
    {"c": c, **dict(zip(("t", "k", "v"), row, strict=True))} for c, table in enumerate(SAID["tables"]) for row in table
]
"""The rows of all tables, one after the other: the number of the table is part of the key."""
SPREAD = max(row["t"] for row in ROWS) - min(row["t"] for row in ROWS) + 1
ASKED = [name for name in SAID if name != "tables"]
AGGREGATES = {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v"), "mean": agg.mean("v")}
SECONDS = column_type(pa.timestamp("s"))
PUSHED = 23


def asked(text: str, time: ColumnType = INT64, **words: Any) -> oracle.Query:
    definition = eval(text, {"window": window, "rows": rows})
    return oracle.Query([definition], AGGREGATES, ["c", "k"], "t", time_type=time, **words)


def pushed(query: oracle.Query, strategy: str) -> list[oracle.Result]:
    """Return all that a stream says of the rows."""
    stream = streams.Stream(query, ROWS, strategy=strategy)
    said = [result for i in range(0, len(ROWS), PUSHED) for result in stream.push(ROWS[i : i + PUSHED])]
    said += stream.close()
    assert not stream.late
    return said


def written(results: list[oracle.Result]) -> list[list[Any]]:
    """Return results as Spark's answers are written."""
    return sorted(([*r.key, r.start, r.end, *r.aggregates.values()] for r in results), key=repr)


@pytest.mark.parametrize("text", ASKED)
def test_the_oracle_is_like_spark(text: str) -> None:
    query = asked(text)
    found = oracle.complete_answer(query.windows, AGGREGATES, query.key, "t", ROWS)
    assert len(found) > 100
    assert written(found) == SAID[text]


BY_ANY = [(text, "auto") for text in ASKED] + [(text, "rows") for text in ASKED if "session" not in text]
"""What is asked, and the strategies that answer it: sessions have no edges that rows in order know."""


@pytest.mark.parametrize("time", [INT64, SECONDS], ids=["integers", "timestamps"])
@pytest.mark.parametrize("text", ASKED)
def test_run_is_like_spark(text: str, time: ColumnType) -> None:
    query = asked(text, time)
    answer = streams.asked(query).run(as_table(ROWS, query))
    assert written(streams.Stream(query, ROWS).results(answer)) == SAID[text]


@pytest.mark.parametrize("time", [INT64, SECONDS], ids=["integers", "timestamps"])
@pytest.mark.parametrize(("text", "strategy"), BY_ANY)
def test_a_stream_that_waits_is_like_spark(text: str, strategy: str, time: ColumnType) -> None:
    said = pushed(asked(text, time, watermark=SPREAD), strategy)
    assert not any(result.revision for result in said)
    assert written(said) == SAID[text]


@pytest.mark.parametrize(("text", "strategy"), BY_ANY)
def test_a_stream_that_revises_is_like_spark(text: str, strategy: str) -> None:
    """Of rows of equal time the trailing windows look alike: they are compared once."""
    query = asked(text, allowed_lateness=SPREAD)
    said = pushed(query, strategy)
    assert sum(result.revision > 0 for result in said) > 20
    assert once(written(oracle.latest(query, said))) == once(SAID[text])


def once(found: list[list[Any]]) -> set[str]:
    return {json.dumps(row) for row in found}
