"""The oracle against Spark: its windows, sessions and window frames of the same rows, as `ask_spark.py` wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from queries import oracle
from queries.ask_spark import ANSWERS

from muntin import agg, rows, window

SAID: dict[str, Any] = json.loads(ANSWERS.read_text())
AGGREGATES = {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v")}


@pytest.mark.parametrize("text", [name for name in SAID if name != "tables"])
def test_like_spark(text: str) -> None:
    definition = eval(text, {"window": window, "rows": rows})
    found = []
    for number, table in enumerate(SAID["tables"]):
        made = [dict(zip(("t", "k", "v"), row, strict=True)) for row in table]
        results = oracle.final([definition], AGGREGATES, ["k"], "t", made)
        found += [[number, *r.key, r.start, r.end, *r.aggregates.values()] for r in results]
    assert len(found) > 100
    assert sorted(found, key=repr) == SAID[text]
