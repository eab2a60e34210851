"""The page without a browser: what it shows, what zooming does, who may talk to it, and what `watch` refuses."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bokeh.document import Document
from bokeh.events import RangesUpdate
from bokeh.models import Button, Div, MultiChoice

import muntin
from muntin import Query, agg, window
from muntin.cli.watching import open_page
from muntin.errors import ColumnError, InvalidArgumentError
from muntin.watching.page import Page
from muntin.watching.plan_picture import boxes_of
from muntin.watching.rows import Rows
from muntin.watching.watched import Live, Poller, Watched

KEYS = [f"plug {i}" for i in range(12)]
QUERY = Query(
    [window.sliding("1 minute", every="10 seconds"), window.tumbling("1 minute")],
    {"peak": agg.max("watts"), "who": agg.first("name")},
    key="plug",
    time="ts",
    watermark="1 second",
)


def readings(count: int, begin: int = 0) -> pa.Table:
    times = np.datetime64("2024-03-01", "us") + (begin + np.arange(count)) * np.timedelta64(500, "ms")
    plugs = [KEYS[i % len(KEYS)] for i in range(count)]
    return pa.table({"ts": times, "plug": plugs, "watts": np.arange(count) % 50 * 1.0, "name": plugs})


def opened(count: int = 240) -> tuple[Document, Watched, Any]:
    stream = QUERY.stream()
    watched = Watched("<b>x</b>", windows=True, rows=Rows("ts", "watts", ["plug"], "1 second"))
    poller = Poller(watched, [Live(stream)])
    stream.push(readings(count))
    poller.poll()
    document = Document()
    Page(document, watched).open()
    return document, watched, (stream, poller)


def look(document: Document) -> None:
    """Do what the page does every quarter of a second."""
    for each in document.session_callbacks:
        each.callback()


def test_the_page_has_all_panels() -> None:
    document, _, _ = opened()
    for name in ("window 0", "window 1", "rows", "plan"):
        assert document.get_model_by_name(name) is not None, name
    keys = document.get_model_by_name("keys")
    assert isinstance(keys, MultiChoice)
    assert [label for _, label in keys.options] == sorted(KEYS, key=lambda text: int(text.split()[1]))
    health = document.get_model_by_name("health")
    assert isinstance(health, Div)
    assert ">240<" in health.text
    titles = [each.text for each in document.select({"type": Div})]
    assert any("&lt;b&gt;x&lt;/b&gt;" in text for text in titles)
    assert not any("<b>x" in text for text in titles)


def test_zooming_draws_the_range_that_was_asked_for() -> None:
    document, watched, _ = opened()
    rows: Any = document.get_model_by_name("rows")
    everything = sum(rows.renderers[1].data_source.data["count"])
    assert everything == 240 // len(KEYS) * 3  # of the three keys that are shown at first
    assert watched.span is not None
    begin = watched.span[1] - 60_000
    rows._trigger_event(RangesUpdate(rows, x0=begin - 30_000, x1=begin))
    columns = rows.renderers[1].data_source.data
    assert 0 < sum(columns["count"]) < everything
    assert begin - 30_000 <= min(columns["from"])
    assert max(columns["to"]) < begin
    follow: Any = document.get_model_by_name("follow")
    assert not follow.active
    every: Any = document.get_model_by_name("all")
    assert isinstance(every, Button)
    for callback in every._event_callbacks["button_click"]:
        callback()
    assert sum(rows.renderers[1].data_source.data["count"]) == everything


def test_the_range_follows_what_comes_until_somebody_looks_elsewhere() -> None:
    document, _, (stream, poller) = opened()
    rows: Any = document.get_model_by_name("rows")
    before = rows.x_range.end
    stream.push(readings(24, 240))
    poller.poll()
    look(document)
    assert rows.x_range.end > before
    rows._trigger_event(RangesUpdate(rows, x0=before - 60_000, x1=before - 40_000))
    stream.push(readings(24, 264))
    poller.poll()
    look(document)
    assert (rows.x_range.start, rows.x_range.end) == (before - 60_000, before - 40_000)


def test_chosen_keys_and_aggregates_are_drawn() -> None:
    document, _, _ = opened()
    keys: Any = document.get_model_by_name("keys")
    chart: Any = document.get_model_by_name("window 0")
    lines = chart.renderers[1].data_source
    assert len(lines.data["xs"]) == 3
    keys.value = [value for value, label in keys.options if label == "plug 7"]
    assert len(lines.data["xs"]) == 1
    assert len(lines.data["xs"][0]) > 0
    assert set(chart.renderers[2].data_source.data["key"]) == {"plug 7"}
    keys.value = []
    assert len(lines.data["xs"]) == 0


def test_answers_may_be_in_another_unit_than_rows() -> None:
    """Spark's files hold nanoseconds, as Arrow reads them."""
    answers = QUERY.run(readings(240))
    bounds = pa.struct([(name, pa.timestamp("ns")) for name in ("start", "end")])
    answers = answers.set_column(answers.column_names.index("window"), "window", answers["window"].cast(bounds))
    watched = Watched("x", windows=True, rows=Rows("ts", "watts", ["plug"]))
    watched.add_rows(readings(240))
    watched.add_answers(answers, 0.0)
    document = Document()
    Page(document, watched).open()
    rows: Any = document.get_model_by_name("rows")
    chart: Any = document.get_model_by_name("window 1")
    bars = chart.renderers[0].data_source.data
    assert len(bars["x"]) > 0
    assert rows.x_range.start < min(bars["left"]) < max(bars["right"]) < rows.x_range.end
    assert sum(rows.renderers[1].data_source.data["count"]) == 240 // len(KEYS) * 3
    health: Any = document.get_model_by_name("health")
    assert ">240<" in health.text  # no run says so: it is over


