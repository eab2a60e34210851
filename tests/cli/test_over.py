"""`muntin over`: answers beside the rows of files, or beside points."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from cli.files import read, readings, write

import muntin as library
from muntin.cli.query_file import parse_query

SELECT = """
    SELECT *, max(watts) OVER (PARTITION BY plug ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)
    AS peak FROM readings
"""
QUERY = """
time = "ts"
key = "plug"
[windows.hour]
trailing = "1 hour"
closed = "left"
[windows.few]
trailing = "3 rows"
[aggregates]
peak = "max(watts)"
"""


@pytest.fixture
def query_of_frames(tmp_path):
    path = tmp_path / "frames.toml"
    path.write_text(QUERY)
    return path


def with_notes():
    table = readings(80)
    return table.append_column("note", pa.array([f"n{i}" for i in range(80)]))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_rows_keep_their_columns_and_order(suffix, tmp_path, muntin):
    write(with_notes(), tmp_path / f"in{suffix}")
    out = tmp_path / f"out{suffix}"
    result = muntin("over", "--sql", SELECT, "--input", tmp_path / f"in{suffix}", "--output", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"80 rows, in {out}\n"
    expected = library.sql(SELECT).over(with_notes())
    found = read(out)
    assert found.column_names == expected.column_names == ["ts", "plug", "watts", "note", "peak"]
    assert found.drop_columns("ts").to_pylist() == expected.drop_columns("ts").to_pylist()


def test_points_of_a_folder_of_files(tmp_path, muntin, query_of_frames):
    table = readings(90)
    (tmp_path / "in").mkdir()
    for i in range(3):
        write(table.slice(30 * i, 30), tmp_path / "in" / f"{i}.parquet")
    points = table.select(["plug", "ts"]).slice(50, 7)
    write(points, tmp_path / "points.parquet")
    given = ("--input", tmp_path / "in", "--at", tmp_path / "points.parquet")
    result = muntin("over", query_of_frames, *given)
    assert result.exit_code == 0, result.output
    expected = parse_query(QUERY).over(table, at=points)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    names = ["plug", "peak_hour", "peak_few"]
    assert [[line[name] for name in names] for line in lines] == [
        [row[name] for name in names] for row in expected.to_pylist()
    ]


def test_what_cannot_be_answered_is_one_line(tmp_path, muntin, query_of_frames, query_file):
    rows, points = tmp_path / "in.parquet", tmp_path / "points.parquet"
    write(readings(10), rows)
    write(readings(10).select(["ts"]), points)
    (tmp_path / "mixed").mkdir()
    write(readings(5), tmp_path / "mixed" / "a.parquet")
    write(readings(5).set_column(2, "watts", [["x"] * 5]), tmp_path / "mixed" / "b.parquet")
    for given, message in (
        ((query_of_frames, "--input", rows, "--at", points), "there is no column 'plug'"),
        ((query_of_frames, "--input", tmp_path / "mixed"), "b.parquet differs in its columns"),
        ((query_of_frames, "--input", rows, "--output", points), "is there already; give --overwrite"),
        ((query_file, "--input", rows), "frames"),
    ):
        result = muntin("over", *given)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
    assert read(points).num_rows == 10, "it was not written over"
    result = muntin("over", query_of_frames, "--input", rows, "--output", points, "--overwrite", "--json")
    assert json.loads(result.stdout) == {"rows": 10, "output": str(points)}
    assert read(points).num_columns == 5
