"""Scripts that are carried out in many small pieces: answers are the same as in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Query, agg, window
from muntin.kernels import cache
from muntin.streams.script import MOST_STEPS, Script

WINDOWS = {
    "by time": [window.sliding(60, every=7), window.cumulative(100, every=10)],
    "sessions": [window.session(3), window.session(9), window.tumbling(50)],
}
AGGREGATES = {"sum": agg.sum("v"), "most": agg.max("v"), "last": agg.last("v")}


def table(count: int) -> pa.Table:
    """Return rows of a few keys, of which some come late."""
    rng = np.random.default_rng(4)
    times = np.sort(rng.integers(0, 4 * count, count)) - rng.integers(0, 40, count) * (rng.random(count) < 0.3)
    return pa.table({"t": times, "k": rng.integers(0, 3, count), "v": rng.integers(0, 100, count)})


def answers(windows: list[Any], data: pa.Table) -> list[dict[str, Any]]:
    query = Query(windows, AGGREGATES, key="k", time="t", watermark=5, allowed_lateness=60)
    stream = query.stream()
    pushed = [stream.push(data.slice(begin, 50)) for begin in range(0, len(data), 50)]
    found: list[dict[str, Any]] = pa.concat_tables([*pushed, stream.close()]).to_pylist()
    return found


@pytest.mark.parametrize("name", WINDOWS)
def test_a_short_script_gives_the_same_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = table(300)
    made = []

    def short(cls: type[Script], capacity: int = MOST_STEPS, columns: int = 4) -> Script:
        made.append(capacity)
        return cls(np.empty((capacity, columns), np.int64), np.zeros(1, np.int64))

    with cache.uncompiled():
        expected = answers(WINDOWS[name], data)
        monkeypatch.setattr(Script, "empty", classmethod(short))
        assert answers(WINDOWS[name], data) == expected
    assert MOST_STEPS in made  # it was short at first
    assert any(row["revision"] > 0 for row in expected)
