"""LazyFrames, datasets, readers and lists of mappings as tables: the answers of the same rows in a table."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.test_run import as_table, asked
from sampling import examples

import muntin
from muntin import Query, agg, rows, slide, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError, OutOfOrderError
from muntin.kernels.cache import uncompiled
from muntin.streams import batched_run

ROWS = pa.table(
    {
        "ts": pa.array([3, 1, 12, 14, 25, 2]).cast(pa.timestamp("s")),
        "k": ["a", "b", "a", None, "b", "a"],
        "v": pa.array([1, 2, None, 4, 5, 6]),
        "unread": ["x"] * 6,
    }
)
LISTED = ROWS.to_pylist()
QUERY = Query(window.sliding("10s", every="5s"), {"sum": agg.sum("v"), "n": agg.count()}, key="k")
FRAMES = Query(window.trailing("10s"), {"sum": agg.sum("v"), "n": agg.count()}, key="k")


BY_NUMBER = Query(window.trailing(10), FRAMES.aggregates, key="k")


@agg.define(state={"v": "i8"})
class later:  # not commutative, and its state has a fixed size
    def lift(v):
        return (v,)

    def combine(a, b):
        return (b.v,)

    def lower(s):
        return s.v


LAST = later("v")


class Exported:
    """A table of another library, which Arrow can read once."""

    def __init__(self, table: pa.Table) -> None:
        self._batches = table.to_batches(max_chunksize=2)
        self._schema = table.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches, self._batches = self._batches, []
        return pa.RecordBatchReader.from_batches(self._schema, batches).__arrow_c_stream__(requested_schema)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "lazy": lambda table: pl.from_arrow(table).lazy(),
    "dataset": ds.dataset,
    "scanner": lambda table: ds.dataset(table).scanner(batch_size=2),
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "stream": Exported,
    "list": lambda table: table.to_pylist(),
    "tuple": lambda table: tuple(table.to_pylist()),
    "generator": lambda table: (row for row in table.to_pylist()),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def made(request: pytest.FixtureRequest) -> Callable[[pa.Table], Any]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _few_rows_are_folded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr(batched_run, "MOST_ROWS", 1)
        patch.setattr(batched_run, "ROWS_AT_ONCE", 3)
        yield


def listed(table: Any) -> list[dict[str, Any]]:
    """Return the rows of an answer, with times as Arrow has them."""
    return (table.to_arrow() if isinstance(table, pl.DataFrame) else table).to_pylist()  # type: ignore[no-any-return]


# ---------------------------------------------------------------- wherever a table goes in


def test_run(made: Callable[[pa.Table], Any]) -> None:
    found = QUERY.run(made(ROWS))
    assert isinstance(found, pl.DataFrame if made is KINDS["lazy"] else pa.Table)
    assert listed(found) == QUERY.run(ROWS).to_pylist()


def test_over_and_its_points(made: Callable[[pa.Table], Any]) -> None:
    points = ROWS.select(["k", "ts", "unread"]).slice(2)
    for found, wanted in (
        (FRAMES.over(made(ROWS)), FRAMES.over(ROWS)),
        (FRAMES.over(ROWS, at=made(points)), FRAMES.over(ROWS, at=points)),
        (FRAMES.over(made(ROWS), at=points.to_pandas()), FRAMES.over(ROWS, at=points)),
    ):
        assert (pa.Table.from_pandas(found) if hasattr(found, "iloc") else pa.table(found)).to_pylist() == (
            wanted.to_pylist()
        )
    assert isinstance(FRAMES.over(made(ROWS)), pl.DataFrame if made is KINDS["lazy"] else pa.Table)
    assert isinstance(FRAMES.over(ROWS, at=made(points)), pl.DataFrame if made is KINDS["lazy"] else pa.Table)


def test_streams(made: Callable[[pa.Table], Any]) -> None:
    one, other = FRAMES.stream(history=made(ROWS)), FRAMES.stream(history=ROWS)
    assert one.push(made(ROWS)).to_pylist() == other.push(ROWS).to_pylist()
    points = pa.table({"k": ["a", "c"]})
    assert listed(one.ask(made(points))) == other.ask(points).to_pylist()
    assert one.late.num_rows == other.late.num_rows > 0


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "stream"])  # which is an array to slide
def test_slide(kind: str) -> None:
    made = KINDS[kind]
    found = slide(made(ROWS), {"sum": agg.sum("v")}, range="10s", times="ts", by="k")
    assert isinstance(found, pl.DataFrame if made is KINDS["lazy"] else pa.Table)
    assert listed(found) == slide(ROWS, {"sum": agg.sum("v")}, range="10s", times="ts", by="k").to_pylist()
    assert slide(made(ROWS), {"n": agg.count()}, range=2).shape == (6, 1)


def test_latest_and_show(made: Callable[[pa.Table], Any]) -> None:
    answers = pa.concat_tables([QUERY.run(ROWS), QUERY.run(ROWS).slice(0, 0)])
    assert listed(muntin.latest(made(answers))) == muntin.latest(answers).to_pylist()
    assert str(muntin.show(made(answers))) == str(muntin.show(answers))


def test_explain_reads_types_alone() -> None:
    def fail(_: Any) -> Any:
        raise AssertionError("a row was read")

    lazy = pl.from_arrow(ROWS).lazy().with_columns(pl.col("v").map_batches(fail, return_dtype=pl.Int64))
    assert QUERY.explain(lazy).windows[0].strategy == "slices"
    reader = ROWS.to_reader()
    QUERY.explain(reader)
    assert reader.read_all().num_rows == 6


def test_no_rows(made: Callable[[pa.Table], Any]) -> None:
    none = ROWS.slice(0, 0)
    assert listed(QUERY.run(made(none))) == []
    assert FRAMES.over(made(none)).shape[0] == 0
    stream = FRAMES.stream(history=made(none))
    assert stream.push(made(none)).num_rows == 0
    stream.push(ROWS)
    assert stream.push(made(none)).num_rows == 0
    assert stream.ask(made(ROWS.select(["k"]).slice(0, 0))).shape[0] == 0


def test_columns_that_are_not_read_are_not_evaluated() -> None:
    def fail(_: Any) -> Any:
        raise AssertionError("a column was read that the query does not name")

    lazy = pl.from_arrow(ROWS).lazy().with_columns(pl.col("unread").map_batches(fail, return_dtype=pl.String))
    assert listed(QUERY.run(lazy)) == QUERY.run(ROWS).to_pylist()
    assert listed(FRAMES.over(lazy, at=ROWS)) == FRAMES.over(ROWS, at=ROWS).to_pylist()
    assert len(slide(lazy, agg.sum("v"), range="1s", times="ts", by=["k"])) == 6


def test_files(tmp_path: Any) -> None:
    pq.write_table(ROWS.slice(0, 2), tmp_path / "a.parquet")
    pq.write_table(ROWS.slice(2), tmp_path / "b.parquet")
    wanted = QUERY.run(ROWS).to_pylist()
    assert QUERY.run(ds.dataset(tmp_path)).to_pylist() == wanted
    assert QUERY.run(ds.dataset(tmp_path, format="parquet").filter(ds.field("v") > 0)).num_rows < len(wanted) + 1
    assert listed(QUERY.run(pl.scan_parquet(tmp_path / "*.parquet"))) == wanted


# ---------------------------------------------------------------- folding


@given(strategies.queries(most_windows=2), strategies.tables(), st.integers(1, 7), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=examples(120))
def test_folded_rows_have_the_answer_of_loaded_ones(
    query: oracle.Query, listed: list[dict[str, Any]], size: int, random: Any
) -> None:
    assume(listed)
    random.shuffle(listed)
    table = as_table(listed, query)
    wanted = asked(query).run(table)
    found = asked(query).run(table.to_reader(max_chunksize=size))
    assert found.schema == wanted.schema
    assert _rounded(found) == _rounded(wanted)


def _rounded(table: pa.Table) -> list[Any]:
    """Return rows as nested lists; floats without their last digits, which depend on the order of addition."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else float(f"{value:.9g}")
        if isinstance(value, dict):
            return [plain(each) for each in value.values()]
        return [plain(each) for each in value] if isinstance(value, list) else value

    return [plain(row) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("windows", "aggregate", "ordered", "folds"),
    [
        (window.sliding(10, every=5), agg.sum("v"), False, True),
        ([window.tumbling(5), window.session(2), window.cumulative(10, every=5)], agg.mean("v"), False, True),
        (window.tumbling(rows(2)), agg.sum("v"), False, False),
        (window.trailing(5), agg.sum("v"), False, False),
        ([window.tumbling(5), window.trailing(5)], agg.sum("v"), False, False),
        (window.tumbling(5), agg.median("v"), False, False),
        (window.tumbling(5), agg.last("v"), False, True),
        (window.tumbling(5), LAST, False, False),
        (window.tumbling(5), LAST, True, True),
    ],
)
def test_rows_are_let_go_where_slices_stand_for_them(
    windows: Any, aggregate: Any, ordered: bool, folds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"ts": [1, 3, 3, 8, 14, 15, 31], "k": list("abacaba"), "v": [1, 2, 3, 4, 5, 6, 7]})
    query = Query(windows, {"x": aggregate}, key="k", ordered=ordered)
    wanted = query.run(table)
    loaded = []
    run = batched_run.run
    monkeypatch.setattr(batched_run, "run", lambda *given: (loaded.append(given), run(*given))[1])
    assert query.run(table.to_reader(max_chunksize=2)).equals(wanted)
    assert bool(loaded) is not folds


