"""Windows as a user would write them, for the transcripts and the random queries."""

from __future__ import annotations

from muntin import window


class Doubling(window.ContextFree):
    """[1, 2), [2, 4), [4, 8), ...: windows that no built-in one makes."""

    def next_edge(self, t):
        return 1 << t.bit_length() if t > 0 else 1

    def ended(self, previous, watermark):
        end = max(2, self.next_edge(previous))
        while end <= watermark:
            yield end // 2, end
            end *= 2


class Shifts(window.ContextFree):
    """Two shifts a day of 24: the early one is [6, 14), the late one [14, 22); at night there is none."""

    def next_edge(self, t):
        return min(e for day in (t // 24, t // 24 + 1) for e in (day * 24 + h for h in (6, 14, 22)) if e > t)

    def ended(self, previous, watermark):
        edge = self.next_edge(previous)
        while edge <= watermark:
            if edge % 24 != 6:
                yield edge - 8, edge
            edge = self.next_edge(edge)


class Trips(window.ContextAware):
    """A trip begins with each row that says so."""

    columns = ("departs",)

    def on_tuple(self, t, values, edges):
        if values["departs"]:
            edges.add(t)


class Silence(window.ContextAware):
    """Sessions, as a user would write them: the edges are start, end, start, end, ..."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def on_tuple(self, t, values, edges):
        times = list(edges)
        start, end = t, t + self.gap
        for low, high in zip(times[::2], times[1::2], strict=True):
            if low <= t + self.gap and t <= high:
                edges.remove(low)
                edges.remove(high)
                start, end = min(start, low), max(end, high)
        edges.add(start)
        edges.add(end)


class Delegated(window.ContextFree):
    """A built-in window in the guise of a user's: only its edges and ends are known."""

    def __init__(self, other: window.ContextFree) -> None:
        self.other = other

    def next_edge(self, t):
        return self.other.next_edge(t)

    def ended(self, previous, watermark):
        return self.other.ended(previous, watermark)
