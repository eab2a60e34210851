"""Queries in TOML files: what is read, and that every error names the line and the key."""

from __future__ import annotations

import tomllib

import pytest

from muntin import Query, agg, rows, window
from muntin.cli.query_file import QueryFileError, parse_query, read_query
from muntin.cli.toml_lines import line_of, lines_of

TEXT = """\
# what a house draws
time = "at"
key = ["house", "plug"]
watermark = "10 seconds"
allowed_lateness = "1 minute"
partial = true

[[windows]]
sliding = "24 hours"
every = "1 minute"

[[windows]]
session = "5 minutes" # [[windows]] in a comment is none

[[windows]]
trailing = { rows = 100 }

[[windows]]
delta = "meter"
range = 100.0
every = 10.0

[aggregates]
peak = "max(watts)"
who = "arg_max(watts, plug)"
usual = { agg = "quantile", columns = ["watts"], q = 0.5 }
high = "quantile(watts, 0.9)"
"all of it" = "sum('watt hours', skip_nan=true)"
n = "count()"
"""


def test_a_file_is_the_query_it_says(tmp_path):
    path = tmp_path / "query.toml"
    path.write_text(TEXT)
    assert read_query(path) == Query(
        [
            window.sliding("24 hours", every="1 minute"),
            window.session("5 minutes"),
            window.trailing(rows(100)),
            window.delta("meter", 100.0, every=10.0),
        ],
        {
            "peak": agg.max("watts"),
            "who": agg.arg_max("watts", "plug"),
            "usual": agg.quantile("watts", 0.5),
            "high": agg.quantile("watts", 0.9),
            "all of it": agg.sum("watt hours", skip_nan=True),
            "n": agg.count(),
        },
        key=["house", "plug"],
        time="at",
        watermark="10 seconds",
        allowed_lateness="1 minute",
        partial=True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('tumbling = "1 minute"', window.tumbling("1 minute")),
        ("lifetime = true", window.lifetime()),
        ('sliding = "1 hour"\nevery = "10 rows"', window.sliding("1 hour", every=rows(10))),
        ('session = true\ngap_column = "gap"', window.session(gap_column="gap")),
        ('lifetime = true\nclosed = "left"', window.lifetime(closed="left")),
        ('tumbling = "1 hour"\noffset = "15 minutes"', window.tumbling("1 hour", offset="15 minutes")),
        ("tumbling = 60", window.tumbling(60)),
        ('tumbling = "7 rows"', window.tumbling(rows(7))),
        ('sliding = "10 rows"\nevery = "5 seconds"', window.sliding(rows(10), every="5 seconds")),
        ('sliding = { rows = 10 }\nevery = "1 row"', window.sliding(rows(10), every=rows(1))),
        ('trailing = "1 hour"', window.trailing("1 hour")),
        (
            'trailing = "1 day"\nclosed = "left"\ndelay = "1 hour"\nhop = "1 minute"',
            window.trailing("1 day", closed="left", delay="1 hour", hop="1 minute"),
        ),
        ('trailing = "9 rows"\ndelay = "1 row"', window.trailing(rows(9), delay=rows(1))),
        ('leading = "1 hour"\nclosed = "both"', window.leading("1 hour", closed="both")),
        ('frame = "1 hour"\nafter = "30 minutes"', window.frame("1 hour", "30 minutes")),
        ('frame = "2 rows"\nafter = 0', window.frame(rows(2), 0)),
        ('cumulative = "1 day"\nevery = "1 hour"', window.cumulative("1 day", every="1 hour")),
        ('punctuated = "is_marker"', window.punctuated("is_marker")),
        ('delta = "meter"\nrange = 100.0', window.delta("meter", 100.0)),
    ],
)
def test_kinds_of_windows(text, expected):
    assert parse_query(f'[[windows]]\n{text}\n[aggregates]\nn = "count"').windows == (expected,)


def test_windows_with_names():
    text = '[windows.hour]\ntrailing = "1 hour"\n[windows.day]\ntrailing = "1 day"\n[aggregates]\nn = "count"'
    query = parse_query(text)
    assert (query.windows.names, query.windows) == (
        ("hour", "day"),
        (window.trailing("1 hour"), window.trailing("1 day")),
    )
    with pytest.raises(QueryFileError, match=r"^query.toml:4: windows.day.trailin: there is no such kind of window"):
        parse_query(text.replace('trailing = "1 day"', 'trailin = "1 day"'))


