"""A text of SQL, and errors that say where in it they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.errors import SqlError


@dataclass(frozen=True)
class Text:
    r"""SQL as it was written.

    >>> print(Text("SELECT *\nFROM t").refused_at(9, "no"))
    line 2, column 1: no
    """

    sql: str
    where: str = ""
    """What the text is, if errors must say so."""

    def refused_at(self, start: int, reason: str) -> SqlError:
        """Return the error of what begins with a character of the text. O(length)."""
        line = self.sql.count("\n", 0, start) + 1
        about = f"{self.where}: " if self.where else ""
        return SqlError(f"{about}{reason}", line, start - self.sql.rfind("\n", 0, start))

    def refused(self, node: Any, reason: str) -> SqlError:
        """Return the error of a part of the statement. O(length)."""
        return self.refused_at(self.start(node), reason)

    def start(self, node: Any) -> int:
        """Return where a part begins. O(parts in it)."""
        own = node.meta.get("start")
        return _first(node) if own is None else int(own)

    def opens(self, node: Any) -> bool:
        """Return whether a part begins with a parenthesis in the text: the parser adds some of its own."""
        own = node.meta.get("start")
        return own is not None and self.sql[own : own + 1] == "("

    def knows(self, node: Any) -> bool:
        """Return whether the place of a part is known."""
        return hasattr(node, "walk") and any(each.meta.get("start") is not None for each in node.walk())

    def written(self, node: Any) -> str:
        """Return a part as it was written, in one line. O(length)."""
        stop = max((each.meta.get("stop", each.meta.get("end", -1) + 1) for each in node.walk()), default=0)
        return " ".join(self.sql[_first(node) : stop].split())


def _first(node: Any) -> int:
    """Return where the first of what a part holds begins."""
    return min((each.meta["start"] for each in node.walk() if each.meta.get("start") is not None), default=0)