def test_the_plan_leads_from_rows_to_answers() -> None:
    boxes, arrows = boxes_of(QUERY.explain().to_dict())
    names = {box.name for box in boxes}
    assert {"rows", "answers", "window 0", "window 1"} <= names
    assert {name for arrow in arrows for name in arrow} == names


def test_other_aggregates_are_offered_where_a_run_begins_again_with_as_many() -> None:
    watched = Watched("x", windows=True)
    watched.add_answers(Query(window.tumbling(10), {"low": agg.min("v")}, time="t").run({"t": [1], "v": [2.0]}), 0.0)
    document = Document()
    Page(document, watched).open()
    watched.forget_answers()
    watched.add_answers(Query(window.tumbling(10), {"high": agg.max("v")}, time="t").run({"t": [1], "v": [2.0]}), 0.0)
    look(document)
    offered = [each.options for each in document.select({"type": MultiChoice}) if each.title == "aggregates"]
    assert offered == [[("0", "high")]]


def test_what_somebody_does_draws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    document, watched, _ = opened()
    rows: Any = document.get_model_by_name("rows")
    follow: Any = document.get_model_by_name("follow")
    every: Any = document.get_model_by_name("all")
    drawn: list[None] = []
    draw = Page._draw
    monkeypatch.setattr(Page, "_draw", lambda page: (drawn.append(None), draw(page)))
    assert watched.span is not None
    begin, end = watched.span
    rows._trigger_event(RangesUpdate(rows, x0=begin, x1=begin + 10_000))
    assert (len(drawn), follow.active) == (1, False)
    rows._trigger_event(RangesUpdate(rows, x0=begin, x1=end + 5))
    assert (len(drawn), follow.active) == (2, True)
    assert rows.x_range.end == end + 5  # what was asked for, and not moved on
    rows._trigger_event(RangesUpdate(rows, x0=begin, x1=begin + 10_000))
    for callback in every._event_callbacks["button_click"]:
        callback()
    assert (len(drawn), follow.active) == (4, True)
    follow.active = False
    follow.active = True
    assert len(drawn) == 6


# ---------------------------------------------------------------- the server


def handshake(url: str, origin: str | None) -> int:
    """Return the status that a WebSocket from a page of this origin is answered with."""
    host = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=20)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    headers |= {} if origin is None else {"Origin": origin}
    try:
        connection.request("GET", "/ws", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
def test_only_pages_of_this_server_may_talk_to_it() -> None:
    stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
    with muntin.watch(stream) as page:
        own = page.url.rstrip("/")
        assert own.startswith("http://127.0.0.1:")
        assert handshake(page.url, "http://elsewhere.example") == 403
        assert handshake(page.url, own.replace("127.0.0.1", "elsewhere.example")) == 403
        assert handshake(page.url, "http://127.0.0.1:1") == 403
        assert handshake(page.url, own) == 101
        assert page.url in repr(page)
        assert f'<iframe src="{page.url}"' in page._repr_html_()
        with pytest.raises(InvalidArgumentError, match=r"port \d+ cannot be used: .*; give another one, or 0"):
            muntin.watch(stream, port=int(own.rsplit(":", 1)[1]))
    with pytest.raises(ConnectionRefusedError):
        handshake(page.url, own)


def watchers() -> set[str]:
    """Return which threads of pages there are."""
    return {each.name for each in threading.enumerate() if each.name.startswith("muntin ")}


@pytest.mark.parametrize("fails", ["port", "server"])
def test_a_page_that_cannot_be_opened_leaves_nothing_behind(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, before = QUERY.stream(), watchers()
    if fails == "port":
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(InvalidArgumentError, match=r"port \d+ cannot be used"):
                muntin.watch(stream, port=taken.getsockname()[1])
    else:
        monkeypatch.setattr("muntin.watching.server.BokehTornado", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            muntin.watch(stream)
    assert not stream._observers
    assert watchers() == before


def test_what_cannot_be_watched() -> None:
    stream = Query(window.tumbling(10), {"high": agg.max("v")}, time="t").stream()
    with pytest.raises(ColumnError, match="the query reads no column 'w'; it reads 'v'"):
        muntin.watch(stream, column="w")
    with pytest.raises(InvalidArgumentError, match="a stream tells its answers itself"):
        muntin.watch(stream, "answers")
    with pytest.raises(InvalidArgumentError, match="can be watched, not 7"):
        muntin.watch(7)  # type: ignore[arg-type]


def test_what_the_command_refuses(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="give the folder of answers, or raw rows"):
        open_page(None, None)
    with pytest.raises(InvalidArgumentError, match="raw rows need --time"):
        open_page(None, tmp_path)
    with pytest.raises(InvalidArgumentError, match="raw rows need --column"):
        open_page(None, tmp_path, time="ts")
    with pytest.raises(InvalidArgumentError, match="--column is for raw rows"):
        open_page(tmp_path, None, column="watts")


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    pq.write_table(readings(50), tmp_path / "0.parquet")
    columns = ["--time", "ts", "--key", "plug", "--column", "watts", "--port", "0", "--json"]
    main = "from muntin.cli import main; main()"
    command = [sys.executable, "-c", main, "watch", "--rows", str(tmp_path), *columns]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=30)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
