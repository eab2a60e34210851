"""`muntin.warm`: after it, no answer of the query needs the compiler."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import MuntinError
from muntin.kernels import tiers
from muntin.kernels.background import Background

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

SCHEMA = {"ts": pa.timestamp("us"), "k": pa.string(), "v": pa.float64()}
QUERIES: dict[str, Callable[[], Query]] = {
    "by time": lambda: Query(
        [window.sliding("12 s", every="3 s"), window.session("4 s")], {"high": agg.max("v")}, key="k"
    ),
    "late": lambda: Query(
        [window.tumbling("5 s"), window.session("4 s")], {"high": agg.max("v")}, key="k", allowed_lateness="1 minute"
    ),
    "by rows": lambda: Query([window.tumbling(rows(3))], {"high": agg.max("v")}, key="k", allowed_lateness="1 minute"),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are asked of the compiler."""
    names: list[str] = []
    submit = Background.submit

    def noting(self: Background, path: Path, kernel: str, signature: Any, estimate: float) -> Any:
        names.append(kernel)
        return submit(self, path, kernel, signature, estimate)

    monkeypatch.setattr(Background, "submit", noting)
    return names


@pytest.mark.parametrize("name", QUERIES)
def test_nothing_is_left_to_compile(name: str, asked: list[str]) -> None:
    query = QUERIES[name]()
    muntin.warm(query, SCHEMA)
    asked.clear()
    rng = random.Random(3)
    token = tiers._patient.set(False)
    try:
        stream = query.stream()
        for i in range(30):
            seconds = [max(0, 3 * i + rng.randint(-20, 4)) for _ in range(20)]
            table = pa.table(
                {
                    "ts": pa.array(np.array(seconds, "M8[s]").astype("M8[us]")),
                    "k": [rng.choice("abc") for _ in seconds],
                    "v": [None if rng.random() < 0.1 else rng.random() for _ in seconds],
                }
            )
            stream.push(table)
            query.run(table)
        query.stream(stream.snapshot()).close()
    finally:
        tiers._patient.reset(token)
    assert asked == []


def test_types_are_assumed_where_none_are_given(asked: list[str]) -> None:
    query = QUERIES["by time"]()
    muntin.warm(query)
    asked.clear()
    muntin.warm(query)
    assert asked == []


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(MuntinError, match="a query or aggregations"):
        muntin.warm(3)  # type: ignore[arg-type]
    with pytest.raises(MuntinError, match="'v'"):
        muntin.warm(QUERIES["by time"](), {"ts": pa.timestamp("us"), "k": pa.string()})


def test_every_type_of_column_has_a_sample() -> None:
    kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.bool_(), pa.date32(), pa.decimal128(10, 2), pa.timestamp("ns")]
    for kind in kinds:
        query = Query(window.tumbling("5 s"), {"last": agg.last("v")}, key="k")
        muntin.warm(query, {**SCHEMA, "v": kind})
