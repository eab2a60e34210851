"""`muntin run --sql` and `muntin explain --sql`: statements instead of query files."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from cli.files import readings, write

import muntin as library

SELECT = "SELECT plug, max(watts) AS peak FROM readings GROUP BY plug, TUMBLE(ts, INTERVAL '1' HOUR)"
LOCAL = ("--engine", "local")


def in_order(windows):
    return sorted(windows.to_pylist(), key=lambda row: (row["plug"], row["window"]["start"]))


@pytest.mark.parametrize("as_file", [False, True])
def test_a_statement_is_run(as_file, tmp_path, muntin):
    write(readings(), tmp_path / "in.parquet")
    (tmp_path / "query.sql").write_text(SELECT.replace("FROM", "\nFROM"))
    out = tmp_path / "out.parquet"
    given = tmp_path / "query.sql" if as_file else SELECT
    result = muntin("run", "--sql", given, "--input", tmp_path / "in.parquet", "--output", out, *LOCAL)
    assert result.exit_code == 0, result.output
    assert in_order(pq.read_table(out)) == in_order(library.sql(SELECT).run(readings()))


def test_late_rows_have_their_options(tmp_path, muntin):
    late = ("--watermark", "10 seconds", "--allowed-lateness", "1 minute")
    result = muntin("explain", "--sql", SELECT, *late, "--json")
    assert result.exit_code == 0, result.output
    said = json.dumps(json.loads(result.stdout))
    assert "10 seconds" in said
    assert "1 minute" in said


def test_integers_are_durations_too(muntin):
    given = "SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, 10)"
    result = muntin("explain", "--sql", given, "--watermark", "5")
    assert result.exit_code == 0, result.output
    assert "the greatest time seen less 5" in result.stdout


REFUSED = {
    "a bad statement": (
        ("--sql", "SELECT median(nothing(a)) AS m FROM t GROUP BY TUMBLE(ts, 9)"),
        "line 1, column 15: there is no function nothing; there are ",
    ),
    "no query": ((), "there is no query; give QUERY.toml, or --sql"),
    "a file that is not there": (("--sql", "nowhere.sql"), "nowhere.sql cannot be read: No such file"),
    "no duration": (("--sql", SELECT, "--watermark", "soon"), "--watermark: 'soon' is no duration"),
}


@pytest.mark.parametrize("example", REFUSED)
def test_bad_input_is_one_line(example, muntin):
    given, message = REFUSED[example]
    result = muntin("explain", *given)
    assert result.exit_code == 2
    assert result.stderr.startswith("muntin: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_two_queries_are_refused(muntin, query_file):
    result = muntin("explain", query_file, "--sql", SELECT)
    assert result.exit_code == 2
    assert "both QUERY.toml and --sql" in result.stderr
    result = muntin("explain", query_file, "--allowed-lateness", "1 minute")
    assert result.exit_code == 2
    assert "--allowed-lateness is for --sql; " in result.stderr


def test_an_error_in_a_file_names_it(tmp_path, muntin):
    path = tmp_path / "query.sql"
    path.write_text("SELECT count(*) AS n\nFROM t\nGROUP BY TUMBLE(ts, 10)\nHAVING n > 1")
    result = muntin("explain", "--sql", path)
    assert result.exit_code == 2
    assert f"muntin: {path}:4:1: a query has no HAVING: leave windows out of the answer afterwards" in result.stderr
