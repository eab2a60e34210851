"""Windows of a duration after every n-th row: which rows they hold, late rows, and how much work a push is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streams.test_rows import counted, total

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError
from muntin.kernels.cache import uncompiled
from muntin.streams.rows.tree import LEAF

N = {"n": agg.count(), "ids": agg.collect("i")}


def query(length: int, every: int, **options: Any) -> Query:
    return Query(window.sliding(length, every=rows(every)), N, key="k", time="t", **options)


def table(times: list[int], first: int = 0, key: str = "a") -> pa.Table:
    return pa.table({"k": [key] * len(times), "t": times, "i": range(first, first + len(times))})


def shown(found: pa.Table) -> list[tuple[Any, ...]]:
    return [(*row["window"].values(), row["ids"], row["revision"]) for row in found.to_pylist()]


def test_a_window_comes_after_every_nth_row_of_a_key() -> None:
    """(t - 5, t] of that row: rows of its time that come after it are in the next window."""
    data = pa.concat_tables([table([1, 2, 6, 7, 7, 7, 20]), table([3, 4], 7, "b")])
    wanted = [
        (1, 2, 0, 2, [0, 1], 0),
        (6, 7, 2, 4, [2, 3], 0),
        (6, 7, 2, 6, [2, 3, 4, 5], 0),
        (3, 4, 0, 2, [7, 8], 0),
    ]
    assert shown(query(5, 2).run(data)) == wanted
    with uncompiled():
        stream = query(5, 2).stream()
        assert sorted(shown(stream.push(data))) == sorted(wanted)
        assert shown(stream.push(table([21], 9))) == [(20, 21, 6, 8, [6, 9], 0)]
        assert stream.close().num_rows == 0  # no row is left over that would make a tenth one


def test_late_rows_move_later_windows_on() -> None:
    """A window with other rows has other bounds: the one before is retracted, or revised if its bounds stay."""
    with uncompiled():
        stream = query(5, 2, allowed_lateness=10).stream()
        answers = [stream.push(table([1, 2, 6, 9]))]
        assert shown(answers[0]) == [(1, 2, 0, 2, [0, 1], 0), (6, 9, 2, 4, [2, 3], 0)]
        answers.append(stream.push(table([5], 4)))
        assert shown(answers[1]) == [(2, 6, 1, 4, [1, 4, 2], 0), (6, 9, 2, 4, None, 1)]
        answers.append(stream.push(table([30], 5)))
        answers.append(stream.push(table([3], 6)))
        assert stream.take_late()["t"].to_pylist() == [3]
        last = muntin.latest(pa.concat_tables([*answers, stream.close()]))
        assert sorted(each[:5] for each in shown(last)) == sorted(
            each[:5] for each in shown(query(5, 2).run(table([1, 2, 6, 9, 5, 30])))
        )


def test_definitions() -> None:
    with pytest.raises(InvalidArgumentError, match="range is 0; it must be positive"):
        window.sliding(0, every=rows(2))
    with pytest.raises(InvalidArgumentError, match="offset is 3; windows by rows begin with the first"):
        window.sliding(5, every=rows(2), offset=3)
    assert window.sliding("1 hour", every=rows(2)) == window.sliding("1 hour", every=rows(2))


@pytest.mark.parametrize("lateness", [0, 40_000])
def test_no_push_costs_what_is_held(lateness: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (1_000, 8_000):
        made = Query(window.sliding(n, every=rows(10)), {"n": agg.count()}, time="t", allowed_lateness=lateness)
        stream = made.stream()
        with counted(monkeypatch) as counts:
            stream.push({"t": np.arange(2 * n)})
            total(counts)
            for i in range(2 * n, 2 * n + 40):
                stream.push({"t": [i]})
                assert total(counts) <= 8 * LEAF
            revised = stream.push({"t": [2 * n]})
            assert total(counts) <= 12 * revised.num_rows + 8 * LEAF
        held = stream.metrics()["kept"]
        assert held <= (n + 1 if lateness == 0 else 2 * n + 41)


def test_times_and_partial_steps() -> None:
    """There is no window after fewer rows, whatever is asked for."""
    stamps = pa.array([0, 60, 3600, 3700, 9000], pa.timestamp("s"))
    made = Query(window.sliding("1 hour", every=rows(2)), {"n": agg.count()}, partial=True)
    for found in (made.run({"ts": stamps}), pa.concat_tables([(s := made.stream()).push({"ts": stamps}), s.close()])):
        assert found["n"].to_pylist() == [2, 2]
        assert [row["window"]["from_row"] for row in found.to_pylist()] == [0, 2]


def test_rows_one_by_one() -> None:
    """Rows are held for as long as a window may reach back to them."""
    times = [1, 2, 6, 7, 7, 7, 9, 11, 11, 14, 15, 18, 18, 19]
    whole = query(5, 2).run(table(times))
    with uncompiled():
        stream = query(5, 2).stream()
        pushed = [stream.push(table([t], i)) for i, t in enumerate(times)]
        assert shown(pa.concat_tables(pushed)) == shown(whole)
        assert stream.metrics()["kept"] < 8


def test_rows_at_the_watermark_are_next() -> None:
    with uncompiled():
        stream = query(5, 2).stream()
        stream.push(table([4]))
        stream.advance(10)
        assert shown(stream.push(table([10, 10, 10], 1))) == [(10, 10, 1, 2, [1], 0), (10, 10, 1, 4, [1, 2, 3], 0)]
        assert shown(stream.push(table([10, 10], 4))) == [(10, 10, 1, 6, [1, 2, 3, 4, 5], 0)]


def test_a_late_row_of_the_time_of_others_changes_windows_with_the_same_bounds() -> None:
    with uncompiled():
        stream = query(9, 3, allowed_lateness=10).stream()
        stream.push(table([1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 5]))
        assert shown(stream.push(table([1], 11))) == [
            (1, 2, 0, 6, [0, 1, 2, 3, 11, 4], 1),
            (1, 2, 0, 9, [0, 1, 2, 3, 11, 4, 5, 6, 7], 1),
            (1, 5, 0, 12, [0, 1, 2, 3, 11, 4, 5, 6, 7, 8, 9, 10], 0),
        ]
