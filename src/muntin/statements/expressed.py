"""The expressions of a query as SQL: in aggregates, in WHERE, or in a subquery that computes columns."""

from __future__ import annotations

from functools import cached_property

from muntin.errors import UnsupportedOperationError
from muntin.expressions import types
from muntin.expressions.parse import parse
from muntin.expressions.rows import WHERE, label
from muntin.expressions.tree import Call, Expression, Name, Value, quoted
from muntin.query.query import Query

_FLINKS = frozenset(("=", "!=", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IN", "BETWEEN", "+", "-", "*", "NEGATE"))
_FLINKS |= {"IS NULL", "IS TRUE", "IS FALSE", "CASE", "COALESCE", "UPPER", "LOWER"}
"""What Flink computes as Spark does. Its division of integers, say, gives integers."""


class Expressed:
    """Writes the expressions of one query in one dialect."""

    def __init__(self, query: Query, table: str, dialect: str | None) -> None:
        self._query, self._table, self._dialect = query, table.rpartition(".")[2], dialect
        self._trees = {name: parse(query.expressions[name], label(name)) for name in query.computed}
        self._where = None if query.where is None else parse(query.where, WHERE)

    @cached_property
    def in_subquery(self) -> bool:
        """Whether columns are computed in a subquery: where one is called otherwise than it is written."""
        grouped = {*self._query.key, self._query.time}
        return any(str(tree) != name or name in grouped for name, tree in self._trees.items())

    @property
    def where(self) -> str | None:
        """The condition, if it stands behind the table; None if there is none, or a subquery has it."""
        return None if self._where is None or self.in_subquery else self._text(self._where)

    def column(self, name: str) -> str:
        """Return a column as aggregates read it: an expression itself, unless a subquery computes it."""
        if name in self._trees and not self.in_subquery:
            return self._text(self._trees[name])
        return quoted(name)

    def source(self, table: str) -> str:
        """Return what stands in FROM, without the condition that `where` has."""
        if not self.in_subquery:
            return table
        items = [
            f"{self._text(self._trees[name])} AS {quoted(name)}" if name in self._trees else quoted(name)
            for name in self._query.needed
        ]
        where = "" if self._where is None else f" WHERE {self._text(self._where)}"
        return f"(SELECT {', '.join(items)} FROM {table}{where}) AS computed"  # noqa: S608  # as it was asked for

    def _text(self, tree: Expression) -> str:
        return str(self._in_dialect(tree))

    def _in_dialect(self, part: Expression) -> Expression:
        """Return an expression with fields behind the table, and texts in the quotes of the dialect.

        Rejects what Flink means otherwise.
        """
        if isinstance(part, Name):
            return part if len(part.path) == 1 else Name((self._table, *part.path))
        if isinstance(part, Value):
            return part if self._dialect == "spark" else self._standard_value(part)
        assert isinstance(part, Call)
        if self._dialect == "flink" and part.name not in _FLINKS:
            raise UnsupportedOperationError(f"Flink may mean something else by {part}: compute it before")
        if part.name == "LIKE" and part.word and self._dialect != "spark":
            raise UnsupportedOperationError(f"{part} has an escape of its own, which is written for Spark alone")
        return Call(part.name, tuple(map(self._in_dialect, part.arguments)), part.word)

    def _standard_value(self, part: Value) -> Value:
        if part.type == types.TEXT:
            return Value(part.value, part.type, "'" + str(part.value).replace("'", "''") + "'")
        if self._dialect == "flink" and (types.is_time(part.type) or part.text[-1:] in "LSYDF"):
            raise UnsupportedOperationError(f"Flink reads {part} otherwise than Spark: compute it before")
        return part
