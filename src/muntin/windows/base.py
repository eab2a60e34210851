"""The interface of every kind of window, for whoever slices, keeps, merges or explains windows.

A kind is one file of this folder: its words, which rows are in which window, and what a stream must keep for it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Self

import pyarrow as pa

from muntin.columns import Column
from muntin.durations import spelled
from muntin.errors import InvalidArgumentError
from muntin.types import Array, ColumnType
from muntin.windows.found import Cut, Found, Points, SortedRows
from muntin.windows.shapes import Density, EdgesFrom, FrameShape, Lookback, RowShape, Tiling, TimeShape

TIME_BOUNDS = ("start", "end")
"""The fields of all windows."""
ROW_BOUNDS = ("from_row", "to_row")
"""The fields of windows by rows: the number of the first row, and of the row after the last."""
VALUE_BOUNDS = ("from_value", "to_value")
"""The fields of windows by a column that advances."""
AT = "at"
"""The field of frames that do not end with their rows: the time of that row."""


class Context(Enum):
    """Which rows must be known to find where windows begin and end."""

    FREE = "context free"
    """Nothing: the edges follow from the parameters."""
    FORWARD_FREE = "forward context free"
    """The rows up to a time: they tell all edges up to that time."""
    FORWARD_AWARE = "forward context aware"
    """Rows after a time, too: they may bring an edge before it."""


class Measure(Enum):
    """The unit of a window's edges."""

    TIME = "time"
    ROWS = "rows"
    DELTA = "delta"
    PUNCTUATION = "punctuation"
    POLICY = "policy"
    MULTI = "multi-measure"


