"""A stream that begins with a history goes on as one that saw those rows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, InvalidArgumentError

QUERY = Query(
    [
        window.sliding(12, every=5),
        window.session(3),
        window.tumbling(rows(4)),
        window.trailing(9, closed="left"),
        window.leading(4),
    ],
    {"all": agg.collect("v"), "n": agg.count()},
    key="k",
    time="t",
    watermark=2,
    allowed_lateness=6,
)


def some_rows(rng: random.Random, begin: int, count: int) -> pa.Table:
    times = [max(0, begin + rng.randint(-5, 12)) for _ in range(count)]
    columns = {"t": times, "k": [rng.choice("ab") for _ in times], "v": [f"{rng.randrange(1000)}" for _ in times]}
    return pa.table(columns, schema=pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.string()}))


@pytest.mark.parametrize("seed", range(20))
def test_it_goes_on_as_if_nothing_had_been_cut(seed: int) -> None:
    rng = random.Random(seed)
    history = some_rows(rng, 20, rng.randint(0, 40))
    later = [some_rows(rng, 30 + 8 * i, rng.randint(0, 9)) for i in range(5)]
    uninterrupted, begun = QUERY.stream(), QUERY.stream(history=history)
    uninterrupted.push(history)
    for table in later:
        assert begun.push(table).to_pylist() == uninterrupted.push(table).to_pylist()
    assert begun.close().to_pylist() == uninterrupted.close().to_pylist()
    assert begun.late.to_pylist() == uninterrupted.late.to_pylist()


def test_what_was_due_is_not_emitted() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    stream = query.stream(history={"t": [1, 2, 11]})
    answers: list[Any] = stream.push({"t": [12, 25]}).select(["window", "n"]).to_pylist()
    assert answers == [{"window": {"start": 10, "end": 20}, "n": 2}]


def test_bad_histories_are_refused() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    with pytest.raises(InvalidArgumentError, match="not with both"):
        query.stream(query.stream().snapshot(), history={"t": [1]})
    with pytest.raises(ColumnError, match="'t'"):
        query.stream(history={"u": [1]})