def test_deletions_find_their_rows_in_other_batches() -> None:
    query = Query(window.tumbling(10), {"sum": agg.sum("v")}, changes="op")
    table = pa.table({"ts": [1, 2, 1, 30], "v": [5, 6, 5, 7], "op": ["insert", "insert", "delete", "insert"]})
    found = query.run(table.to_reader(max_chunksize=1))
    assert found.equals(query.run(table))
    assert found["sum"].to_pylist() == [6, 7]


def test_options_of_streams_are_nothing_to_a_finite_table() -> None:
    query = Query(
        QUERY.windows.as_given,
        QUERY.aggregates,
        key="k",
        watermark="1s",
        allowed_lateness="2s",
        emit_early="3s",
        idle_timeout="1s",
        forget_after="1s",
    )
    assert query.run(ROWS.to_reader(max_chunksize=1)).equals(query.run(ROWS))


def test_a_mistake_in_a_later_batch_says_where() -> None:
    table = pa.table({"ts": [1, 2, 3, 4, None, 6], "v": [1] * 6})
    query = Query(window.tumbling(10), {"n": agg.sum("v")})
    with pytest.raises(InvalidArgumentError, match=r"'ts' is null in row 1; .*counted from row 3 on"):
        query.run(table.to_reader(max_chunksize=1))
    back = pa.table({"ts": [1, 2, 3, 2], "v": [1] * 4})
    promised = Query(window.tumbling(10), {"n": agg.sum("v")}, ordered=True)
    with pytest.raises(OutOfOrderError, match=r"goes back in row 0, from 3 to 2.*from row 3 on"):
        promised.run(back.to_reader(max_chunksize=1))


