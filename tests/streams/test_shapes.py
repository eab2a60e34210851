"""What the shapes of windows by time tell of the future: until when nothing is due, and what is still needed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import window
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.streams.slices.shapes import Shapes
from muntin.types import INT64
from muntin.windows.base import Window


@st.composite
def definitions(draw: st.DrawFn) -> Window:
    every, times, offset = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(-7, 7))
    kind = window.cumulative if draw(st.booleans()) else window.sliding
    return kind(every * times, every=every, offset=offset)


def shapes_of(windows: list[Window]) -> Shapes:
    return Shapes.of({i: each.resolve(INT64) for i, each in enumerate(windows)})


def ends_and_starts(shapes: Shapes, after: int, until: int) -> list[tuple[int, int]]:
    """Return the end and the start of every window that ends in (after, until], told one by one."""
    found = []
    for kind, length, every, offset in zip(shapes.kinds, shapes.lengths, shapes.everys, shapes.offsets, strict=True):
        for end in range(after + 1, until + 1):
            if (end - offset - length) % every == 0:
                start = (
                    end - length
                    if kind == 0
                    else max(t for t in range(end - length, end) if (t - offset) % length == 0)
                )
                found.append((end, start))
    return found


@settings(max_examples=examples(150), deadline=None)
@given(
    windows=st.lists(definitions(), min_size=1, max_size=20),
    watermark=st.integers(-50, 50),
    lateness=st.integers(0, 12),
)
def test_nothing_ends_or_becomes_final_before_the_next_change(
    windows: list[Window], watermark: int, lateness: int
) -> None:
    shapes = shapes_of(windows)
    needed, change = shapes.look_ahead(watermark, lateness)
    open_windows = ends_and_starts(shapes, watermark - lateness, watermark + 60)
    assert needed == min(start for _, start in open_windows)
    due = min(end for end, _ in open_windows if end > watermark)
    final = min(end for end, _ in open_windows) + lateness
    assert watermark < change == min(due, final)


def test_where_rows_or_python_tell_edges_the_next_watermark_may_change_something() -> None:
    session = Shapes.of({0: window.session(5).resolve(INT64), 1: window.tumbling(10).resolve(INT64)})
    assert session.look_ahead(12, 0) == (10, 13)
    assert shapes_of([window.tumbling(10)]).look_ahead(12, 0) == (10, 20)


def test_the_bounds_of_time() -> None:
    shapes = shapes_of([window.tumbling(10)])
    assert shapes.look_ahead(END_OF_TIME, 0) == (END_OF_TIME, END_OF_TIME)
    assert shapes.look_ahead(BEFORE_TIME + 1, 5)[1] == BEFORE_TIME + 2
