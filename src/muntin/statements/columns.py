"""The columns that a statement names, and the one table that they are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from muntin.expressions.places import Text

if TYPE_CHECKING:
    from muntin.statements.sources import Source

CLOCKS = ("proctime", "current_timestamp", "now")
"""Functions that give the time at which a row is read."""


@dataclass(frozen=True)
class Columns:
    """Reads names of columns. `tables` are the names that may stand before them."""

    text: Text
    tables: tuple[str, ...]
    source: Source

    def name(self, node: Any, what: str) -> str:
        """Return the name of a column; reject what is none. `what` says where one is needed."""
        if not is_column(node):
            raise self.text.refused(
                node, f"{what} is a column, and {self.text.written(node)!r} is none; compute it as a column first"
            )
        table = node.args.get("table")
        if node.args.get("db") is not None or (table is not None and table.name not in self.tables):
            raise self.text.refused(
                node, f"{self.text.written(node)} is no column of {self.tables[0] if self.tables else 'the table'}"
            )
        return self.source.name(node, str(node.name))

    def expression(self, node: Any) -> str:
        """Return the name of the column that an expression is computed as; of a column its own name."""
        if is_column(node) and (len(node.parts) == 1 or (len(node.parts) == 2 and node.table in self.tables)):
            return self.name(node, "")
        return self.source.column(node)

    def time(self, node: Any) -> str | None:
        """Return the name of the time column, None for the clock's time."""
        if isinstance(node, exp.CurrentTimestamp) or (is_call(node, *CLOCKS) and not node.expressions):
            return None
        return self.name(node, "the time of a window")


def is_column(node: Any) -> bool:
    """Return whether a part is a column, with or without its table."""
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)


def is_call(node: Any, *names: str) -> bool:
    """Return whether a part calls one of these functions, by their names in lower case."""
    return isinstance(node, exp.Anonymous) and str(node.name).lower() in names
