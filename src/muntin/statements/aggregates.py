"""Calls of functions as aggregations: `max(watts)`, `count(DISTINCT plug)`, `quantile(v, 0.9) FILTER (WHERE ok)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin import aggregations
from muntin.aggregations.aggregation import Aggregation
from muntin.errors import MuntinError
from muntin.expressions.places import Text
from muntin.statements.columns import Columns, is_column
from muntin.statements.functions import Function, Make
from muntin.statements.intervals import duration_of
from muntin.suggestions import AGGREGATIONS, hint

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls)


@dataclass(frozen=True)
class Aggregates:
    """Reads aggregations. `functions` are those that can be called, `own` the names of the user's among them."""

    text: Text
    columns: Columns
    functions: Mapping[str, Function]
    own: frozenset[str]

    def aggregation(self, node: Any) -> Aggregation:
        """Return the aggregation that a part of the statement is; reject what is none."""
        call = call_of(node)
        where, order = None, None
        while node is not call:
            if isinstance(node, exp.Filter):
                where = self._flag(node.expression.this)
            elif isinstance(node, exp.WithinGroup):
                order = node.expression
            node = node.this
        if isinstance(call, exp.RespectNulls):
            raise self.text.refused(call, "RESPECT NULLS: every aggregation skips nulls, but count(*)")
        if not isinstance(call, exp.Anonymous):
            raise self.text.refused(
                call, f"{self.text.written(call)!r} is no column and no aggregation; compute it before or afterwards"
            )
        name = str(call.name).lower()
        if name in self.own:
            return self._plain(call, name, where)
        if order is not None or name == "percentile_cont":
            return self._within_group(call, name, order, where)
        if name == "count_if":
            return self._made(call, aggregations.count, [], {"where": self._one_flag(call, where)})
        if name == "count":
            return self._count(call, where)
        return self._plain(call, name, where)

    # ------------------------------------------------------------ functions that are written in their own way

    def _count(self, call: Any, where: str | None) -> Aggregation:
        given = call.expressions
        if len(given) == 1 and isinstance(given[0], exp.Distinct):
            distinct = given[0].expressions
            if len(distinct) != 1:
                raise self.text.refused((distinct or [call])[-1], "COUNT(DISTINCT ...) takes one column")
            column = self._column(distinct[0], "count")
            return self._made(call, aggregations.count_distinct, [column], {"where": where})
        if len(given) > 1 and not any(isinstance(each, exp.Kwarg) for each in given):
            raise self.text.refused(given[1], "COUNT takes one column or *")
        every_row = len(given) == 1 and (isinstance(given[0], exp.Star | exp.Literal) or _is_number(given[0]))
        if every_row:
            return self._made(call, aggregations.count, [], {"where": where})
        return self._plain(call, "count", where)

    def _one_flag(self, call: Any, where: str | None) -> str:
        if len(call.expressions) != 1 or where is not None:
            raise self.text.refused(call, "count_if takes one boolean column, and no FILTER")
        return self._flag(call.expressions[0])

    def _within_group(self, call: Any, name: str, order: Any, where: str | None) -> Aggregation:
        if name == "mode" and not call.expressions and len(order.expressions) == 1:
            return self._made(
                call, aggregations.mode, [self._column(order.expressions[0].this, name)], {"where": where}
            )
        if name != "percentile_cont":
            raise self.text.refused(order, f"WITHIN GROUP is for PERCENTILE_CONT and MODE, and this is {call.name}")
        if order is None or len(call.expressions) != 1 or len(order.expressions) != 1:
            raise self.text.refused(call, "write PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY v)")
        by = order.expressions[0]
        if by.args.get("desc"):
            raise self.text.refused(by, "PERCENTILE_CONT ... ORDER BY ... DESC: give 1 less the fraction, and no DESC")
        fraction = self._literal(call.expressions[0], "percentile_cont")
        column = self._column(by.this, "percentile_cont")
        return self._made(call, aggregations.quantile, [column, fraction], {"where": where})

    # ------------------------------------------------------------ arguments

    def _plain(self, call: Any, name: str, where: str | None) -> Aggregation:
        """Return the aggregation of a function whose arguments are columns and parameters, by position and by name."""
        if name not in self.functions:
            raise self.text.refused(
                call, f"there is no aggregation {call.name}{hint(name, self.functions, AGGREGATIONS)}"
            )
        function = self.functions[name]
        positional: list[Any] = []
        named: dict[str, Any] = {} if where is None else {"where": where}
        for place, each in enumerate(call.expressions):
            if isinstance(each, exp.Kwarg):
                word = function.parameter(each.name)
                if word == "where":
                    raise self.text.refused(each, "write FILTER (WHERE column) after the function instead of where")
                if word in named:
                    raise self.text.refused(each, f"{call.name} got {word} twice")
                named[word] = self._literal(each.expression, name)
                continue
            if len(positional) < place:
                raise self.text.refused(each, "arguments with a name stand behind those without one")
            column = is_column(each) if function.columns is None else place < function.columns
            positional.append(self._column(each, name) if column else self._literal(each, name))
        if function.takes is not None and len(positional) != function.takes[0]:
            raise self.text.refused(call, f"{call.name} takes {function.takes[1]} here")
        return self._made(call, function.make, positional[::-1] if function.swapped else positional, named)

    def _column(self, node: Any, name: str) -> str:
        if isinstance(node, exp.IgnoreNulls):
            node = node.this
        if isinstance(node, exp.Distinct):
            raise self.text.refused(node, f"{name} has no DISTINCT; COUNT and collect_distinct have")
        if isinstance(node, exp.Order):
            raise self.text.refused(node.expressions[0], f"{name} takes rows in the order of their times, and no other")
        return self.columns.expression(node)

    def _literal(self, node: Any, name: str) -> Any:
        """Return a parameter: a number, a text, true or false, a duration, or an array of these."""
        if isinstance(node, exp.Array) or (isinstance(node, exp.Anonymous) and str(node.name).lower() == "array"):
            return [self._literal(each, name) for each in node.expressions]
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else _number(str(node.this))
        if isinstance(node, exp.Neg) and _is_number(node.this):
            return -_number(str(node.this.this))
        if isinstance(node, exp.Interval):
            return duration_of(node, self.text)
        raise self.text.refused(
            node, f"a parameter of {name} is a number or a text, and {self.text.written(node)!r} is none"
        )

    def _flag(self, node: Any) -> str:
        """Return the boolean column of a condition: of `flag`, `flag IS TRUE` and `flag = TRUE` it is flag itself."""
        column = node
        if isinstance(node, exp.Is | exp.EQ) and isinstance(node.expression, exp.Boolean) and node.expression.this:
            column = node.this
        return self.columns.expression(column if is_column(column) else node)

    def _made(self, call: Any, make: Make, positional: list[Any], named: dict[str, Any]) -> Aggregation:
        try:
            made = make(*positional, **named)
        except (MuntinError, TypeError) as error:
            raise self.text.refused(call, str(error)) from error
        if not isinstance(made, Aggregation):
            raise self.text.refused(call, f"{call.name} gives {made!r}, which is no aggregation")
        return made


def call_of(node: Any) -> Any:
    """Return the call of a function without what stands around it: FILTER, WITHIN GROUP, IGNORE NULLS."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def _is_number(node: Any) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _number(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)
