"""What all frames share: one window for each row, between two bounds around it."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from muntin.windows.base import Window
from muntin.windows.frames import half_open


class EachRow(Window):
    """One window for each row: from `low` to `high` after it, both of any sign, by time or by rows."""

    each_row: ClassVar[bool] = True
    is_frame: ClassVar[bool] = True
    cuttable: ClassVar[bool] = True

    closed: str
    """Which of its bounds belong to it."""

    @property
    @abstractmethod
    def low(self) -> int:
        """Where a frame begins, from its row on. Of frames by time, resolved ones only."""

    @property
    @abstractmethod
    def high(self) -> int:
        """Where a frame ends, from its row on. Of frames by time, resolved ones only."""

    @property
    def held(self) -> tuple[int, int]:
        """The bounds such that a row is in the frame whose place, less the frame's row's, is in [since, until)."""
        return half_open(self.low, self.high, self.closed)
