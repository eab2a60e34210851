"""Drives the live page in Chromium: a run, its page and a browser, step by step. The tests do the same steps.

python tools/watch_page.py     # writes the pictures of docs/watch.md into docs/figures/
"""

from __future__ import annotations

import contextvars
import io
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from muntin import Query, agg, rows, window
from muntin.cli.interrupts import Stop
from muntin.cli.local import LocalRun
from muntin.cli.progress import Display
from muntin.cli.sinks import Sink
from muntin.cli.sources import Source
from muntin.cli.watching import open_page
from muntin.watching.watch import Watching

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BEGIN = np.datetime64("2024-03-01T08:00", "us")
HOSTILE = '<img src=x onerror="window.hacked=1">'
"""A key that would run a script if the page took it for HTML."""
PLUGS = ("fridge", "kettle", HOSTILE)
PATIENCE = 120.0
"""After this many seconds something is broken, on any machine."""


def query() -> Query:
    """Return the query that the page shows."""
    return Query(
        windows={
            "sliding": window.sliding("2 minutes", every="10 seconds"),
            "sessions": window.session("15 seconds"),
            "last": window.sliding(rows(40), every=rows(10)),
        },
        aggregates={"peak": agg.max("watts"), "mean": agg.mean("watts")},
        key="plug",
        time="ts",
        watermark="5 seconds",
        allowed_lateness="5 minutes",
    )


def readings(begin: int, end: int, plugs: Sequence[str]) -> pa.Table:
    """Return readings of some seconds: each plug is on for a while, then off."""
    random = np.random.default_rng([1, begin])
    parts = []
    for number, name in enumerate(plugs):
        seconds = np.arange(begin, end, 0.5)
        seconds = seconds[(seconds + 20 * number) % 90 < 60]
        watts = 100.0 * (number + 1) + 30 * np.sin(seconds / 25) + random.normal(0, 4, len(seconds))
        stamps = BEGIN + (seconds * 1e6).astype("m8[us]")
        names = pa.array([name] * len(seconds), pa.string())
        parts.append(pa.table({"plug": names, "ts": pa.array(stamps, pa.timestamp("us", "UTC")), "watts": watts}))
    return pa.concat_tables(parts).sort_by("ts")


def late_reading(second: int, watts: float) -> pa.Table:
    """Return one reading of the fridge."""
    stamp = pa.array(np.array([BEGIN + np.timedelta64(second, "s")]), pa.timestamp("us", "UTC"))
    return pa.table({"plug": ["fridge"], "ts": stamp, "watts": [watts]})


class Scene:
    """A folder of readings, a run that follows it, and the page over both."""

    def __init__(self, folder: Path, plugs: Sequence[str] = PLUGS) -> None:
        self._plugs = plugs
        self.input, self.output = folder / "readings", folder / "windows"
        self.input.mkdir(parents=True)
        self._files = 0
        self.rows = 0
        """How many have come."""
        self.second = 0
        """Up to where readings have come."""
        self._run: tuple[LocalRun, Stop, threading.Thread] | None = None

    def go_on(self, seconds: int) -> int:
        """Let the readings of the next seconds come; return where they begin."""
        begin = self.second
        self.second += seconds
        self.feed(readings(begin, self.second, self._plugs))
        return begin

    def feed(self, table: pa.Table) -> None:
        """Let rows come."""
        self.rows += table.num_rows
        name = f"{self._files:04}.parquet"
        self._files += 1
        pq.write_table(table, self.input / f".{name}")
        (self.input / f".{name}").rename(self.input / name)

    def start(self) -> None:
        """Start the run, or let it go on from where it was stopped."""
        local = LocalRun(query(), Source(self.input, query()), Sink(self.output), lambda _: None)
        local.open()
        stop, display = Stop(), Display(Console(file=io.StringIO()), None, enabled=False)
        context = contextvars.copy_context()  # in which tests have said that nothing is compiled
        thread = threading.Thread(
            target=context.run, args=(local.run, stop, display), kwargs={"follow": True}, daemon=True
        )
        thread.start()
        self._run = (local, stop, thread)

    def stop(self) -> None:
        """Stop the run cleanly, if there is one."""
        if self._run is not None:
            _, stop, thread = self._run
            stop.ask()
            thread.join()
            self._run = None

    def page(self) -> Watching:
        """Open the page."""
        return open_page(self.output, self.input, query=query())


