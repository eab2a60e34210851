"""How far a stream has come: its watermark, by the rows, by what it is told, and by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from muntin.durations import BEFORE_TIME, in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.query.query import ProcessingTime, Query
from muntin.types import ColumnType, column_type

NANOSECONDS = column_type(pa.timestamp("ns"))


class Progress:
    """Event time and processing time of one stream, in the unit of its time column and of its clock."""

    def __init__(self, query: Query, time: ColumnType, clock: Callable[[], int]) -> None:
        self._clock = clock
        tick = time if time.family == "integer" else NANOSECONDS
        self._per_tick = 1 if time.family == "integer" else in_unit_of(_one(time), NANOSECONDS, "a tick")
        self.delay = in_unit_of(query.watermark, time, "watermark")
        self._idle_after = _span(query.idle_timeout, tick, "idle_timeout")
        early = query.emit_early
        by_clock = isinstance(early, ProcessingTime)
        self._early_by_clock = _span(early.duration, tick, "emit_early") if by_clock else None
        self._early_by_rows = None if by_clock else _span(early, time, "emit_early")
        self.watermark = self.seen = self.horizon = BEFORE_TIME
        self._came = 0  # when the last row came, by the clock
        self._early = 0 if self._early_by_clock is None else self.now()
        self._early_is_set = self._early_by_clock is not None

    def now(self) -> int:
        """Return the clock's time."""
        return int(self._clock())

    def time_of_rows(self) -> int:
        """Return the clock's time in the unit of the times, for rows that have none."""
        return self.now() // self._per_tick

    def reached(self, latest: int) -> None:
        """Note that rows have come, the latest of this time."""
        self.seen = max(self.seen, latest)
        self.told(self.seen - self.delay, self.seen)
        if self._idle_after is not None:
            self._came = self.now()
        if self._early_by_rows is not None and not self._early_is_set:
            self._early, self._early_is_set = self.seen, True

    def told(self, watermark: int, horizon: int) -> None:
        """Move the watermark on, and the greatest time known of."""
        self.watermark = max(self.watermark, watermark)
        self.horizon = max(self.horizon, horizon)

    def is_idle(self) -> bool:
        """Say whether no row has come for so long that the watermark went on with the clock; it does."""
        if self._idle_after is None or self.seen == BEFORE_TIME:
            return False
        waited = self.now() - self._came
        watermark = self.seen - self.delay + waited // self._per_tick
        if waited < self._idle_after or watermark <= self.watermark:
            return False
        self.told(watermark, watermark)
        return True

    def is_early(self) -> bool:
        """Say whether early results are wanted now, and note that they are given."""
        if self._early_by_clock is not None:
            at, span = self.now(), self._early_by_clock
        elif self._early_by_rows is not None and self._early_is_set:
            at, span = self.seen, self._early_by_rows
        else:
            return False
        if at - self._early < span:
            return False
        self._early = at
        return True

    def save(self) -> dict[str, int]:
        """Return the state as numbers by name."""
        names = ("watermark", "seen", "horizon", "_came", "_early", "_early_is_set")
        return {name.removeprefix("_"): int(getattr(self, name)) for name in names}

    def load(self, state: Mapping[str, int]) -> None:
        """Replace the state."""
        self.watermark, self.seen, self.horizon = (state[name] for name in ("watermark", "seen", "horizon"))
        self._came, self._early, self._early_is_set = state["came"], state["early"], bool(state["early_is_set"])


def _span(duration: object, unit: ColumnType, what: str) -> int | None:
    if duration is None:
        return None
    span = in_unit_of(duration, unit, what)
    if span <= 0:
        raise InvalidArgumentError(f"{what} is {duration!r}; it must be positive")
    return span


def _one(time: ColumnType) -> str:
    assert time.logical is not None
    unit = "day" if pa.types.is_date32(time.logical) else getattr(time.logical, "unit", "ms")
    return f"1 {({'s': 'second', 'ms': 'millisecond', 'us': 'microsecond', 'ns': 'nanosecond'}).get(unit, unit)}"
