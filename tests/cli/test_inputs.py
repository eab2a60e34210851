"""What is read: folders with subfolders, text that is not UTF-8, files without rows, and errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from cli.files import QUERY, read, readings, write

from muntin.cli.query_file import parse_query
from muntin.cli.sources import Position, Source

LOCAL = ("--engine", "local")


def partitioned(rows: pa.Table, folder: Path, *names: str, format: str = "parquet") -> None:
    """Write rows as Hive and Spark do: a folder for each value."""
    ds.write_dataset(rows, folder, format=format, partitioning=list(names), partitioning_flavor="hive")


def by_key(windows: pa.Table) -> list[dict]:
    rows = windows.to_pylist()
    return sorted(rows, key=lambda row: (str(row["plug"]), row["window_id"], str(row["window"])))


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_folders_of_values_are_a_column(format, tmp_path, muntin, query_file):
    rows = readings()
    partitioned(rows, tmp_path / "in", "plug", format=format)
    assert len(list((tmp_path / "in").iterdir())) == 3
    out = tmp_path / "out.parquet"
    result = muntin("run", query_file, "--input", tmp_path / "in", "--output", out, *LOCAL, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 600
    expected = parse_query(QUERY).run(rows)
    assert by_key(pq.read_table(out).cast(expected.schema)) == by_key(expected)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 12], pa.int32()),
        ([3, 2**40], pa.int64()),
        ([0.5, 7.0], pa.float64()),
        (["2024-03-01", "2024-12-31"], pa.date32()),
        (["3", "b"], pa.string()),
        (["nan", "1.5"], pa.string()),
        (["a/b c", None], pa.string()),
        ([7, None], pa.int32()),
    ],
)
def test_values_of_folders_have_the_first_type_that_takes_them_all(values, kind, tmp_path):
    rows = pa.table({"ts": [1, 2], "plug": values, "watts": [1.0, 2.0]})
    partitioned(rows, tmp_path / "in", "plug")
    table = pa.concat_tables(Source(tmp_path / "in", parse_query(QUERY)).batches(Position()))
    assert table.schema.field("plug").type == kind
    found = dict(zip(table["ts"].to_pylist(), table["plug"].cast(pa.string()).to_pylist(), strict=True))
    expected = rows["plug"].cast(kind).cast(pa.string()).to_pylist()
    assert found == dict(zip([1, 2], expected, strict=True))


def test_other_subfolders_are_read_too_but_hidden_ones(tmp_path, muntin, query_file):
    rows = readings()
    for number, name in enumerate(("2024/03", "2024/04/x.parquet")):
        (tmp_path / "in" / name).mkdir(parents=True)
        write(rows.slice(300 * number, 300), tmp_path / "in" / name / "rows.parquet")
    for name in ("_temporary", ".staging"):
        (tmp_path / "in" / name).mkdir()
        write(rows, tmp_path / "in" / name / "rows.parquet")
    (tmp_path / "in" / "2024" / "circle").symlink_to(tmp_path / "in")
    result = muntin("run", query_file, "--input", tmp_path / "in", "--output", tmp_path / "out.csv", *LOCAL, "--json")
    assert json.loads(result.stdout)["rows"] == 600, result.output


def test_a_query_of_columns_that_only_folders_hold(tmp_path, muntin):
    rows = pa.table({"hour": [1, 1, 2], "room": ["a", "b", "a"], "v": [1.0, 2.0, 3.0]})
    partitioned(rows, tmp_path / "in", "hour", "room")
    query = tmp_path / "query.toml"
    query.write_text('time = "hour"\nkey = "room"\n[[windows]]\ntumbling = 10\n[aggregates]\nn = "count()"\n')
    result = muntin("run", query, "--input", tmp_path / "in")
    assert result.exit_code == 0, result.output
    assert {(each["room"], each["n"]) for each in map(json.loads, result.stdout.splitlines())} == {("a", 2), ("b", 1)}


def test_over_has_the_columns_of_folders(tmp_path, muntin):
    partitioned(readings(30), tmp_path / "in", "plug")
    statement = "SELECT *, max(watts) OVER (PARTITION BY plug ORDER BY ts ROWS 2 PRECEDING) AS peak FROM t"
    out = tmp_path / "out.parquet"
    result = muntin("over", "--sql", statement, "--input", tmp_path / "in", "--output", out)
    assert result.exit_code == 0, result.output
    assert pq.read_table(out).column_names == ["ts", "watts", "plug", "peak"]
    assert sorted(pq.read_table(out)["plug"].to_pylist()) == sorted(readings(30)["plug"].to_pylist())


def test_folders_that_do_not_fit_together_are_refused(tmp_path, muntin, query_file):
    for name in ("plug=a", "day=1/plug=b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        write(readings(), tmp_path / "in" / name / "rows.parquet")
    result = muntin("run", query_file, "--input", tmp_path / "in", "--output", tmp_path / "out.csv", *LOCAL)
    assert result.exit_code == 2
    assert (
        "in/plug=a/rows.parquet: the columns in the names of its folders are 'plug', those of other files 'day', 'plug'"
        in result.stderr
    )
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.txt").write_text("no rows")
    result = muntin("run", query_file, "--input", tmp_path / "none", "--output", tmp_path / "out.csv", *LOCAL)
    assert result.exit_code == 2
    assert "none holds no file that can be read; their names end with .parquet, .pq, .csv" in result.stderr
    assert not list(tmp_path.glob("out*"))


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"ts,plug,watts\n1,a,1\n2,caf\xe9,2\n", "line 3, byte 6: 0xe9 is no UTF-8"),
        (b"ts,pl\xfcg,watts\n1,a,1\n", "line 1, byte 6: 0xfc is no UTF-8"),
        (b"ts,plug,watts\n" + b"1,a,1\n" * 300_000 + b"2,\xc3", "line 300002, byte 3: 0xc3 is no UTF-8"),
        ("ts,plug,watts\n1,é,1\n".encode("utf-16"), "line 1, byte 1: 0xff is no UTF-8"),
    ],
)
@pytest.mark.parametrize("command", ["run", "over"])
def test_text_that_is_not_utf8_is_refused_by_its_place(data, place, command, tmp_path, muntin):
    query = tmp_path / "query.toml"
    query.write_text('key = "plug"\n[[windows]]\ntrailing = 10\n[aggregates]\nn = "count()"\n')
    (tmp_path / "in.csv").write_bytes(data)
    result = muntin(command, query, "--input", tmp_path / "in.csv")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"muntin: {tmp_path / 'in.csv'}, {place}; convert the file")
    assert result.stdout == ""


def test_text_of_any_script_is_read(tmp_path, muntin):
    query = tmp_path / "query.toml"
    query.write_text('key = "plug"\n[[windows]]\ntumbling = 10\n[aggregates]\nn = "count()"\n')
    names = ["é" * 400_001, "日本", "🌀"]  # characters that begin at the end of one block, and end in the next
    (tmp_path / "in.csv").write_text("\ufeffts,plug\n" + "".join(f"1,{name}\n" for name in names), encoding="utf-8")
    result = muntin("run", query, "--input", tmp_path / "in.csv")
    assert result.exit_code == 0, result.output
    assert {json.loads(line)["plug"] for line in result.stdout.splitlines()} == set(names)


@pytest.mark.parametrize("name", ["query.toml", "query.sql"])
def test_a_query_may_begin_with_a_mark_of_its_encoding(name, tmp_path, muntin):
    write(readings(), tmp_path / "in.parquet")
    statement = "SELECT plug, max(watts) AS peak FROM t GROUP BY plug, TUMBLE(ts, INTERVAL '10' MINUTE)"
    (tmp_path / name).write_text(QUERY if name.endswith("toml") else statement, encoding="utf-8-sig")
    given = (tmp_path / name,) if name.endswith("toml") else ("--sql", tmp_path / name)
    result = muntin("run", *given, "--input", tmp_path / "in.parquet")
    assert result.exit_code == 0, result.output
    (tmp_path / "query.toml").write_text("\n" + QUERY.replace("session", "sesion"), encoding="utf-8-sig")
    assert "query.toml:10: windows[1].sesion" in muntin("explain", tmp_path / "query.toml").stderr


# ---------------------------------------------------------------- no rows


@pytest.mark.parametrize("output", ["out.parquet", "out.csv", "out.jsonl", "parts"])
@pytest.mark.parametrize("name", ["typed.parquet", "typed.arrow", "header.csv", "blank.csv", "blank.jsonl", "folder"])
def test_files_without_rows_are_answered_by_no_windows(name, output, tmp_path, muntin, query_file):
    given = tmp_path / name
    if name.startswith("typed"):
        write(readings(0), given)
    elif name == "folder":
        given.mkdir()
        (given / "1.csv").write_text("ts,plug,watts\n")
        (given / "2.csv").write_text("")
    else:
        given.write_text("ts,plug,watts\n" if name == "header.csv" else "")
    out = tmp_path / output
    for command in (("run", query_file, *LOCAL), ("over", _frames(tmp_path))):
        result = muntin(*command, "--input", given, "--output", out, "--overwrite")
        assert result.exit_code == 0, result.output
        assert "0 rows" in result.stdout
        if output == "out.parquet":
            assert pq.read_table(out).num_rows == 0
            assert pq.read_schema(out).field("n").type == pa.int64()
        if output == "out.csv":
            assert out.read_text().count("\n") == 1
        if output == "out.jsonl":
            assert out.read_text() == ""


def _frames(folder: Path) -> Path:
    path = folder / "frames.toml"
    path.write_text(
        'key = "plug"\n[[windows]]\ntrailing = "1 hour"\n[aggregates]\nn = "count()"\npeak = "max(watts)"\n'
    )
    return path


def test_files_without_rows_among_others_do_not_change_the_answer(tmp_path, muntin, query_file):
    (tmp_path / "in").mkdir()
    for name, text in (("0.csv", "ts,plug,watts\n"), ("2.jsonl", ""), ("4.csv", "ts,plug,watts\n")):
        (tmp_path / "in" / name).write_text(text)
    write(readings(), tmp_path / "in" / "1.parquet")
    write(readings(0), tmp_path / "in" / "3.parquet")
    outs = []
    for given in (tmp_path / "in", tmp_path / "in" / "1.parquet"):
        outs.append(tmp_path / f"{given.name}.csv")
        assert muntin("run", query_file, "--input", given, "--output", outs[-1], *LOCAL).exit_code == 0
    assert read(outs[0]).equals(read(outs[1]))
    result = muntin("over", _frames(tmp_path), "--input", tmp_path / "in")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 600
    assert muntin("warm", query_file, "--input", tmp_path / "in", "--json").exit_code == 0


# ---------------------------------------------------------------- errors that name the file


def test_errors_about_rows_name_the_file(tmp_path, muntin, query_file):
    rows, folder = readings(40), tmp_path / "in"
    folder.mkdir()
    write(rows.slice(0, 20), folder / "1.parquet")
    words = rows.set_column(2, "watts", pa.array(["x"] * 40))
    for command in (("run", query_file), ("over", _frames(tmp_path))):
        for bad, says in (
            (
                words,
                ("2.parquet: column 'watts' held double before, and now string", "2.parquet differs in its columns"),
            ),
            (pq.read_table(_null(rows, tmp_path)), ("2.parquet: the time column 'ts' is null in row 30",) * 2),
        ):
            write(bad, folder / "2.parquet")
            result = muntin(*command, "--input", folder, "--output", tmp_path / "out.csv", *_local(command))
            assert result.exit_code == 2
            assert says[command[0] == "over"] in result.stderr
            assert result.stderr.count("\n") == 1
            muntin(*command, "--input", folder / "1.parquet", "--output", tmp_path / "out.csv", "--overwrite")
            (tmp_path / "out.csv").unlink()


def _local(command):
    return LOCAL if command[0] == "run" else ()


def _null(rows: pa.Table, folder: Path) -> Path:
    times = rows["ts"].to_pylist()
    times[30] = None
    write(rows.set_column(0, "ts", pa.array(times, pa.timestamp("us"))), folder / "null.parquet")
    return folder / "null.parquet"
