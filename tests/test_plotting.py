"""`muntin.plot`: what is drawn, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, InvalidArgumentError

DATA = {"t": [1, 4, 12, 31, 3, 14], "k": ["a", "a", "a", "a", "b", "b"], "v": [5.0, 7.0, 6.0, 1.0, 2.0, 9.0]}
AGGREGATES = {"high": agg.max("v"), "n": agg.count(), "all": agg.collect("v")}


def drawn(axes):
    """The labels of what a panel shows."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_panel_for_each_window_and_a_line_for_each_key_and_aggregate():
    query = Query([window.tumbling(10), window.session(5), window.sliding(20, every=5)], AGGREGATES, key="k", time="t")
    figure = muntin.plot(query.run(DATA), names=("ten", "session", "twenty"), title="all of it")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["ten", "session", "twenty"]
    assert drawn(figure.axes[0]) == ["high a", "n a", "high b", "n b"]
    bars, overlapping = figure.axes[0], figure.axes[2]
    assert [segment.tolist() for segment in bars.collections[0].get_segments()] == [
        [[0.0, 7.0], [10.0, 7.0]],
        [[10.0, 6.0], [20.0, 6.0]],
        [[30.0, 1.0], [40.0, 1.0]],
    ]
    assert not bars.lines
    assert len(overlapping.lines) == 4


def test_the_last_revision_is_drawn_and_retracted_windows_are_not():
    stream = Query(window.session(5), {"n": agg.count()}, time="t", allowed_lateness=100).stream()
    out = [stream.push({"t": [1, 20]}), stream.push({"t": [30, 40]}), stream.push({"t": [25]}), stream.close()]
    figure = muntin.plot(pa.concat_tables(out))
    segments = [segment.tolist() for segment in figure.axes[0].collections[0].get_segments()]
    assert segments == [[[1.0, 1.0], [6.0, 1.0]], [[20.0, 3.0], [35.0, 3.0]], [[40.0, 1.0], [45.0, 1.0]]]


def test_times_rows_and_pictures():
    times = pa.array([0, 60, 120, 180], pa.timestamp("s", "UTC"))
    query = Query([window.tumbling(rows(2)), window.trailing("2 minutes")], {"high": agg.max("v")})
    figure = muntin.plot(query.run(pa.table({"ts": times, "v": [1, 2, 3, 4]})), "high")
    assert len(figure.axes) == 2
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_what_cannot_be_drawn():
    result = Query(window.tumbling(10), {"all": agg.collect("v")}, time="t").run(DATA)
    with pytest.raises(ColumnError, match="no aggregate of this result is a number"):
        muntin.plot(result)
    with pytest.raises(ColumnError, match="there is no numeric aggregate 'low'; there are 'n'"):
        muntin.plot(Query(window.tumbling(10), {"n": agg.count()}, time="t").run(DATA), "low")
    with pytest.raises(InvalidArgumentError, match="the table that Query.run"):
        muntin.plot(pa.table({"v": [1]}))
