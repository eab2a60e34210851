"""A SELECT: its clauses, its table and its items, and what of them a query cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlglot import exp

from muntin.aggregations.aggregation import Aggregation
from muntin.expressions.places import Text
from muntin.query.query import RESERVED
from muntin.statements.aggregates import Aggregates, call_of
from muntin.statements.columns import Columns, is_call
from muntin.statements.functions import Make, known
from muntin.statements.group_windows import FLINK
from muntin.statements.sources import Source, of_source

_READ = ("expressions", "from_", "group", "where", "windows")
_BOUNDS = ("window_start", "window_end", "window_time")
_REFUSED = {
    "having": "a query has no HAVING: leave windows out of the answer afterwards",
    "order": "answers have no order: sort them afterwards",
    "limit": "a query has no LIMIT: take the first windows of the answer afterwards",
    "distinct": "a query has no SELECT DISTINCT: each window is there once",
    "joins": "a query reads one table: join before",
    "laterals": "a query reads one table: join before",
    "with_": "a query has no WITH: it reads one table",
}


@dataclass(frozen=True)
class Meaning:
    """What a statement asks for, as the arguments of a query."""

    windows: Any
    aggregates: dict[str, Aggregation]
    key: tuple[str, ...]
    time: str | None
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None


@dataclass(frozen=True)
class Select:
    """One SELECT, as it was written."""

    text: Text
    node: Any
    own: Mapping[str, Make]
    """The user's own functions."""

    @property
    def items(self) -> list[tuple[Any, Any]]:
        """The items of the select list, each with what it is without AS."""
        return [(each, each.this if isinstance(each, exp.Alias) else each) for each in self.node.expressions]

    @property
    def group(self) -> Any:
        """The clause GROUP BY, if there is one."""
        return self.node.args.get("group")

    def require_clauses(self) -> None:
        """Reject clauses that a query has no words for: the first of them in the text."""
        refused = []
        for clause, found in self.node.args.items():
            if clause not in _READ and found:
                place = found[0] if isinstance(found, list) else found
                reason = _REFUSED.get(clause, f"a query has no {clause.rstrip('_').upper().replace('_', ' ')}")
                refused.append(self.text.refused(place if self.text.knows(place) else self.node, reason))
        if refused:
            raise min(refused, key=lambda error: (error.line, error.column))

    # ------------------------------------------------------------ the table

    @cached_property
    def _table(self) -> Any:
        """The table, or the function that makes it."""
        source = self.node.args.get("from_")
        if source is None:
            raise self.text.refused(self.node, "there is no FROM; name the table: FROM readings")
        _, table = of_source(self.text, source.this)
        if not isinstance(table, exp.Table):
            raise self.text.refused(table, "a query reads a table, or a subquery of one")
        if table is not source.this and not isinstance(table.this, exp.Identifier):
            raise self.text.refused(table, "a table function stands outside of subqueries, around a table")
        for word, given in table.args.items():
            if given and word not in ("this", "db", "catalog", "alias"):
                raise self.text.refused(table, f"a table is named alone, without {word.upper()}")
        if table.alias_column_names:
            raise self.text.refused(table.args["alias"], "columns have the names that the table has")
        return table

    @cached_property
    def table_function(self) -> Any:
        """The function that makes the table, without TABLE(...) around it; None where a table is named."""
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
    def columns(self) -> Columns:
        """What reads names of its columns."""
        return Columns(self.text, self.source.tables, self.source)

    @cached_property
    def source(self) -> Source:
        """The columns that names mean, and which rows there are."""
        function, node = self.table_function, self.node.args["from_"].this
        source, _ = of_source(self.text, node)
        if node is self._table:
            named = node if function is None else next(function.find_all(exp.Table), None)
            names = (node.alias, "" if named is None else named.name)
            source.tables = tuple(name for name in names if name)
        where = self.node.args.get("where")
        if where is not None:
            bound = next((each for each in where.find_all(exp.Column) if str(each.name).lower() in _BOUNDS), None)
            if function is not None and bound is not None:
                raise self.text.refused(bound, "WHERE is for rows; leave windows out of the answer afterwards")
            source.keep(where.this)
        return source

    @cached_property
    def aggregates(self) -> Aggregates:
        """What reads its aggregations."""
        return Aggregates(self.text, self.columns, known(self.own), frozenset(name.lower() for name in self.own))

    # ------------------------------------------------------------ items

    def require_title(self, item: Any, titles: tuple[str, ...], reason: str) -> None:
        """Reject another name for a fixed column of the answer."""
        if isinstance(item, exp.Alias) and item.alias not in titles:
            raise self.text.refused(item.args["alias"], f"AS {item.alias}: {reason}; rename it afterwards")

    def add(self, item: Any, node: Any, aggregates: dict[str, Aggregation], taken: tuple[str, ...]) -> str:
        """Add an aggregation, by the name that AS gives it, or else as it is written."""
        named = isinstance(item, exp.Alias)
        found = self.aggregates.aggregation(node)
        name = str(item.alias) if named else self.text.written(call_of(node))
        place = item.args["alias"] if named else item
        if not name:
            raise self.text.refused(place, "a column has a name; this one is empty")
        if name in RESERVED:
            raise self.text.refused(place, f"{name} is a column of the answer already; call it otherwise")
        if name in aggregates or name in taken:
            raise self.text.refused(place, f"there are two columns {name}; call one of them otherwise with AS")
        aggregates[name] = found
        return name
