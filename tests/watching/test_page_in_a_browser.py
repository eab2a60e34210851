"""The live page in a real Chromium: it loads, rows arrive, zooming asks the server, windows are revised, runs go on.

One browser, one run and one page for the module: the tests are steps of one story, and each begins where rows can still
come. The pictures of the documentation are made by the same steps (tools/watch_page.py).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest

import muntin
from muntin.watching import windows_panel

_FILE = Path(__file__).parents[2] / "tools" / "watch_page.py"
_SPEC = importlib.util.spec_from_file_location("watch_page", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
watch_page: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["watch_page"] = watch_page
_SPEC.loader.exec_module(watch_page)

pytestmark = pytest.mark.slow


class Story(NamedTuple):
    """The run, its page and the browser."""

    scene: Any
    tab: Any
    url: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    scene = watch_page.Scene(tmp_path_factory.mktemp("watch"))
    scene.go_on(300)
    scene.start()
    try:
        with scene.page() as page, watch_page.chromium() as browser:
            tab = watch_page.Tab(browser.new_page(viewport={"width": 1180, "height": 900}), page.url)
            tab.until(lambda: tab.count("windows out"))
            yield Story(scene, tab, page.url)
    finally:
        scene.stop()


def rows_shown(story: Story) -> int:
    """Return how many rows the columns of pixels in view stand for."""
    total = "it.renderers[1].data_source.get_column('count').reduce((a, b) => a + b, 0)"
    return int(story.tab.model("rows", total))


WIDTH = "it.x_range.end - it.x_range.start"


def show_all(story: Story) -> None:
    """Show everything, and wait for it; a zoom that is still on its way would undo the first click."""

    def shown() -> bool:
        story.tab.tab.get_by_role("button", name="Show all").click()
        return rows_shown(story) == story.scene.rows

    story.tab.until(shown)


def test_the_page_loads_without_an_error(story: Story) -> None:
    tab = story.tab
    assert tab.errors == []
    assert tab.tab.title().startswith("muntin: ")
    tab.tab.get_by_text("windows out").wait_for()
    assert tab.count("rows") > 0
    assert tab.count("keys") == len(watch_page.PLUGS)
    assert tab.model("plan", "it.title.text") == "The plan"


def test_rows_arrive(story: Story) -> None:
    tab = story.tab
    tab.until(lambda: tab.count("rows") == story.scene.rows)
    windows = tab.count("windows out")
    story.scene.go_on(60)
    tab.until(lambda: tab.count("rows") == story.scene.rows)
    tab.until(lambda: tab.count("windows out") > windows)


def test_zooming_asks_the_server_and_changes_the_picture(story: Story) -> None:
    tab = story.tab
    show_all(story)  # each row is behind one of the columns of pixels
    chart = tab.chart("rows")
    before = chart.screenshot()

    whole = tab.model("rows", WIDTH)

    def zoomed() -> bool:
        if tab.model("rows", WIDTH) >= whole:  # not again while the server is asked: there may be no row so far in
            tab.zoom(chart, steps=2)
        return 0 < rows_shown(story) < story.scene.rows

    tab.until(zoomed)
    others = "[...it.renderers[1].data_source.get_column('to')].filter(t => t < it.x_range.start || t > it.x_range.end)"
    tab.until(lambda: rows_shown(story) > 0 and tab.model("rows", others) == [])  # of this range, and of no other
    assert chart.screenshot() != before
    tab.until(lambda: tab.model("follow", "it.active") is False)
    show_all(story)


def test_a_late_row_revises_a_window(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_panel, "FLASH", 1e9)  # until it was seen, on a machine of any speed
    tab = story.tab
    show_all(story)
    begin = story.scene.go_on(60)
    tab.until(lambda: tab.count("rows") == story.scene.rows)
    revisions = tab.count("revisions")
    story.scene.feed(watch_page.late_reading(begin + 30, 777.0))
    flashing = "it.renderers[3].data_source.get_column('y').includes(777)"
    tab.until(lambda: tab.model("window 0", flashing))
    tab.until(lambda: tab.count("revisions") > revisions)
    assert tab.count("late rows") > 0
    earlier = "[...it.renderers[2].data_source.get_column('earlier')].filter(text => text != '').length"
    assert tab.until(lambda: tab.model("window 0", earlier)) > 0
    monkeypatch.setattr(windows_panel, "FLASH", 0.0)
    tab.until(lambda: not tab.model("window 0", flashing))  # it flashes, and then no more


def test_a_run_that_is_restarted_goes_on(story: Story) -> None:
    """Also one that was not stopped cleanly: what it wrote after its last save is written again, and read again."""
    tab = story.tab
    story.scene.stop()
    story.scene.start()
    windows = tab.count("windows out")
    story.scene.go_on(90)
    tab.until(lambda: tab.count("windows out") > windows)
    unsaved = max(story.scene.output.glob("part-*"))
    table = ds.dataset(unsaved).to_table()
    unsaved.unlink()
    ds.write_dataset(table, unsaved.parent / "_again", format="parquet", basename_template="part{i}.parquet")
    (unsaved.parent / "_again" / "part0.parquet").rename(unsaved)
    (unsaved.parent / "_again").rmdir()
    story.scene.go_on(50)

    def agrees() -> bool:
        answers = ds.dataset(sorted(story.scene.output.glob("part-*"))).to_table()
        return answers.num_rows == tab.count("windows out") > windows

    tab.until(agrees)
    assert muntin.latest(ds.dataset(sorted(story.scene.output.glob("part-*"))).to_table()).num_rows > 0
    assert tab.errors == []


def test_what_data_brings_is_text(story: Story) -> None:
    tab = story.tab
    tab.tab.get_by_text(watch_page.HOSTILE).first.wait_for()
    chart = tab.chart("rows")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    for part in range(1, 20):  # hover over rows of every key, so that tooltips are made
        tab.tab.mouse.move(box["x"] + box["width"] * part / 20, box["y"] + box["height"] * (0.3 + 0.02 * part))
    assert tab.tab.evaluate("window.hacked") is None
    assert tab.tab.locator("img").count() == 0
