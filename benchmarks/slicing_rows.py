"""What a row costs a stream of slices, over what it costs `muntin.slide`: in order, and with disorder and sessions.

A sum over 1, 20 and 1000 tumbling windows of 1 to 20 seconds at once: 100,000 rows per second of event time, one second
per push, after 20 untimed seconds. `slide` takes a sum over 1024 rows of as many rows in one call. Sliding windows of
many slices are shown beside the figures of the paper's own Java core on this kind of machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sensor
from charts import Chart
from harness import OURS, Entrant, Figure, Timing, race, rounds_for
from sensor import RATE

from muntin import agg, slide, window
from muntin.types import Array

FILL = 20
COUNTS = (1, 20, 1000)
LIMITS = {False: (2.5, 2.5, 5.0), True: (10.0, 10.0, 20.0)}
JAVA = {False: ("45 to 48", "45 to 48", "20"), True: ("-", "24 to 27", "7.5")}
"""Millions of rows per second of the paper's Java core, for the same numbers of windows."""


def run(quick: bool) -> Iterator[Figure]:
    """Yield one figure per order and number of windows, then those of long sliding windows."""
    rounds, a_run = rounds_for(quick), 3 if quick else 10
    for disorder in (False, True):
        ticks = sensor.times(FILL + a_run * (rounds + 1), disorder=disorder)
        tables = sensor.pushes(ticks)
        ratios: list[float | None] = []
        for count, limit, java in zip(COUNTS, LIMITS[disorder], JAVA[disorder], strict=True):
            asked = sensor.query(sensor.tumbling(count), disorder=disorder)
            times = race([*streams(asked, tables, a_run), sliding(a_run * RATE)], rounds)
            ratios.append(times[OURS].median / times["slide"].median)
            what = f"sum, {count} tumbling, {'20 % out of order and sessions' if disorder else 'in order'}"
            note = f"{1e3 / times[OURS].median:.0f} M rows a second; the paper's Java core {java}"
            chart = over_slide(disorder, ratios) if count == COUNTS[-1] else None
            yield Figure(
                "slicing_rows", f"{what}, time a row over slide's", ratios[-1], limit, False, "x", times, note, chart
            )
    yield long_windows("60 seconds", "10 milliseconds", sensor.times(60, 1000), 60, 9.7, rounds)
    yield long_windows("24 hours", "1 second", sensor.times(86_400, 1), 86_400, 0.015, rounds)


def streams(asked: Any, tables: list[Any], a_run: int) -> list[Entrant]:
    """Return the stream as planned, and with slices merged lazily or from a tree."""
    mergers = {OURS: "auto", "lazy": "lazy", "eager": "flat_fat"}
    return [
        Entrant(name, sensor.flow(asked, tables, a_run, first=FILL, merge=merge), a_run * RATE, rival=name == OURS)
        for name, merge in mergers.items()
    ]


def sliding(rows: int) -> Entrant:
    """Return a sum over the last 1024 rows of an array."""
    data = np.tile(sensor.values(RATE), rows // RATE)
    return Entrant("slide", lambda: slide(data, agg.sum("v"), range=1024), rows)


def over_slide(disorder: bool, ratios: list[float | None]) -> Chart:
    """Return a chart of the ratios."""
    kind = "20 % out of order, sessions" if disorder else "in order"
    limits = dict(zip(COUNTS, LIMITS[disorder], strict=True))
    name = "slicing_rows_disorder" if disorder else "slicing_rows_in_order"
    lines = {"measured": ratios, "at most": [limits[count] for count in COUNTS]}
    return Chart(name, f"Sum, {kind}", "windows", "time a row over that of slide", COUNTS, lines, log_y=False)


def long_windows(length: str, every: str, filled: Array, seconds: int, java: float, rounds: int) -> Figure:
    """Return the speed of a sliding window of many slices, which hold few rows each before the timed ones."""
    after = sensor.times(rounds + 2) + seconds * sensor.SECOND
    tables = [*sensor.pushes(filled, len(filled)), *sensor.pushes(after)]
    asked = sensor.query([window.sliding(length, every=every)])
    mergers = {OURS: "auto", "lazy": "lazy"}
    entrants = [Entrant(n, sensor.flow(asked, tables, 1, first=2, merge=m), RATE) for n, m in mergers.items()]
    times: dict[str, Timing] = race(entrants, rounds)
    speed = 1e3 / times[OURS].median
    note = f"one second of event time a push; slices before it were filled with {len(filled):,} rows"
    what = f"sliding {length} every {every}, in order, over the paper's Java core ({java} M rows a second)"
    return Figure("slicing_rows", what, speed, java, True, " M rows a second", times, note)
