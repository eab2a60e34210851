"""What observers of a stream get: one call, the rows it took and the windows it emitted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.streams.row_reading import Row


@dataclass(frozen=True)
class Step:
    """One call of a stream that took rows or may have emitted windows."""

    taken: pa.Table | Row | None
    answers: pa.Table
    """The windows that were emitted, as the call returned them."""
    seconds: float
    """How long the call took."""

    @property
    def rows(self) -> pa.Table | None:
        """The rows received; None if the call brought none."""
        return self.taken.table() if isinstance(self.taken, Row) else self.taken
