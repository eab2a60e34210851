"""Answers as tables to read: in a terminal, and in a notebook."""

from __future__ import annotations

import datetime as dt
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError
from muntin.showing import cell, show_in_notebooks

NINE = dt.datetime(2024, 3, 1, 9)
TABLE = {"ts": [NINE + dt.timedelta(minutes=m) for m in (1, 4, 12)], "k": ["a", "b", "a"], "v": [3.0, 1e7, 2.5]}
QUERY = Query(window.tumbling("10 minutes"), {"high": agg.max("v")}, key="k")


def test_windows_are_spans_and_columns_that_say_nothing_are_left_out():
    shown = repr(muntin.show(QUERY.run(TABLE)))
    assert shown.splitlines() == [
        "k  window                           high",
        "a  2024-03-01 09:00 to 09:10           3",
        "a  2024-03-01 09:10 to 09:20         2.5",
        "b  2024-03-01 09:00 to 09:10  10,000,000",
    ]


def test_columns_that_tell_windows_apart_stay():
    query = Query([window.tumbling(10), window.tumbling(20)], {"n": agg.count()}, time="t", allowed_lateness=50)
    stream = query.stream()
    answers = pa.concat_tables([stream.push({"t": [1, 25]}), stream.push({"t": [2]})])
    assert muntin.show(answers).names == ["window", "window_id", "n", "revision"]


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame, pl.DataFrame])
def test_every_kind_of_table_is_shown_alike(kind):
    assert repr(muntin.show(QUERY.run(kind(TABLE)))) == repr(muntin.show(QUERY.run(TABLE)))


def test_only_the_first_rows_are_shown():
    shown = muntin.show({"v": np.arange(1000)}, rows=2)
    assert repr(shown) == "v\n0\n1\n... and 998 more of 1,000 rows"
    assert "<p>... and 998 more of 1,000 rows</p>" in shown._repr_html_()
    assert repr(muntin.show({"v": pa.array([], pa.int64())})) == "v\n(no rows)"


@pytest.mark.parametrize("rows_shown", [0, -1, True, 2.5, "all"])
def test_a_number_of_rows_that_means_nothing_is_refused(rows_shown):
    with pytest.raises(InvalidArgumentError, match="rows is"):
        muntin.show(TABLE, rows=rows_shown)


def test_cells():
    assert [cell(each) for each in (999.94, 12345.6, 99999.0, 1e6)] == ["999.9", "12,346", "99,999", "1,000,000"]
    assert cell({"start": NINE, "end": NINE + dt.timedelta(days=1)}) == "2024-03-01 09:00 to 2024-03-02 09:00"
    midnight = dt.datetime(2024, 3, 1)
    assert cell({"start": midnight, "end": midnight + dt.timedelta(days=1)}) == "2024-03-01 to 2024-03-02"
    assert cell({"start": midnight, "end": NINE}) == "2024-03-01 00:00 to 09:00"
    assert cell(NINE.replace(second=5, microsecond=1500)) == "2024-03-01 09:00:05.001500"
    assert cell(NINE.replace(microsecond=250_000)) == "2024-03-01 09:00:00.250"
    assert cell({"slope": 2.0, "intercept": None}) == "slope 2, intercept -"
    assert cell([1, 2.5]) == "1, 2.5"


def test_windows_by_rows_and_frames_say_which_rows_and_where():
    by_rows = Query(window.tumbling(rows(2)), {"n": agg.count()}, time="t").run({"t": [1, 4]})
    assert muntin.show(by_rows).cells == [["1 to 4 (rows 0 to 2)", "2"]]
    frames = Query(window.trailing(5, delay=2), {"n": agg.count()}, time="t").run({"t": [1, 4]})
    assert muntin.show(frames).cells[1] == ["-3 to 2 at 4", "1"]
    before = Query(window.trailing(rows(2), closed="left"), {"n": agg.count()}, time="t").run({"t": [1, 2]})
    assert [each[0] for each in muntin.show(before).cells] == ["no rows at 1", "1 to 1 (rows 0 to 1) at 2"]


def test_notebooks_show_answers_and_leave_other_tables(monkeypatch):
    registered = {}
    html = SimpleNamespace(for_type_by_name=lambda *given: registered.update({given[:2]: given[2]}))
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": html}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    show_in_notebooks()
    as_html = registered["pyarrow.lib", "Table"]
    assert "<td" in as_html(QUERY.run(TABLE))
    assert "2024-03-01 09:00 to 09:10" in as_html(QUERY.run(TABLE))
    assert as_html(pa.table(TABLE)) is None


def test_explanations_are_tables_in_notebooks_and_lines_elsewhere():
    said = muntin.explain(np.zeros(1000), agg.max("v"), range=100)
    assert isinstance(said, str)
    assert repr(said) == str(said)
    assert "\\n" not in repr(said)
    html = said._repr_html_()
    assert html.startswith("<table>")
    assert "two_stacks" in html
    assert "<td" in QUERY.explain()._repr_html_()