def test_threads_and_names_are_checked(made: Callable[[pa.Table], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="threads"):
        QUERY.run(made(ROWS), threads=0)
    with pytest.raises(ColumnError, match="'ts'"):
        QUERY.run(made(ROWS.drop_columns(["ts"])))
    with pytest.raises(ColumnError, match="no column 'v'"):
        QUERY.run(made(ROWS.drop_columns(["v"])))
    with pytest.raises(InvalidArgumentError, match="no time column"):
        Query(window.tumbling(1), {"n": agg.count()}, time=None).run(made(ROWS))


@pytest.mark.parametrize("kind", ["lazy", "dataset", "reader", "list", "generator"])
def test_slide_names_a_missing_column(kind: str) -> None:
    with pytest.raises(ColumnError, match="no column 'w'"):
        slide(KINDS[kind](ROWS), agg.sum("w"), range=2)


# ---------------------------------------------------------------- read once


def test_a_reader_is_read_once() -> None:
    reader = ROWS.to_reader()
    QUERY.run(reader)
    for again in (QUERY.run, FRAMES.over, FRAMES.stream().push):
        with pytest.raises(InvalidArgumentError, match="has been read before"):
            again(reader)


def test_a_generator_is_read_once() -> None:
    def lines() -> Iterator[dict[str, Any]]:
        yield from LISTED

    generator = lines()
    QUERY.run(generator)
    with pytest.raises(InvalidArgumentError, match=r"generator 'lines' has been read to its end"):
        QUERY.run(generator)


# ---------------------------------------------------------------- lists of mappings


def test_missing_keys_are_null() -> None:
    found = BY_NUMBER.over([{"ts": 1, "k": "a", "v": 1}, {"k": "a", "ts": 2}, {"ts": 3, "k": "a", "v": None, "w": 0.5}])
    assert found.column_names == ["ts", "k", "v", "w", "sum", "n"]
    assert found["v"].to_pylist() == [1, None, None]
    assert found["w"].to_pylist() == [None, None, 0.5]


def test_a_column_that_a_stream_knows_may_be_missing_in_a_whole_push() -> None:
    stream = BY_NUMBER.stream()
    with pytest.raises(ColumnError, match="'v'"):
        stream.push([{"ts": 1, "k": "a"}])
    stream.push([{"ts": 1, "k": "a", "v": 3}])
    assert stream.push([{"ts": 2, "k": "a"}])["sum"].to_pylist() == [3]
    with pytest.raises(ColumnError, match="'ts'"):
        stream.push([{"k": "a", "v": 1}])
    with pytest.raises(ColumnError, match="'v'"):
        stream.push({"ts": [2], "k": ["a"]})  # of a table all columns are needed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2, "x", 4], r"column 'v' holds int64 in the rows before row 2, and there 'x' \(str\)"),
        ([None, None, "x", 4], r"column 'v' holds string in the rows before row 3, and there 4 \(int\)"),
        (["x", b"\xff", {}], r"row 2, and there {} \(dict\)|row 1, and there b'\\xff'"),
        ([object()], r"column 'v' holds <object .*> \(object\) in row 0, which makes no column"),
        ([1, 2**70], r"before row 1, and there 1180591620717411303424 \(int\)"),
        ([3, dt.datetime(2024, 1, 1)], r"'v' holds int64 in the rows before row 1, and there .*\(datetime\)"),
    ],
)
def test_mixed_types_name_the_row_and_the_column(values: list[Any], message: str) -> None:
    with pytest.raises(ColumnTypeError, match=message):
        QUERY.run([{"ts": i, "k": "a", "v": value} for i, value in enumerate(values)])


