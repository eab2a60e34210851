"""`Query.over`: answers beside the rows, or at points, against plain recomputation."""

from __future__ import annotations

import datetime
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import strategies
from queries.oracle import frame_around, in_frame
from queries.test_frames import AGGREGATES, FRAMES, by_duckdb, sql_frame, tables
from sampling import examples

from muntin import Query, agg, rows, slide, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled

BY_TIME = strategies.KINDS["leading"] | strategies.KINDS["frame"] | strategies.KINDS["trailing, closed and delayed"]
SPENT = {"n": agg.count(), "spent": agg.sum("v")}
CARDS = pa.table({"t": [1, 5, 5, 9, 3], "card": ["a", "a", "b", "a", "b"], "v": [1, 2, 4, 8, 16]})


def over(query: Query, *tables: Any) -> Any:
    with uncompiled():
        return query.over(*tables)


@given(frame=FRAMES.filter(lambda frame: getattr(frame, "hop", None) is None), data=tables())
@settings(deadline=None, max_examples=examples(30))
def test_rows_stay_where_they_are(frame: Any, data: pa.Table) -> None:
    found = over(Query(frame, AGGREGATES, key="k", time="t"), data)
    assert found.select(data.column_names) == data
    assert found.column_names == [*data.column_names, *AGGREGATES]
    truth = by_duckdb(data, sql_frame(frame))
    ordered = found.sort_by([("k", "ascending"), ("t", "ascending"), ("i", "ascending")])
    assert [(row["k"], *(row[name] for name in AGGREGATES)) for row in ordered.to_pylist()] == truth


@given(st.lists(BY_TIME, min_size=1, max_size=3), tables(), st.data())
@settings(deadline=None, max_examples=examples(40))
def test_points_by_time(frames: list[Any], data: pa.Table, drawn: st.DataObject) -> None:
    """Points in any order, before, at, between and after rows; some of a key that has none."""
    low, high = min(data["t"].to_pylist()) - 15, max(data["t"].to_pylist()) + 15
    points = drawn.draw(st.lists(st.tuples(st.integers(low, high), st.sampled_from("abcd")), max_size=20))
    asked = pa.table(
        {"t": pa.array([t for t, _ in points], pa.int64()), "k": pa.array([k for _, k in points], pa.string())}
    )
    query = Query(
        dict(zip("xyz", frames, strict=False)), {"n": agg.count(), "ids": agg.collect("i")}, key="k", time="t"
    )
    found = over(query, data, asked)
    listed = sorted(data.to_pylist(), key=lambda row: row["t"])
    for name, frame in query.windows.by_name.items():
        of = (lambda column, name=name: column) if len(frames) == 1 else lambda column, name=name: f"{column}_{name}"
        for row in found.to_pylist():
            bounds = frame_around(frame, row["t"])
            held = [e["i"] for e in listed if e["k"] == row["k"] and in_frame(frame, e["t"], *bounds)]
            assert row[of("n")] == len(held)
            assert (row[of("ids")] or []) == held
    assert found.select(["t", "k"]) == asked


@pytest.mark.parametrize(
    ("frame", "held"),
    [
        (window.trailing(rows(2)), [[], [1], [1], [2, 3], [2, 3], [3, 4]]),
        (window.trailing(rows(2), closed="left"), [[], [], [1], [1], [2, 3], [3, 4]]),
        (window.trailing(rows(2), closed="both"), [[], [1], [1], [1, 2, 3], [1, 2, 3], [2, 3, 4]]),
        (window.trailing(rows(2), closed="neither"), [[], [], [1], [1], [3], [4]]),
        (window.trailing(rows(2), delay=rows(1)), [[], [], [], [1, 2], [1, 2], [2, 3]]),
        (window.leading(rows(2)), [[1, 2], [1, 2], [2, 3], [2, 3], [4], []]),
        (window.leading(rows(2), closed="right"), [[1, 2], [2, 3], [2, 3], [4], [4], []]),
        (window.frame(rows(1), rows(1)), [[1], [1, 2], [1, 2], [1, 2, 3, 4], [3, 4], [4]]),
    ],
    ids=repr,
)
def test_points_by_rows(frame: Any, held: list[list[int]]) -> None:
    """A point is between rows: those of its own time belong to the bound that is closed."""
    data = {"t": [10, 20, 20, 40], "v": [1, 2, 3, 4]}
    points = {"t": [5, 10, 15, 20, 30, 50]}
    found = over(Query(frame, {"all": agg.collect("v")}, time="t"), data, points)
    assert [each or [] for each in found["all"].to_pylist()] == held


