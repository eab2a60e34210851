"""A SELECT as a query: its clauses, its select list, and what of them a query cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlglot import exp

from muntin.aggregations.aggregation import Aggregation
from muntin.errors import SqlError
from muntin.query.query import RESERVED
from muntin.statements.aggregates import Aggregates
from muntin.statements.columns import Columns, is_call, is_column
from muntin.statements.frames import Frames, FrameWindow
from muntin.statements.functions import Make
from muntin.statements.group_windows import FLINK, GroupWindow, GroupWindows
from muntin.statements.places import Text

_READ = ("expressions", "from_", "group", "windows")
_REFUSED = {
    "where": "a query has no WHERE: leave rows out before, or skip them with FILTER (WHERE flag) of a boolean column",
    "having": "a query has no HAVING: leave windows out of the answer afterwards",
    "order": "answers have no order: sort them afterwards",
    "limit": "a query has no LIMIT: take the first windows of the answer afterwards",
    "distinct": "a query has no SELECT DISTINCT: each window is there once",
    "joins": "a query reads one table: join before",
    "laterals": "a query reads one table: join before",
    "with_": "a query has no WITH: it reads one table",
}
_WINDOWED = (
    "a query needs windows: GROUP BY with TUMBLE, HOP, SESSION, window or session_window, a table function such as "
    "TUMBLE(TABLE t, DESCRIPTOR(ts), ...), or OVER (...)"
)
_TITLES = {"start": ("start", "window_start"), "end": ("end", "window_end"), "window": ("window",)}
"""The names that a window and its bounds may be given with AS: those that the answer has for them."""


@dataclass(frozen=True)
class Meaning:
    """What a statement asks for, as the arguments of a query."""

    windows: Any
    aggregates: dict[str, Aggregation]
    key: tuple[str, ...]
    time: str | None


@dataclass(frozen=True)
class Select:
    """Reads one SELECT."""

    text: Text
    node: Any
    functions: Mapping[str, Make] = field(repr=False)

    def meaning(self) -> Meaning:
        """Return what it asks for; refuse what a query cannot say, with its place."""
        if not isinstance(self.node, exp.Select):
            raise self.text.refused(self.node, "a query is one SELECT ... FROM ...")
        self._require_clauses()
        if any(each.find(exp.Window) is not None for each in self.node.expressions):
            return self._framed()
        return self._grouped()

    def _require_clauses(self) -> None:
        """Refuse clauses that a query has no words for: the first of them in the text."""
        refused = []
        for clause, found in self.node.args.items():
            if clause not in _READ and found:
                place = found[0] if isinstance(found, list) else found
                reason = _REFUSED.get(clause, f"a query has no {clause.rstrip('_').upper().replace('_', ' ')}")
                refused.append(self.text.refused(place if isinstance(place, exp.Expression) else self.node, reason))
        if refused:
            raise min(refused, key=lambda error: (error.line, error.column))

    # ------------------------------------------------------------ the table

    @cached_property
    def _table(self) -> Any:
        """The table, or the function that makes it."""
        source = self.node.args.get("from_")
        if source is None:
            raise self.text.refused(self.node, "there is no FROM; name the table: FROM readings")
        table = source.this
        if not isinstance(table, exp.Table):
            raise self.text.refused(
                table, "a query reads a table, and no other statement; ask two queries, one after the other"
            )
        for each in ("sample", "pivots", "version", "joins", "laterals", "hints"):
            if table.args.get(each):
                raise self.text.refused(table, f"a table is named alone, without {each.upper()}")
        return table

    @cached_property
    def _table_call(self) -> Any:
        """The table function, without TABLE(...) around it; None where a table is named."""
        call = self._table.this
        if is_call(call, "table") and len(call.expressions) == 1:
            call = call.expressions[0]
        if not isinstance(call, exp.Anonymous):
            return None
        if not is_call(call, *FLINK):
            raise self.text.refused(
                call, f"there is no table function {call.name}; there are {', '.join(FLINK).upper()}"
            )
        return call

    @cached_property
    def _columns(self) -> Columns:
        alias = self._table.alias
        named = self._table if self._table_call is None else next(self._table_call.find_all(exp.Table), None)
        return Columns(self.text, tuple(name for name in (alias, named.name if named is not None else "") if name))

    @cached_property
    def _aggregates(self) -> Aggregates:
        return Aggregates(self.text, self._columns, self.functions)

    # ------------------------------------------------------------ GROUP BY

    def _grouped(self) -> Meaning:
        reader = GroupWindows(self.text, self._columns)
        call, group = self._table_call, self.node.args.get("group")
        of_table = None if call is None else reader.of_table(call)
        if group is None:
            star = next((each for each in self.node.expressions if isinstance(each, exp.Star)), None)
            if of_table is not None and star is not None:
                raise self.text.refused(
                    star, "a query aggregates: name aggregations, and GROUP BY window_start, window_end"
                )
            raise self.text.refused(self.node, _WINDOWED)
        window, key = self._groups(group, reader, of_table)
        if window.partition is not None and window.name == "session" and set(window.partition) != set(key):
            raise self.text.refused(
                window.call,
                f"each key has sessions of its own: PARTITION BY names {_listed(window.partition)}, and GROUP BY "
                f"{_listed(key)}; name the same columns in both",
            )
        aggregates: dict[str, Aggregation] = {}
        for item in self.node.expressions:
            self._grouped_item(item, window, key, aggregates)
        if not aggregates:
            raise self.text.refused(self.node, "there is no aggregation; select one, such as count(*) AS n")
        return Meaning(window.window, aggregates, key, window.time)

    def _groups(
        self, group: Any, reader: GroupWindows, of_table: GroupWindow | None
    ) -> tuple[GroupWindow, tuple[str, ...]]:
        """Return the window and the keys of GROUP BY."""
        for clause, given in group.args.items():
            if clause == "all" and given:
                raise self.text.refused(group, "GROUP BY ALL is no list of columns and one window")
            if clause != "expressions" and given:  # where older versions of sqlglot have them
                raise self._sets_of_keys(given[0])
        window, bounds, key = of_table, set(), list[str]()
        for each in group.expressions:
            found = reader.in_group(each)
            if found is not None and window is not None:
                raise self.text.refused(each, "this is a second window; ask for it by a query of its own")
            window = found or window
            bound = None if of_table is None else of_table.bound(each)
            if bound is not None:
                bounds.add(bound)
            elif found is None and not (of_table is not None and _is_window_time(each)):
                name = self._key(each)
                if name in key:
                    raise self.text.refused(each, f"{name} is in GROUP BY twice")
                key.append(name)
        if window is None:
            raise self.text.refused(group, _WINDOWED)
        if of_table is not None and bounds != {"start", "end"}:
            raise self.text.refused(group, "GROUP BY names both window_start and window_end of a table function")
        return window, tuple(key)

    def _sets_of_keys(self, node: Any) -> SqlError:
        return self.text.refused(node, "GROUP BY has one set of keys; ask for each other one by a query of its own")

    def _key(self, node: Any) -> str:
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise self._sets_of_keys(node)
        if isinstance(node, exp.Literal):
            raise self.text.refused(node, "GROUP BY names columns, not their places in the select list")
        name = self._columns.name(node, "what GROUP BY names")
        if name in RESERVED:
            raise self.text.refused(node, f"{name} is a column of the answer already; a key has another name")
        return name

    def _grouped_item(
        self, item: Any, window: GroupWindow, key: tuple[str, ...], aggregates: dict[str, Aggregation]
    ) -> None:
        node = item.this if isinstance(item, exp.Alias) else item
        bound = window.bound(node)
        if bound is not None:
            self._require_title(item, _TITLES[bound], f"the answer has it as {_shown(bound)}")
        elif _is_window_time(node):
            raise self.text.refused(item, "the answer has no such time; it has window.start and window.end")
        elif isinstance(node, exp.Star):
            raise self.text.refused(item, "name the columns of GROUP BY and aggregations instead of *")
        elif is_column(node):
            name = self._columns.name(node, "an item")
            if name not in key:
                raise self.text.refused(item, f"{name} is not in GROUP BY; put it there, or into an aggregation")
            self._require_title(item, (name,), f"the answer has it as {name}")
        else:
            self._add(item, node, aggregates, taken=key)

    def _require_title(self, item: Any, titles: tuple[str, ...], reason: str) -> None:
        """Refuse to call a column of the answer by another name than it has."""
        if isinstance(item, exp.Alias) and item.alias not in titles:
            raise self.text.refused(item.args["alias"], f"AS {item.alias}: {reason}; rename it afterwards")

    def _add(self, item: Any, node: Any, aggregates: dict[str, Aggregation], taken: tuple[str, ...]) -> str:
        """Add an aggregation, by the name that AS gives it, or else as it is written."""
        named = isinstance(item, exp.Alias)
        found = self._aggregates.aggregation(node)
        name = str(item.alias) if named else self.text.written(self._aggregates.call(node))
        place = item.args["alias"] if named else item
        if name in RESERVED:
            raise self.text.refused(place, f"{name} is a column of the answer already; call it otherwise")
        if name in aggregates or name in taken:
            raise self.text.refused(place, f"there are two columns {name}; call one of them otherwise with AS")
        aggregates[name] = found
        return name

    # ------------------------------------------------------------ OVER

    def _framed(self) -> Meaning:
        if self._table_call is not None:
            raise self.text.refused(self._table_call, "windows are from a table function or from OVER, not both")
        if self.node.args.get("group") is not None:
            raise self.text.refused(self.node.args["group"], "windows are from GROUP BY or from OVER, not both")
        named = {each.name: each for each in self.node.args.get("windows") or ()}
        reader = Frames(self.text, self._columns, named)
        found: list[tuple[Any, str, FrameWindow, Aggregation]] = []
        aggregates: dict[str, Aggregation] = {}
        for item in self.node.expressions:
            node = item.this if isinstance(item, exp.Alias) else item
            if isinstance(node, exp.Window):
                name = self._add(item, node.this, aggregates, taken=())
                found.append((item, name, reader.frame(node), aggregates[name]))
            elif is_column(node):
                name = self._columns.name(node, "an item")
                self._require_title(item, (name,), f"answers stand beside the rows, which have it as {name}")
            elif not isinstance(node, exp.Star):
                raise self.text.refused(
                    item, f"{self.text.written(node)!r} is no column, and no aggregation OVER a window"
                )
        first = found[0][2]
        for item, _, frame, _ in found:
            if (frame.key, frame.time) != (first.key, first.time):
                raise self.text.refused(
                    item, "all OVER have the same PARTITION BY and ORDER BY; ask for others by another query"
                )
        if all(frame.window == first.window for _, _, frame, _ in found):
            return Meaning(first.window, aggregates, first.key, first.time)
        return self._several(found)

    def _several(self, found: list[tuple[Any, str, FrameWindow, Aggregation]]) -> Meaning:
        """Return what several windows ask for: each has the same aggregates, named as `Query.over` names them."""
        windows = {frame.name: frame.window for _, _, frame, _ in found if frame.name is not None}
        by_window: dict[str | None, dict[str, Aggregation]] = {name: {} for name in windows}
        for item, name, frame, aggregation in found:
            if frame.name is None or not name.endswith(f"_{frame.name}") or name == f"_{frame.name}":
                raise self.text.refused(
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
                    raise self.text.refused(
                        item, f"every window has the same aggregates, and there is no {stem}_{other} that is the same"
                    )
        return Meaning(windows, by_window[first.name], first.key, first.time)


def _is_window_time(node: Any) -> bool:
    """Say whether a part names the last moment of a window, which answers do not have."""
    if isinstance(node, exp.Column):
        return str(node.name).lower() == "window_time"
    return is_call(node, "window_time", *(f"{name}_{end}" for name in FLINK for end in ("rowtime", "proctime")))


def _shown(bound: str) -> str:
    return "window" if bound == "window" else f"window.{bound}"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "no column"
