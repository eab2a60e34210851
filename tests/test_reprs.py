"""What notebooks and terminals show of queries, streams and aggregators."""

from __future__ import annotations

from muntin import Query, agg, aggregators, rows, window


def test_a_query_is_shown_as_it_is_written():
    query = Query(window.session(5), {"n": agg.sum("v")}, key="k", time="t", partial=True)
    assert repr(query) == "Query(window.session(5), {'n': agg.sum('v')}, key='k', time='t', partial=True)"
    assert eval(repr(query)) == query
    several = Query([window.session(5), window.tumbling(rows(3))], {"high": agg.max("v")}, key=["a", "b"])
    assert eval(repr(several)) == several
    html = several._repr_html_()
    assert "window.tumbling(rows(3))" in html
    assert "agg.max(&#x27;v&#x27;)" in html


def test_a_stream_says_how_far_it_has_come():
    stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
    assert "0 rows, 0 late, watermark None" in repr(stream)
    stream.push({"t": [15, 3]})
    stream.push({"t": [2]})
    assert repr(stream).endswith("3 rows, 1 late, watermark 15>")
    stream.close()
    assert repr(stream).endswith("closed>")
    assert "<td" in stream._repr_html_()


def test_an_aggregator_shows_what_it_holds():
    made = aggregators.TwoStacks(agg.max("v"))
    assert "0</td>" in made._repr_html_()
    made.insert(4, 2.5)
    html = made._repr_html_()
    assert "agg.max(&#x27;v&#x27;)" in html
    assert "youngest" in html
