"""M4 at every zoom: the picture of a frame is, pixel for pixel, that of all rows, also of late ones and equal times."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from sampling import examples

from muntin.errors import InvalidArgumentError
from muntin.types import Array
from muntin.watching import runs
from muntin.watching.m4 import pixel_edges
from muntin.watching.series import Series

HEIGHT = 24
VALUES = st.integers(-50, 50).map(lambda v: v / 4)


def picture(points: list[tuple[int, float]], width: int, low: float, high: float) -> Array:
    """Draw a line through points, x in whole pixels, as a chart does without smoothing."""
    image = Image.new("1", (width, HEIGHT))
    pen = ImageDraw.Draw(image)
    scale = (HEIGHT - 1) / (high - low or 1.0)
    pixels = [(x, round((high - y) * scale)) for x, y in points]
    for one, other in pairwise(pixels):
        pen.line([one, other], fill=1)
    for x, y in pixels:
        pen.point((x, y), fill=1)
    return np.array(image)


def column(time: int, lo: int, hi: int, width: int) -> int:
    """Return the column of a time, in whole numbers of any size."""
    return (time - lo) * width // (hi - lo)


def of_all_rows(times: Array, values: Array, lo: int, hi: int, width: int) -> list[tuple[int, float]]:
    rows = sorted(zip(times.tolist(), values.tolist(), strict=True), key=lambda row: row[0])  # stable
    before = [row for row in rows if row[0] < lo][-1:]
    inside = [row for row in rows if lo <= row[0] < hi]
    after = [row for row in rows if row[0] >= hi][:1]
    return [(column(t, lo, hi, width), v) for t, v in before + inside + after]


def of_the_frame(series: Series, lo: int, hi: int, width: int) -> list[tuple[int, float]]:
    x, y = series.frame(lo, hi, width).line()
    return list(zip(np.floor(x).astype(int).tolist(), y.tolist(), strict=True))


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[Array, Array]]:
    """Rows in batches: some in order, some long before what has come, many at equal times."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, 300))
        steps = draw(st.lists(st.integers(-3, 4), min_size=1, max_size=60))
        times = begin + np.cumsum(steps)
        values = draw(st.lists(VALUES, min_size=len(times), max_size=len(times)))
        found.append((times.astype(np.int64), np.array(values)))
    return found


@given(
    batches(),
    st.integers(-20, 320),
    st.integers(1, 400),
    st.integers(1, 40),
    st.integers(1, 9),
    st.sampled_from([0, 0, 8]),
)
@settings(max_examples=examples(120))
def test_the_picture_is_that_of_all_rows(
    rows: list[tuple[Array, Array]], lo: int, length: int, width: int, size: int, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "SLICE", size)  # so that few rows make many slices
        patch.setattr(runs, "_FEW_SLICES", few)
        series = Series()
        for times, values in rows:
            series.add(times, values)
            series.frame(lo, lo + length, width)  # somebody looks in between
        times, values = (np.concatenate(each) for each in zip(*rows, strict=True))
        points = of_all_rows(times, values, lo, lo + length, width)
        drawn = of_the_frame(series, lo, lo + length, width)
    low, high = float(values.min()), float(values.max())
    assert np.array_equal(picture(drawn, width, low, high), picture(points, width, low, high))
    held = [sum(1 for x, _ in points if x == c) for c in range(width)]
    frame = series.frame(lo, lo + length, width)
    assert dict(zip(frame.columns.tolist(), frame.counts.tolist(), strict=True)) == {
        c: count for c, count in enumerate(held) if count
    }
    assert len(series) == len(times)


@given(batches(), st.integers(-20, 320), st.integers(1, 400))
@settings(max_examples=examples(40))
def test_rows_come_back_in_event_order(rows: list[tuple[Array, Array]], lo: int, length: int) -> None:
    series = Series()
    for times, values in rows:
        series.add(times, values)
        assert len(series.rows(int(times.min()), int(times.max()) + 1)[0]) >= len(times)  # somebody looks
    times, values = (np.concatenate(each) for each in zip(*rows, strict=True))
    order = np.argsort(times, kind="stable")
    inside = order[(times[order] >= lo) & (times[order] < lo + length)]
    found_times, found_values = series.rows(lo, lo + length)
    assert found_times.tolist() == times[inside].tolist()
    assert found_values.tolist() == values[inside].tolist()


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**62), st.integers(1, 3000))
@settings(max_examples=examples(60))
def test_edges_are_exact_for_times_of_any_size(lo: int, length: int, width: int) -> None:
    edges = pixel_edges(lo, lo + length, width).tolist()
    assert edges[0] == lo
    assert edges[-1] == lo + length
    for c, (begin, end) in enumerate(pairwise(edges)):
        if begin < end:
            assert column(begin, lo, lo + length, width) == column(end - 1, lo, lo + length, width) == c


def test_many_rows_over_whole_slices() -> None:
    random = np.random.default_rng(5)
    times = np.cumsum(random.integers(0, 3, 20_000))
    values = random.normal(size=20_000).cumsum()
    series = Series()
    late = random.random(20_000) < 0.02
    for part in np.array_split(np.arange(20_000), 7):
        series.add(times[part][~late[part]], values[part][~late[part]])
        series.add(times[part][late[part]], values[part][late[part]])
        assert len(series.rows(0, int(times[-1]) + 1)[0]) == part[-1] + 1  # somebody looks
    for lo, hi, width in ((0, int(times[-1]) + 1, 7), (1234, 15_000, 100), (9_000, 9_040, 100)):
        frame = series.frame(lo, hi, width)
        for i, c in enumerate(frame.columns.tolist()):
            mine = values[(column(times, lo, hi, width) == c) & (times >= lo) & (times < hi)]
            assert (frame.low[i], frame.high[i]) == (mine.min(), mine.max())


def test_nothing_to_draw() -> None:
    assert len(Series().rows(0, 10)[0]) == 0
    assert len(Series().frame(0, 10, 5).line()[0]) == 0
    with pytest.raises(InvalidArgumentError, match=r"no pixels in times \[3, 3\)"):
        Series().frame(3, 3, 5)
