"""SELECT with GROUP BY: one window, keys, and aggregations of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin.aggregations.aggregation import Aggregation
from muntin.errors import SqlError
from muntin.query.query import RESERVED
from muntin.statements.columns import is_call, is_column
from muntin.statements.group_windows import FLINK, GroupWindow, GroupWindows
from muntin.statements.selects import Meaning, Select

_WINDOWED = (
    "a query needs windows: GROUP BY with TUMBLE, HOP, SESSION, window or session_window, a table function such as "
    "TUMBLE(TABLE t, DESCRIPTOR(ts), ...), or OVER (...)"
)
_TITLES = {"start": ("start", "window_start"), "end": ("end", "window_end"), "window": ("window",)}
"""The names that a window and its bounds may be given with AS: those that the answer has for them."""


@dataclass(frozen=True)
class Grouped:
    """Reads a SELECT whose windows are in GROUP BY, or of a table function."""

    select: Select

    def meaning(self) -> Meaning:
        """Return what it asks for; reject what a query cannot say, with its place."""
        named = self.select.node.args.get("windows")
        if named:
            raise self._refused(named[0], "the clause WINDOW is for OVER; GROUP BY has its window in itself")
        reader = GroupWindows(self.select.text, self.select.columns)
        function = self.select.table_function
        of_table = None if function is None else reader.of_table(function)
        self._require_group(of_table)
        window, key = self._groups(reader, of_table)
        if window.is_of_table and window.name == "session" and set(window.partition or ()) != set(key):
            raise self._refused(
                window.call,
                f"each key has sessions of its own: PARTITION BY names {_listed(window.partition or ())}, and GROUP BY "
                f"{_listed(key)}; name the same columns in both",
            )
        aggregates: dict[str, Aggregation] = {}
        for item, node in self.select.items:
            self._read_item(item, node, window, key, aggregates)
        if not aggregates:
            raise self._refused(self.select.node, "there is no aggregation; select one, such as count(*) AS n")
        return Meaning(window.window, aggregates, key, window.time)

    def _require_group(self, of_table: GroupWindow | None) -> None:
        """Reject a statement without GROUP BY, and one that has more in it than columns and windows."""
        group = self.select.group
        if group is None:
            star = next((node for _, node in self.select.items if isinstance(node, exp.Star)), None)
            if of_table is None or star is None:
                raise self._refused(self.select.node, _WINDOWED)
            raise self._refused(star, "a query aggregates: name aggregations, and GROUP BY window_start, window_end")
        for clause, given in group.args.items():
            if clause != "expressions" and isinstance(given, bool):
                words = "DISTINCT" if given is False else clause.upper()
                raise self._refused(group, f"GROUP BY {words} is no list of columns and one window")
            if clause != "expressions" and given:  # GROUP BY a WITH ROLLUP
                raise self._sets_of_keys(given[0])

    def _groups(self, reader: GroupWindows, of_table: GroupWindow | None) -> tuple[GroupWindow, tuple[str, ...]]:
        """Return the window and the keys of GROUP BY."""
        group = self.select.group
        window, bounds, key = of_table, set(), list[str]()
        for each in group.expressions:
            found = reader.in_group(each)
            if found is not None and window is not None:
                raise self._refused(each, "this is a second window; ask for it by a query of its own")
            window = found or window
            bound = None if of_table is None else of_table.bound(each)
            if bound is not None:
                bounds.add(bound)
            elif found is None and not (of_table is not None and _is_window_time(each)):
                name = self._key(each)
                if name in key:
                    raise self._refused(each, f"{name} is in GROUP BY twice")
                key.append(name)
        if window is None:
            raise self._refused(group, _WINDOWED)
        if of_table is not None and bounds != {"start", "end"}:
            raise self._refused(group, "GROUP BY names both window_start and window_end of a table function")
        return window, tuple(key)

    def _sets_of_keys(self, node: Any) -> SqlError:
        return self._refused(node, "GROUP BY has one set of keys; ask for each other one by a query of its own")

    def _key(self, node: Any) -> str:
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise self._sets_of_keys(node)
        if isinstance(node, exp.Literal):
            raise self._refused(node, "GROUP BY names columns, not their places in the select list")
        name = self.select.columns.name(node, "what GROUP BY names")
        if name in RESERVED:
            raise self._refused(node, f"{name} is a column of the answer already; a key has another name")
        return name

    def _read_item(
        self, item: Any, node: Any, window: GroupWindow, key: tuple[str, ...], aggregates: dict[str, Aggregation]
    ) -> None:
        """Add an aggregation; accept what the answer has anyway, and refuse all else."""
        bound = window.bound(node)
        if bound is not None:
            self.select.require_title(item, _TITLES[bound], f"the answer has it as {_shown(bound)}")
        elif _is_window_time(node):
            raise self._refused(item, "the answer has no such time; it has window.start and window.end")
        elif isinstance(node, exp.Star):
            raise self._refused(item, "name the columns of GROUP BY and aggregations instead of *")
        elif is_column(node):
            name = self.select.columns.name(node, "an item")
            if name not in key:
                raise self._refused(item, f"{name} is not in GROUP BY; put it there, or into an aggregation")
            self.select.require_title(item, (name,), f"the answer has it as {name}")
        else:
            self.select.add(item, node, aggregates, taken=key)

    def _refused(self, node: Any, reason: str) -> SqlError:
        return self.select.text.refused(node, reason)


def _is_window_time(node: Any) -> bool:
    """Return whether a part names the last moment of a window, which answers do not have."""
    if isinstance(node, exp.Column):
        return str(node.name).lower() == "window_time"
    return is_call(node, "window_time", *(f"{name}_{end}" for name in FLINK for end in ("rowtime", "proctime")))


def _shown(bound: str) -> str:
    return "window" if bound == "window" else f"window.{bound}"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "no column"