class Tab:
    """A page in the browser."""

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        self.errors: list[str] = []
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        tab.goto(url)
        tab.wait_for_selector(".bk-Figure", timeout=PATIENCE * 1_000)

    def model(self, name: str, expression: str) -> Any:
        """Return what an expression says of a model of the page, `it`."""
        script = "([name, text]) => { const it = Bokeh.documents[0].get_model_by_name(name); return eval(text) }"
        return self.tab.evaluate(script, [name, expression])

    def tiles(self) -> dict[str, str]:
        """Return the numbers of the health panel."""
        cells = re.findall(r"<div [^>]*font-size:1[17]px[^>]*>([^<]*)</div>", self.model("health", "it.text"))
        return dict(zip(cells[::2], cells[1::2], strict=True))

    def count(self, name: str) -> int:
        """Return a number of the health panel; 0 where it is not known."""
        text = self.tiles().get(name, "-").replace(",", "")
        return int(text) if text.isdecimal() else 0

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something holds; return it."""
        end = time.monotonic() + PATIENCE
        while not (found := holds()):
            if time.monotonic() > end:
                raise TimeoutError(f"nothing came: {self.tiles()}, {self.errors}")
            time.sleep(0.1)
        return found

    def chart(self, name: str) -> Any:
        """Return where a chart is on the page: a locator."""
        place = self.model(name, "[...Bokeh.documents[0].roots()[0].select({type: 'Figure'})].indexOf(it)")
        return self.tab.locator(".bk-Figure").nth(place)

    def zoom(self, chart: Any, steps: int = 5) -> None:
        """Turn the wheel over the middle of a chart."""
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        self.tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for _ in range(steps):
            self.tab.mouse.wheel(0, -240)

    def save(self, path: Path) -> None:
        """Save a picture of the whole page, in few colours."""
        from PIL import Image

        picture = Image.open(io.BytesIO(self.tab.screenshot(full_page=True)))
        picture.convert("RGB").quantize(96).save(path, optimize=True)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser, and end it."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        raise FileNotFoundError("chromium is missing: `make chromium` installs it, as `make test` does")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def main(folder: Path) -> int:
    """Make the pictures of the documentation."""
    work = Path(tempfile.mkdtemp())
    os.chdir(work)  # the page shows the path
    scene = Scene(Path("demo"), ("fridge", "kettle", "tv"))
    scene.go_on(600)
    scene.start()
    try:
        with scene.page() as page, chromium() as browser:
            tab = Tab(browser.new_page(viewport={"width": 1180, "height": 900}), page.url)
            tab.until(lambda: tab.count("windows out"))
            scene.go_on(40)
            tab.until(lambda: tab.count("rows") == scene.rows)
            time.sleep(3)  # what was there before has stopped to flash
            scene.feed(late_reading(500, 260.0))
            tab.until(lambda: tab.count("revisions") > 0)
            time.sleep(0.7)
            tab.save(folder / "watch.png")
            narrow = Tab(browser.new_page(viewport={"width": 800, "height": 900}), page.url)
            chart = narrow.chart("rows")
            narrow.zoom(chart, 4)
            narrow.until(lambda: not narrow.model("follow", "it.active"))
            time.sleep(2)  # what the last turn of the wheel has asked for comes, too
            narrow.save(folder / "watch_zoomed.png")
    finally:
        scene.stop()
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1] / "docs" / "figures"))