@pytest.mark.parametrize("closed", ["left", "neither"])
@given(times=st.lists(st.integers(0, 3 * 10**6), max_size=30), point=st.integers(0, 4 * 10**6))
@settings(deadline=None, max_examples=examples(20))
def test_no_row_of_a_points_time_or_later_is_seen(closed: str, times: list[int], point: int) -> None:
    """Rows are planted at the very time of a point, and a microsecond after it: each would show in every aggregate."""
    windows = {"s": window.trailing("1 second", closed=closed), "r": window.trailing(rows(5), closed=closed)}
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v")}

    def answer(moments: list[int], values: list[float]) -> pa.Table:
        data = {"t": pa.array(moments, pa.timestamp("us")), "v": pa.array(values, pa.float64())}
        return over(Query(windows, aggregates, time="t"), data, {"t": pa.array([point], pa.timestamp("us"))})

    before = [t for t in times if t < point]
    leaky = [point, *times, point + 1]
    honest = answer(before, [1.0] * len(before))
    assert answer(leaky, [1.0 if t < point else 1e9 for t in leaky]) == honest
    assert honest["n_r"].to_pylist() == [min(len(before), 5 - (closed == "neither"))]


def test_one_kind_in_the_same_kind_out() -> None:
    query = Query(window.trailing(10, closed="left"), SPENT, key="card", time="t")
    truth = {"n": [0, 1, 1, 2, 0], "spent": [None, 1, 16, 3, None]}
    frame = CARDS.to_pandas().set_index(pandas.Index([7, 7, 3, 0, -1], name="row"))
    found = over(query, frame)
    assert isinstance(found, pandas.DataFrame)
    assert found.index.equals(frame.index)
    assert list(found.columns) == ["t", "card", "v", "n", "spent"]
    pandas.testing.assert_frame_equal(found[["t", "card", "v"]], frame)
    assert found["n"].tolist() == truth["n"]
    assert found["spent"].isna().tolist() == [each is None for each in truth["spent"]]
    assert found["spent"].dropna().tolist() == [1, 16, 3]
    frame = polars.from_arrow(CARDS)
    found = over(query, frame)
    assert isinstance(found, polars.DataFrame)
    assert found.select("t", "card", "v").equals(frame)
    assert found.select("n", "spent").to_dict(as_series=False) == truth
    for other in (CARDS, CARDS.to_batches()[0], CARDS.to_pydict()):
        assert over(query, other).to_pydict() == {**CARDS.to_pydict(), **truth}


def test_the_points_decide_the_kind() -> None:
    query = Query(window.trailing(10), SPENT, key="card", time="t")
    points = pandas.DataFrame({"t": [9, 2], "card": ["a", "b"], "label": [True, False]}, index=["x", "y"])
    found = over(query, CARDS, points)
    assert found.drop(columns="spent").to_dict("index") == {
        "x": {"t": 9, "card": "a", "label": True, "n": 3},
        "y": {"t": 2, "card": "b", "label": False, "n": 0},
    }
    assert found["spent"].isna().tolist() == [False, True]
    assert found["spent"]["x"] == 11
    assert over(query, polars.from_arrow(CARDS), {"t": [9], "card": ["a"]})["n"].to_pylist() == [3]


def test_columns_have_the_names_of_windows() -> None:
    hour, day = window.trailing(5), window.trailing(10)

    def names(windows: Any) -> list[str]:
        return over(Query(windows, SPENT, key="card", time="t"), CARDS).column_names[3:]

    assert names(hour) == names({"any": hour}) == ["n", "spent"]
    assert names([hour, day]) == ["n_w0", "spent_w0", "n_w1", "spent_w1"]
    assert names({"h": hour, "d": day}) == ["n_h", "spent_h", "n_d", "spent_d"]


def test_tables_without_rows() -> None:
    query = Query(window.trailing(10), SPENT, key="card", time="t")
    assert over(query, CARDS[:0]).to_pydict() == {"t": [], "card": [], "v": [], "n": [], "spent": []}
    assert over(query, CARDS, CARDS.select(["t", "card"])[:0]).num_rows == 0
    found = over(query, CARDS[:0], CARDS.select(["t", "card"])[:1])
    assert found.to_pydict() == {"t": [1], "card": ["a"], "n": [0], "spent": [None]}
    assert found.schema.field("spent").type == pa.int64()