@pytest.mark.parametrize(
    ("was", "becomes", "line", "key", "says"),
    [
        ('every = "1 minute"', 'every = "1 minuet"', 10, "windows[0].every", "'minuet' is no unit"),
        ('every = "1 minute"', "", 9, "windows[0].sliding", "needs another word, every"),
        ("session", "sesion", 13, "windows[1].sesion", "did you mean session?"),
        ("session = ", 'tumbling = "1 day"\nsession = ', 12, "windows[1]", "2 kinds"),
        ("rows = 100", "rows = 0", 16, "windows[2].trailing", "0"),
        ("range = 100.0", "rnge = 100.0", 20, "windows[3].rnge", "did you mean range?"),
        ("range = 100.0", "range = -1.0", 20, "windows[3].range", "-1.0"),
        ("max(watts)", "mx(watts)", 24, "aggregates.peak", "did you mean max?"),
        ("max(watts)", "max(watts", 24, "aggregates.peak", "is no aggregation"),
        ("arg_max(watts, plug)", "arg_max(watts)", 25, "aggregates.who", "arg_max"),
        ("q = 0.5", "q = 5.0", 26, "aggregates.usual.q", "5.0"),
        ('columns = ["watts"]', "columns = [1]", 26, "aggregates.usual.columns", "list of names"),
        ('n = "count()"', "n = 3", 29, "aggregates.n", "give a text"),
        ('n = "count()"', 'n = "define()"', 29, "aggregates.n", "no aggregation 'define'"),
        ('watermark = "10', 'watermark = "-10', 4, "watermark", "must not be negative"),
        ("allowed_lateness", "alowed_lateness", 5, "alowed_lateness", "did you mean allowed_lateness?"),
        ("partial = true", 'partial = "yes"', 6, "partial", "give true or false"),
        ('key = ["house", "plug"]', "key = 3", 3, "key", "the name of a column"),
        ('n = "count()"', 'plug = "count()"', 3, "key", "a key and an aggregate"),
        ('time = "at"', "time = 7", 2, "time", "the name of a column"),
    ],
)
def test_an_error_names_the_line_and_the_key(was, becomes, line, key, says):
    assert was in TEXT
    with pytest.raises(QueryFileError) as caught:
        parse_query(TEXT.replace(was, becomes, 1), "q.toml")
    message = str(caught.value)
    assert message.startswith(f"q.toml:{line}: {key}: ")
    assert says in message
    assert "\n" not in message


EXPRESSED = """where = "price > 0"
[columns]
revenue = "price * pieces"
late = "hour > 18"
[[windows]]
tumbling = "1 hour"
[aggregates]
total = "sum(revenue)"
n = { agg = "count", where = "late" }
"""


def test_expressions():
    query = parse_query(EXPRESSED)
    assert query.where == "price > 0"
    assert query.columns == {"revenue": "price * pieces", "late": "hour > 18"}
    assert query.inputs == ("ts", "price", "pieces", "hour")


@pytest.mark.parametrize(
    ("was", "becomes", "line", "key", "says"),
    [
        ("price > 0", "price >", 1, "where", "where: this is no expression that can be read"),
        ('"price > 0"', "5", 1, "where", "give a condition as a text"),
        ("hour > 18", "hour(ts)", 4, "columns.late", "there is no function hour"),
        ('"hour > 18"', "18", 2, "columns", "give names to expressions"),
    ],
)
def test_a_wrong_expression_names_the_line_and_the_key(was, becomes, line, key, says):
    with pytest.raises(QueryFileError) as caught:
        parse_query(EXPRESSED.replace(was, becomes, 1), "q.toml")
    assert str(caught.value).startswith(f"q.toml:{line}: {key}: ")
    assert says in str(caught.value)


def test_what_is_no_toml_names_the_line():
    with pytest.raises(QueryFileError, match=r"^q\.toml:2: .* at column"):
        parse_query('time = "at"\nkey = \n', "q.toml")


@pytest.mark.parametrize("missing", ["windows", "aggregates"])
def test_a_query_without_a_part_says_how_it_is_written(missing):
    parts = {"windows": '[[windows]]\nsession = "1 hour"\n', "aggregates": '[aggregates]\nn = "count()"\n'}
    del parts[missing]
    with pytest.raises(QueryFileError, match=f"{missing}: give at least one"):
        parse_query("".join(parts.values()))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(QueryFileError, match="nowhere.toml cannot be read: No such file"):
        read_query(tmp_path / "nowhere.toml")


def test_lines_of_everything_that_toml_has():
    text = (
        'a.b = 1\n"c d" = """two\nlines"""\n[t]\nx = [1,\n  2, # three\n  { y = "}", z = [\'#\'] },\n]\n'
        "when = 2024-03-01 09:00:00\n[[l]]\nk = 1\n[l.sub]\nm = 1\n[[l]]\nk = 2\n[[l.deep]]\nn = 1\n"
    )
    tomllib.loads(text)
    lines = lines_of(text)
    expected = {
        ("a", "b"): 1,
        ("c d",): 2,
        ("t", "x"): 5,
        ("t", "x", 1): 6,
        ("t", "x", 2, "y"): 7,
        ("t", "x", 2, "z", 0): 7,
        ("t", "when"): 9,
        ("l", 0, "k"): 11,
        ("l", 0, "sub", "m"): 13,
        ("l", 1, "k"): 15,
        ("l", 1, "deep", 0, "n"): 17,
    }
    assert {path: lines[path] for path in expected} == expected
    assert line_of(lines, ("l", 1, "missing")) == 14
    assert line_of(lines, ("missing",)) == 1
