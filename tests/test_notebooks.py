"""Progress in notebooks: shown where work takes long, taken away at the end, and nothing elsewhere."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from muntin import Query, agg, window
from muntin.notebooks import Progress


class Notebook:
    """What a notebook shows, told by a stand-in for IPython."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.first = threading.Event()

    def display(self, content: str, display_id: bool) -> SimpleNamespace:
        assert display_id
        self.show(content)
        return SimpleNamespace(update=self.show)

    def show(self, content: str) -> None:
        self.shown.append(content)
        self.first.set()


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    html = SimpleNamespace(for_type_by_name=lambda *_: None)
    shell = SimpleNamespace(kernel=1, display_formatter=SimpleNamespace(formatters={"text/html": html}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=found.display, HTML=str))
    return found


def test_long_work_is_shown_and_taken_away(notebook):
    with Progress("9 <rows>", steps=2, after=0.0) as progress:
        progress.step()
        assert notebook.first.wait(30)
    assert "muntin: 9 &lt;rows&gt;, 0 s" in notebook.shown[0]
    assert 'max="2"' in notebook.shown[0]
    assert notebook.shown[-1] == ""


def test_short_work_is_not_shown(notebook):
    with Progress("9 rows", after=3600.0):
        pass
    assert notebook.shown == []


def test_an_error_takes_it_away_too(notebook):
    with pytest.raises(ZeroDivisionError), Progress("9 rows", after=0.0):
        1 / (0 if notebook.first.wait(30) else 1)
    assert notebook.shown[-1] == ""


def test_answers_are_the_same_in_a_notebook(notebook):
    query = Query([window.trailing(10), window.tumbling(10)], {"n": agg.count()}, time="t")
    assert query.run({"t": [1, 12, 15]})["n"].to_pylist() == [1, 1, 2, 1, 2]
    only = Query(window.trailing(10), {"n": agg.count()}, time="t")
    assert only.over({"t": [1, 12, 15]})["n"].to_pylist() == [1, 1, 2]


def test_elsewhere_no_thread_is_started():
    before = threading.active_count()
    with Progress("9 rows", after=0.0):
        assert threading.active_count() == before
