"""What a statement reads: the columns of its table, those that a subquery in FROM makes of them, and which rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from muntin.expressions.parse import Reader
from muntin.expressions.places import Text
from muntin.expressions.tree import Call, Expression, Name, renamed
from muntin.statements.columns import is_column

_READ = ("expressions", "from_", "where")


@dataclass
class Source:
    """The columns that names mean, and the rows there are: of a table itself, all of it."""

    text: Text
    tables: tuple[str, ...] = ()
    """The names that may stand before those of columns."""
    columns: Mapping[str, Expression] = field(default_factory=dict)
    """Columns that a subquery makes, by name."""
    whole: bool = True
    """Whether all columns of the table are there, too."""
    where: Expression | None = None
    computed: dict[str, Expression] = field(default_factory=dict)
    """The columns that the query must compute, by the names that it has for them."""

    # ------------------------------------------------------------ what names and expressions mean

    def name(self, node: Any, name: str) -> str:
        """Return the name of a column, which is computed if a subquery makes it."""
        meant = self._meant(node, name)
        if meant != Name((name,)):
            self.computed[name] = meant
        return name

    def expression(self, node: Any) -> Expression:
        """Return an expression over the columns of the table itself."""
        read = Reader(self.text, self._path).expression(node)
        self._require_known(node, read)
        return renamed(read, dict(self.columns))

    def column(self, node: Any) -> str:
        """Return the name of the column that an expression is computed as: how it is written."""
        meant = self.expression(node)
        name = str(meant)
        if meant != Name((name,)):
            self.computed[name] = meant
        return name

    def keep(self, node: Any) -> None:
        """Leave out the rows that a condition does not hold for, besides those that are left out already."""
        more = self.expression(node)
        self.where = more if self.where is None else Call("AND", (self.where, more))

    def _meant(self, node: Any, name: str) -> Expression:
        found = self.columns.get(name)
        if found is None and not self.whole:
            raise self.text.refused(
                node, f"there is no column {name} in the subquery; it has {', '.join(self.columns) or 'none'}"
            )
        return Name((name,)) if found is None else found

    def _require_known(self, node: Any, read: Expression) -> None:
        for each in read.names():
            meant = self._meant(node, each.path[0])
            if len(each.path) > 1 and not isinstance(meant, Name):
                raise self.text.refused(node, f"{each.path[0]} is computed, and has no field {each.path[1]}")

    def _path(self, node: Any) -> tuple[str, ...]:
        """Return the names of a column and of its fields, without the table before them."""
        parts: list[str] = []
        while isinstance(node, exp.Dot):
            parts.insert(0, str(node.name))
            node = node.this
        parts = [*(str(each.name) for each in node.parts), *parts]
        if len(parts) == 1:
            return (parts[0],)
        if parts[0] in self.tables:
            return tuple(parts[1:])
        table = self.tables[0] if self.tables else "the table"
        raise self.text.refused(
            node,
            f"{'.'.join(parts)} is no column of {table}; a field of one stands behind the table: {table}.column.field",
        )


def of_subquery(text: Text, node: Any, alias: str) -> tuple[Source, Any]:
    """Return what a subquery that only projects and filters makes of its table, and the table; reject all else."""
    select = node.this
    if not isinstance(select, exp.Select):
        raise text.refused(node, "a subquery in FROM is one SELECT, which computes columns and leaves out rows")
    for clause, found in select.args.items():
        if clause not in _READ and found:
            place = found[0] if isinstance(found, list) else found
            raise text.refused(
                place if text.knows(place) else select,
                f"a subquery in FROM computes columns and leaves out rows; it has no {_words(clause)}",
            )
    source = select.args.get("from_")
    if source is None:
        raise text.refused(select, "there is no FROM; name the table: FROM readings")
    inner, table = of_source(text, source.this)
    columns: dict[str, Expression] = {}
    whole = False
    for item in select.expressions:
        made = item.this if isinstance(item, exp.Alias) else item
        if isinstance(made, exp.Star) and not any(made.args.values()):
            columns, whole = {**inner.columns, **columns}, inner.whole
            continue
        meant = inner.expression(made)
        if not isinstance(item, exp.Alias) and not is_column(made):
            raise text.refused(item, f"{text.written(item)!r} needs a name: AS revenue")
        name = str(item.alias) if isinstance(item, exp.Alias) else str(made.name)
        if name in columns and (not whole or name not in inner.columns):
            raise text.refused(item, f"there are two columns {name}; call one of them otherwise with AS")
        columns[name] = meant
    where = select.args.get("where")
    if where is not None:
        inner.keep(where.this)
    return Source(text, (alias,) if alias else (), columns, whole, inner.where), table


def of_source(text: Text, node: Any) -> tuple[Source, Any]:
    """Return what stands in FROM, and the table in it."""
    if isinstance(node, exp.Subquery):
        return of_subquery(text, node, str(node.alias))
    names = (str(getattr(node, "alias", "")), str(node.name) if isinstance(node, exp.Table) else "")
    return Source(text, tuple(name for name in names if name)), node


def _words(clause: str) -> str:
    return {"group": "GROUP BY", "order": "ORDER BY", "with_": "WITH"}.get(clause, clause.rstrip("_").upper())
