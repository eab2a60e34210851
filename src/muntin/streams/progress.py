"""The progress of a stream: its watermark, moved by rows, by the driver, and by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muntin.durations import BEFORE_TIME
from muntin.errors import InvalidArgumentError
from muntin.query.timing import Timing
from muntin.restoring import RestorePoint
from muntin.types import is_whole


class Progress:
    """Event time and processing time of one stream, in the unit of its time column and of its clock.

    Processing time never goes back. If the clock does, processing time continues from where it was, by what the clock
    adds from then on: a stream that waited for the clock to catch up would stall for as long.
    """

    def __init__(self, timing: Timing, clock: Callable[[], int]) -> None:
        self._timing = timing
        self._clock = clock
        self.watermark = self.seen = self.horizon = BEFORE_TIME
        self._latest, self._shift = BEFORE_TIME, 0  # the greatest processing time, and its lead over the clock
        self._last_row = 0  # when the last row came, by the clock
        self._uses_clock = timing.early_by_clock is not None or timing.idle_after is not None
        self._now = self.now() if self._uses_clock else 0  # the processing time of the current call
        self._early_is_set = timing.early_by_clock is not None
        self._early = self._now  # when early results were last emitted

    @property
    def delay(self) -> int:
        """How far the watermark is behind the greatest time seen."""
        return self._timing.delay

    def now(self) -> int:
        """Return the processing time; reject a clock that returns none.

        A call on a stream reads the clock once, before it changes anything: see `look_at_clock`.
        """
        given = self._clock()
        if not is_whole(given) or not -(2**62) < given < 2**62:
            raise InvalidArgumentError(
                f"the clock returned {given!r}; it must return the time as an integer, such as time.time_ns does"
            )
        now = int(given) + self._shift
        if now < self._latest:
            self._shift += self._latest - now
            now = self._latest
        self._latest = now
        return now

    def look_at_clock(self) -> None:
        """Read the processing time of a call, if anything depends on it."""
        if self._uses_clock:
            self._now = self.now()

    def time_of_rows(self) -> int:
        """Return the clock's time in the unit of the time column, for rows without a time."""
        if self.seen > BEFORE_TIME:  # also if that was before a snapshot
            self._latest = max(self._latest, self.seen * self._timing.clock_per_tick)
        return self.now() // self._timing.clock_per_tick

    def see(self, latest: int) -> None:
        """Advance to the latest time of rows that have just come."""
        self.reach(latest)
        self.note_rows()

    def note_rows(self) -> None:
        """Record that rows have come: the idle timeout starts again."""
        if self._timing.idle_after is not None:
            self._last_row = self._now

    def reach(self, latest: int) -> None:
        """Advance to the latest time of rows that came earlier."""
        if latest > self.seen:
            self.seen = latest
        self.set_watermark(self.seen - self._timing.delay, self.seen)
        if self._timing.early_by_time is not None and not self._early_is_set:
            self._early, self._early_is_set = self.seen, True

    def set_watermark(self, watermark: int, horizon: int) -> None:
        """Move the watermark and the horizon; neither goes back."""
        if watermark > self.watermark:
            self.watermark = watermark
        if horizon > self.horizon:
            self.horizon = horizon

    @property
    def idle_at(self) -> int | None:
        """When the stream becomes idle, by the clock, if no row comes; None if that changes nothing."""
        return None if self._timing.idle_after is None else self._last_row + self._timing.idle_after

    def follow_clock(self) -> bool:
        """Move the watermark of an idle stream with the clock; return whether it moved."""
        timing = self._timing
        if timing.idle_after is None or self.seen == BEFORE_TIME:
            return False
        waited = self._now - self._last_row
        watermark = self.seen - self.delay + waited // timing.clock_per_tick
        if waited < timing.idle_after or watermark <= self.watermark:
            return False
        self.set_watermark(watermark, watermark)
        return True

    def begin_early(self) -> bool:
        """Return whether early results are due; if so, start the wait for the next ones."""
        timing = self._timing
        if timing.early_by_clock is not None:
            at, span = self._now, timing.early_by_clock
        elif timing.early_by_time is not None and self._early_is_set:
            at, span = self.seen, timing.early_by_time
        else:
            return False
        if at - self._early < span:
            return False
        self._early = at
        return True

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state."""
        state = vars(self).copy()
        return lambda: vars(self).update(state)

    def save(self) -> dict[str, int]:
        """Return the state as numbers by name."""
        names = ("watermark", "seen", "horizon", "_last_row", "_early", "_early_is_set")
        return {name.removeprefix("_"): int(getattr(self, name)) for name in names}

    def load(self, state: Mapping[str, int]) -> None:
        """Replace the state by one that `save` returned."""
        self.watermark, self.seen, self.horizon = (state[name] for name in ("watermark", "seen", "horizon"))
        self._last_row, self._early, self._early_is_set = (
            state["last_row"],
            state["early"],
            bool(state["early_is_set"]),
        )
        self._follow_latest()

    def adopt(self, state: Mapping[str, int], *, idle: bool, early: bool) -> None:
        """Go on from the state of another query, which followed the clock if `idle`, and had the same `early` results.

        What it did not time begins now.
        """
        self.watermark, self.seen, self.horizon = (state[name] for name in ("watermark", "seen", "horizon"))
        self.look_at_clock()
        self._last_row = state["last_row"] if idle else self._now
        if early:
            self._early, self._early_is_set = state["early"], bool(state["early_is_set"])
        elif self._timing.early_by_time is not None and self.seen > BEFORE_TIME:
            self._early, self._early_is_set = self.seen, True
        self._follow_latest()

    def _follow_latest(self) -> None:
        """Let processing time go on from the latest one that is known."""
        timing = self._timing
        by_clock = (timing.idle_after, self._last_row), (timing.early_by_clock, self._early)
        self._latest = max((at for span, at in by_clock if span is not None), default=BEFORE_TIME)