@pytest.mark.parametrize(
    ("given_rows", "message"),
    [
        ([{"ts": 1}, 3], r"a table is needed: .* mappings .*; row 1 is a int"),
        ([[1, 2]], "row 0 is a list"),
        (["text"], "row 0 is a str"),
        (pa.table({"v": [1]}).to_batches(), "row 0 is a RecordBatch"),
        ([{"ts": 1}, {2: 1}], r"row 1 has the key 2; the names of columns are strings"),
    ],
)
def test_lists_of_anything_else_are_refused(given_rows: Any, message: str) -> None:
    for call in (QUERY.run, FRAMES.over, FRAMES.stream().push):
        with pytest.raises(InvalidArgumentError, match=message):
            call(given_rows)


def test_values_keep_their_meaning() -> None:
    found = slide([{"v": math.nan}, {"v": 1.0}, {"v": None}], agg.sum("v"), range=1)
    assert math.isnan(found[0].as_py())
    assert found.to_pylist()[1:] == [1.0, None]
    times = [{"ts": np.datetime64(i, "s"), "v": np.float32(i)} for i in range(3)]
    assert Query(window.tumbling("2s"), {"s": agg.sum("v")}).run(times)["s"].to_pylist() == [1.0, 2.0]


def test_an_array_of_values_is_no_list_of_rows() -> None:
    assert slide([1, 2, 3], agg.sum("v"), range=2).tolist() == [1, 3, 5]
    assert slide(iter([1, 2, 3]), agg.sum("v"), range=2).tolist() == [1, 3, 5]
    assert slide([], agg.sum("v"), range=2).tolist() == []