class Window(ABC):
    """A window definition: where windows begin and end, independent of what is computed over them.

    Built-in ones are immutable, and equal if created with the same arguments. Durations stay as written until
    `resolve`; all geometry below is for resolved windows, whose times are integers in the unit of the time column.

    A kind defines at least `find`, and for streams one of `time_shape`, `frame_shape`, `row_shape` and `edges`: these
    say how slices or rows in order answer it. The rest has defaults that are correct for any window, but slow.
    """

    context: ClassVar[Context]
    """What must be known of the rows to tell its edges."""
    measure: ClassVar[Measure]
    """What its edges are measured in."""
    edges_known: ClassVar[bool] = False
    """Whether its edges follow from the parameters alone, in its own measure."""
    splits: ClassVar[bool] = True
    """Whether a row out of order may bring an edge between rows that had none: those rows must be kept."""
    each_row: ClassVar[bool] = False
    """Whether there is one window for each row."""
    is_frame: ClassVar[bool] = False
    """Whether it is relative to the time of its row, so that there is one for any time: see `find_at`."""
    ties_matter: ClassVar[bool] = True
    """Whether the order of rows of equal time decides which window they are in."""
    arrival_matters: ClassVar[bool] = False
    """Whether rows must be seen in the order in which they came."""
    emits_empty: ClassVar[bool] = False
    """Whether windows without rows are emitted where a query asks for them."""
    start_moves: ClassVar[bool] = False
    """Whether late rows may move the start of a window that was emitted, while its end tells which one it is."""
    edges: ClassVar[EdgesFrom | None] = None
    """What tells its edges, for a stream that keeps rows in order."""
    columns: tuple[str, ...] = ()
    """The columns that it reads besides the time."""

    # ------------------------------------------------------------ words

    def resolve(self, time: ColumnType) -> Self:
        """Return the same window with every duration an integer in the unit of the time column.

        Idempotent. Raises `InvalidArgumentError` if a duration does not fit that unit. O(1).
        """
        return self

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return ()

    def likely_types(self) -> Mapping[str, pa.DataType]:
        """Return the likely types of its columns, for an `explain` without a schema."""
        return dict.fromkeys(self.columns, pa.float64())

    def spelled(self) -> Self:
        """Return the same window with every duration in the spelling that equal ones share. O(1)."""
        if not is_dataclass(self):
            return self
        held = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        written = {
            name: spelled(value) for name, value in held.items() if any(value is each for each in self.durations)
        }
        return replace(self, **written)

    @property
    def fingerprint(self) -> str:
        """Its identity in snapshots, as it is spelled: windows with different answers have different ones."""
        if type(self).__module__.startswith("muntin."):
            return repr(self)
        return f"{type(self).__qualname__} {vars(self)!r}"

    def no_kind(self) -> InvalidArgumentError:
        """Return the error for a class that lacks what every kind must define."""
        return InvalidArgumentError(
            f"{type(self).__name__} is a window of no known kind; derive it from window.ContextFree, if its edges "
            "depend on no row, or from window.ContextAware"
        )

    # ------------------------------------------------------------ finite tables

    def require_values(self, columns: Mapping[str, Column]) -> None:
        """Reject values of its columns that no window can hold, naming column, value and row. O(n)."""

    def find(self, rows: SortedRows) -> Found:
        """Return all windows among the rows of a sorted table."""
        raise self.no_kind()

    def find_at(self, rows: SortedRows, points: Points) -> tuple[Array, Array]:
        """Return for each point the first row of its frame, and the row after its last: both ascend. Frames only."""
        raise InvalidArgumentError(f"{self!r} is no frame, so that it holds nothing at any one time")

    def span_at(self, time: int) -> tuple[int, int] | None:
        """Return the times [since, until) whose rows a frame at one time holds; None if it counts rows. O(1)."""
        return None

    def ends_at(self, rows: SortedRows, points: Points, last: Array) -> Array:
        """Return where the frames of points end in time, `last` being the row after the last of each. Frames only."""
        raise InvalidArgumentError(f"{self!r} is no frame, so that it ends at no point")

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return 0

    # ------------------------------------------------------------ rows in pieces

    cuttable: ClassVar[bool] = False
    """Whether the rows of a key can be answered piece by piece: then the next three tell how."""

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(log n)."""
        return 0

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on. O(windows)."""
        return ~found.all

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut: for most kinds the rows hold no others. O(windows)."""
        return found.all

    @property
    def lookback(self) -> Lookback | None:
        """How far before a cut windows reach; None if only the rows can tell."""
        return None

    # ------------------------------------------------------------ streams

    @property
    def time_shape(self) -> TimeShape | None:
        """Its shape for slices by time; None if these cannot answer it."""
        return None

    @property
    def frame_shape(self) -> FrameShape | None:
        """Its shape, if it is a frame by time; else None."""
        return None

    @property
    def row_shape(self) -> RowShape | None:
        """Its shape, if it holds some rows around every row, or every k-th one; else None."""
        return None

    @property
    def tiling(self) -> Tiling | None:
        """Its tiles, if it is a frame that begins at multiples; None if rows must be kept apart."""
        return None

    @property
    def lead_in(self) -> int:
        """How long after the first kept row a window may lack rows that were not kept."""
        return 0

    # ------------------------------------------------------------ expectations

    def time_held(self, delay: int, lateness: int) -> int | None:
        """Return how long a row may be needed; None if only rows can tell.

        That is from the start of its longest window until no row may change it: a window is open until the watermark,
        which is `delay` behind, reaches its end, and then for the allowed lateness.
        """
        return None

    @property
    def longest(self) -> int | None:
        """The maximum length of a window; None if only rows can tell."""
        return None

    @property
    def rows_held(self) -> int:
        """How many of the last rows are needed, whatever their time."""
        return 0

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows."""
        return Density(many, many, 1) if self.each_row else Density(many, 1.0)

    # ------------------------------------------------------------ answers

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields of its windows besides start and end, and their types."""
        return {}

    @property
    def tells_at(self) -> bool:
        """Whether its windows also have a field `at`: the time of their row, if they do not end with it."""
        return False
