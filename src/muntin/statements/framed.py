"""SELECT with OVER: answers beside the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin.aggregations.aggregation import Aggregation
from muntin.errors import SqlError
from muntin.statements.columns import is_column
from muntin.statements.frames import Frames, FrameWindow
from muntin.statements.selects import Meaning, Select


@dataclass(frozen=True)
class Framed:
    """Reads a SELECT whose windows are those of OVER."""

    select: Select

    def meaning(self) -> Meaning:
        """Return what it asks for; reject what a query cannot say, with its place."""
        if self.select.table_function is not None:
            raise self._refused(self.select.table_function, "windows are from a table function or OVER, not both")
        if self.select.group is not None:
            raise self._refused(self.select.group, "windows are from GROUP BY or from OVER, not both")
        named = self._named()
        reader = Frames(self.select.text, self.select.columns, named)
        found: list[tuple[Any, str, FrameWindow, Aggregation]] = []
        aggregates: dict[str, Aggregation] = {}
        for item, node in self.select.items:
            if isinstance(node, exp.Window):
                name = self.select.add(item, node.this, aggregates, taken=())
                frame = reader.frame(node)
                if name in frame.key:
                    raise self._refused(item.args["alias"], f"{name} is a key; call the aggregate otherwise")
                found.append((item, name, frame, aggregates[name]))
            elif is_column(node):
                self._require_there(item, node)
            elif isinstance(node, exp.Star):
                if any(node.args.values()):
                    raise self._refused(item, "answers stand beside all columns: write * alone")
            else:
                raise self._refused(
                    item, f"{self.select.text.written(node)!r} is no column, and no aggregation OVER a window"
                )
        first = found[0][2]
        for item, _, frame, _ in found:
            if (frame.key, frame.time) != (first.key, first.time):
                raise self._refused(
                    item, "all OVER have the same PARTITION BY and ORDER BY; ask for others by another query"
                )
        if all(frame.window == first.window for _, _, frame, _ in found):
            return Meaning(first.window, aggregates, first.key, first.time)
        return self._several(found)

    def _require_there(self, item: Any, node: Any) -> None:
        """Reject a column that the rows do not have, or that is called otherwise there."""
        name = self.select.columns.name(node, "an item")
        if name in self.select.source.computed:
            raise self._refused(item, f"{name} is computed, and answers stand beside the rows as they are")
        self.select.require_title(item, (name,), f"answers stand beside the rows, which have it as {name}")

    def _named(self) -> dict[str, Any]:
        """Return the definitions of the clause WINDOW by name."""
        named: dict[str, Any] = {}
        for each in self.select.node.args.get("windows") or ():
            if each.name in named:
                raise self._refused(each, f"the window {each.name} is defined twice")
            named[each.name] = each
        return named

    def _several(self, found: list[tuple[Any, str, FrameWindow, Aggregation]]) -> Meaning:
        """Return what several windows ask for: each has the same aggregates, named as `Query.over` names them."""
        windows = {frame.name: frame.window for _, _, frame, _ in found if frame.name is not None}
        by_window: dict[str | None, dict[str, Aggregation]] = {name: {} for name in windows}
        for item, name, frame, aggregation in found:
            if frame.name is None or not name.endswith(f"_{frame.name}") or name == f"_{frame.name}":
                raise self._refused(
                    item,
                    "where windows differ, each has a name in the clause WINDOW, and the columns are called "
                    "{aggregate}_{window}, such as spent_short for WINDOW short AS (...)",
                )
            by_window[frame.name][name.removesuffix(f"_{frame.name}")] = aggregation
        first = found[0][2]
        for item, name, frame, aggregation in found:
            stem = name.removesuffix(f"_{frame.name}")
            for other, aggregates in by_window.items():
                if aggregates.get(stem) != aggregation:
                    raise self._refused(
                        item, f"every window has the same aggregates, and there is no {stem}_{other} that is the same"
                    )
        return Meaning(windows, by_window[first.name], first.key, first.time)

    def _refused(self, node: Any, reason: str) -> SqlError:
        return self.select.text.refused(node, reason)
