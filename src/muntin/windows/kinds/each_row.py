"""The base of all frames: one window per row, between two bounds relative to it."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from muntin.windows.base import Window
from muntin.windows.frames import half_open


class EachRow(Window):
    """One window per row: from `low` to `high` after it, both of any sign, by time or by rows."""

    each_row: ClassVar[bool] = True
    is_frame: ClassVar[bool] = True
    cuttable: ClassVar[bool] = True

    closed: str
    """Which of its bounds it includes."""

    @property
    @abstractmethod
    def low(self) -> int:
        """The start of a frame, relative to its row. Frames by time must be resolved."""

    @property
    @abstractmethod
    def high(self) -> int:
        """The end of a frame, relative to its row. Frames by time must be resolved."""

    @property
    def held(self) -> tuple[int, int]:
        """The bounds as [since, until): of a row's place, relative to that of the frame's row."""
        return half_open(self.low, self.high, self.closed)