def test_keys_of_several_columns_and_null_keys() -> None:
    data = pa.table({"t": [1, 2, 3], "a": ["x", None, "x"], "b": [1.0, 0.0, 1.0], "v": [1, 2, 3]})
    points = pa.table(
        {"t": [9, 9, 9], "a": pa.array(["x", None, "y"]).dictionary_encode(), "b": pa.array([1, -0.0, 1], pa.float32())}
    )
    query = Query(window.trailing(10), {"n": agg.count()}, key=["a", "b"], time="t")
    assert over(query, data, points)["n"].to_pylist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("windows", "table", "points", "error", "message"),
    [
        (window.tumbling(5), CARDS, None, UnsupportedOperationError, "'w0' is window.tumbling.*take window.trailing"),
        (window.trailing(5), {**CARDS.to_pydict(), "n": [0] * 5}, None, InvalidArgumentError, "'n' is there already"),
        ({"b": window.trailing(5), "b_c": window.trailing(6)}, CARDS, None, None, ""),
        (window.trailing(5), CARDS.drop_columns(["v"]), None, ColumnError, "no column 'v'"),
        (window.trailing(5), CARDS, {"t": [1]}, ColumnError, "no column 'card'"),
        (window.trailing(5), CARDS, {"t": [1, None], "card": ["a", "a"]}, InvalidArgumentError, "'t' is null in row 1"),
        (
            window.trailing(5),
            CARDS,
            {"t": [1.0, float("nan")], "card": ["a", "a"]},
            ColumnTypeError,
            "'t' holds int64 in the",
        ),
        (
            window.trailing(5),
            CARDS,
            {"t": ["1"], "card": ["a"]},
            ColumnTypeError,
            "'t' holds int64 in the rows, and string",
        ),
        (
            window.trailing(5),
            CARDS,
            {"t": [1], "card": [1]},
            ColumnTypeError,
            "'card' holds string in the rows, and int64",
        ),
        (window.trailing(5), CARDS, {"t": [1], "card": ["a"], "spent": [1]}, InvalidArgumentError, "'spent' is there"),
        (window.trailing(5), CARDS, 3, InvalidArgumentError, "a table is needed: .*polars.* got a int"),
        (
            window.trailing(5),
            {**CARDS.to_pydict(), "t": [1, None, 2, 3, 4]},
            None,
            InvalidArgumentError,
            "null in row 1",
        ),
        (
            window.trailing(5),
            {**CARDS.to_pydict(), "t": [2**63 - 1] * 5},
            None,
            InvalidArgumentError,
            "beyond what int64",
        ),
    ],
)
def test_refusals(windows: Any, table: Any, points: Any, error: Any, message: str) -> None:
    query = Query(windows, SPENT, key="card", time="t")
    if error is None:
        assert over(query, table).num_columns == 7
        return
    with pytest.raises(error, match=message):
        over(query, table, points)


def test_names_that_would_be_there_twice_are_refused() -> None:
    windows = {"b_c": window.trailing(5), "c": window.trailing(6)}
    with pytest.raises(InvalidArgumentError, match="two columns of the answer are 'a_b_c'"):
        over(Query(windows, {"a": agg.count(), "a_b": agg.count()}, time="t"), {"t": [1]})
    twice = pandas.DataFrame([[1, 2, 3]], columns=["t", "x", "x"])
    with pytest.raises(InvalidArgumentError, match="two columns of the table are 'x'"):
        over(Query(window.trailing(5), {"n": agg.count()}, time="t"), twice)
    with pytest.raises(InvalidArgumentError, match="no time column"):
        over(Query(window.trailing(5), {"n": agg.count()}, time=None), {"t": [1]})


def test_times_of_another_unit_or_zone() -> None:
    def moments(unit: str, zone: str | None = None) -> pa.Array:
        return pa.array([datetime.datetime(2026, 1, 1)], pa.timestamp(unit, zone))

    query = Query(window.trailing("1 hour"), {"n": agg.count()}, time="t")
    rows = {"t": moments("us")}
    assert over(query, rows, {"t": moments("ns")})["n"].to_pylist() == [1]
    assert over(query, rows, {"t": moments("s")}).schema.field("t").type == pa.timestamp("s")
    with pytest.raises(
        ColumnTypeError, match=r"timestamp\[us\] in the rows, and timestamp\[us, tz=UTC\] in the points"
    ):
        over(query, rows, {"t": moments("us", "UTC")})
    fine = pa.array([1], pa.int64()).cast(pa.timestamp("ns"))
    with pytest.raises(ColumnTypeError, match="'t' of the points does not fit"):
        over(query, rows, {"t": fine})


def test_nan_of_pandas_is_a_value_at_every_door() -> None:
    frame = pandas.DataFrame({"t": [1, 2, 3], "v": [1.0, float("nan"), 3.0]})
    query = Query(window.trailing(10), {"n": agg.count("v"), "known": agg.count("v", skip_nan=True)}, time="t")
    with uncompiled():
        found = [query.over(frame), query.run(frame), query.stream().push(frame), query.run(dict(frame))]
        found += [slide(frame, {"n": agg.count("v"), "known": agg.count("v", skip_nan=True)}, range=10, times="t")]
        missing = query.over(frame.astype({"v": "Float64"}))  # there it is pandas' own missing value
    for each in found:
        assert [each[name].to_numpy().tolist() for name in ("n", "known")] == [[1, 2, 3], [1, 1, 2]]
    assert missing["n"].tolist() == [1, 1, 2]
