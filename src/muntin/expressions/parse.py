"""sqlglot's tree as ours: what is no expression over the columns of a row is refused, at its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from sqlglot import exp

from muntin.errors import SqlError
from muntin.expressions import types
from muntin.expressions.functions import FUNCTIONS, OPERATORS
from muntin.expressions.grammar import parsed_expression
from muntin.expressions.instants import date_of, instant_of
from muntin.expressions.places import Text
from muntin.expressions.tree import Call, Expression, Name, Value, text_literal
from muntin.suggestions import hint

_BINARY: dict[Any, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
    exp.And: "AND",
    exp.Or: "OR",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_PREDICATES = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In)
_LOOSE = (*_PREDICATES, exp.Between, exp.Like, exp.Escape, exp.Not, exp.And, exp.Or)
"""What stands in parentheses where it is an operand of a comparison: readers, and dialects, group it in two ways."""
_SUFFIXES = {"L": types.INT64, "S": types.INT16, "Y": types.INT8, "D": types.DOUBLE, "F": types.FLOAT, "BD": None}
_NUMBER = re.compile(r"(\d*\.?\d*(?:[eE][+-]?\d+)?)(L|S|Y|D|F|BD)?", re.IGNORECASE)
_RANGES = {types.INT8: 7, types.INT16: 15, types.INT32: 31, types.INT64: 63}
_SYNONYMS = {"SUBSTR": "SUBSTRING", "CHAR_LENGTH": "LENGTH", "CHARACTER_LENGTH": "LENGTH", "LCASE": "LOWER"}
_SYNONYMS |= {"UCASE": "UPPER", "MOD": "%"}


@lru_cache(maxsize=256)
def parse(text: str, where: str) -> Expression:
    """Return the expression of a text; `where` says in errors what it is. O(length).

    >>> str(parse("price*pieces > 10 and not (country = 'DE')", "where"))
    "price * pieces > 10 AND NOT country = 'DE'"
    """
    written = Text(text, where)
    return Reader(written).expression(parsed_expression(written))


class Reader:
    """Reads expressions of one text. `own` reads what a column is; by default any name is one."""

    def __init__(self, text: Text, path: Callable[[Any], tuple[str, ...]] | None = None) -> None:
        self._text = text
        self._path = path or _path

    def expression(self, node: Any) -> Expression:
        """Return a part of sqlglot's tree as an expression; reject what is none."""
        if isinstance(node, exp.Paren):
            return self.expression(node.this)
        kind = type(node)
        if kind in _BINARY:
            return self._binary(node, _BINARY[kind])
        read = _READ.get(kind)
        if read is None:
            raise self._unknown(node)
        found: Expression = read(self, node)
        return Call("NOT", (found,), start=found.start) if node.args.get("negate") is True else found

    def _unknown(self, node: Any) -> SqlError:
        return self._text.refused(
            node,
            f"{self._text.written(node) or node.key.upper()!r} cannot be computed: there are columns, values, "
            f"arithmetic, comparisons, AND, OR, NOT, and {', '.join(FUNCTIONS)}",
        )

    def _at(self, node: Any) -> int:
        return self._text.start(node)

    def _binary(self, node: Any, name: str) -> Expression:
        if name in OPERATORS and OPERATORS[name].compares:
            self._require_grouped(node, (node.this, node.expression))
        if node.this is None or node.expression is None:
            raise self._text.refused(node, f"{name} stands between two operands")
        operands = (self.expression(node.this), self.expression(node.expression))
        return Call(name, operands, start=operands[0].start)

    def _require_grouped(self, node: Any, operands: tuple[Any, ...]) -> None:
        """Reject a comparison of comparisons without parentheses, which Spark may group otherwise."""
        for operand in operands:
            each = operand
            while isinstance(each, exp.Paren) and not self._text.opens(each):
                each = each.this
            if isinstance(each, _LOOSE):
                raise self._text.refused(
                    each, f"put {self._text.written(each)!r} in parentheses: it is an operand of a comparison"
                )

    # ------------------------------------------------------------ columns and values

    def _name(self, node: Any) -> Expression:
        return Name(self._path(node), start=self._at(node))

    def _literal(self, node: Any) -> Expression:
        if node.is_string:
            return Value(str(node.this), types.TEXT, text_literal(str(node.this)), start=self._at(node))
        return self._number(node, "", self._at(node))

    def _number(self, node: Any, sign: str, start: int) -> Value:
        """Return a number as Spark reads it: an INT, a BIGINT if it must, a DECIMAL with a point, DOUBLE with an E."""
        found = _NUMBER.fullmatch(str(node.this))
        if found is None or not any(each.isdigit() for each in found[1]):
            raise self._text.refused(node, f"{node.this!r} is no number that Spark's SQL has")
        digits, suffix = found[1], (found[2] or "").upper()
        text = f"{sign}{digits}{suffix}"
        if suffix in ("D", "F") or (not suffix and "e" in digits.lower()):
            return Value(float(sign + digits), types.FLOAT if suffix == "F" else types.DOUBLE, text, start=start)
        if suffix in ("L", "S", "Y") and not digits.isdecimal():
            raise self._text.refused(node, f"{text} is no integer; leave {suffix} out")
        if suffix == "BD" or not digits.isdecimal():
            return self._decimal(node, Decimal(sign + digits), text, start)
        value = int(sign + digits)
        asked = [_SUFFIXES[suffix]] if suffix else [types.INT32, types.INT64]
        for kind in asked:
            if -(1 << _RANGES[kind]) <= value < 1 << _RANGES[kind]:
                return Value(value, kind, text, start=start)
        if suffix:
            raise self._text.refused(node, f"{text} does not fit {types.name_of(asked[0])}")
        return self._decimal(node, Decimal(value), text, start)

    def _decimal(self, node: Any, value: Decimal, text: str, start: int) -> Value:
        _, digits, exponent = value.as_tuple()
        scale = max(0, -int(exponent))
        precision = max(len(digits) + max(0, int(exponent)), scale)
        if precision > types.MOST_DIGITS:
            raise self._text.refused(
                node, f"{text} has more than {types.MOST_DIGITS} digits; write it with an E or a D"
            )
        return Value(value, pa.decimal128(precision, scale), text, start=start)

    def _time(self, node: Any) -> Expression:
        """Return DATE '...' or TIMESTAMP '...'."""
        kind = str(getattr(node.to.this, "name", ""))
        if not isinstance(node.this, exp.Literal) or not node.this.is_string:
            raise self._unknown(node)
        value = str(node.this.this)
        if kind == "DATE":
            found: Any = date_of(value)
            arrow = types.DATE
        elif kind in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"):
            arrow = types.LOCAL if kind == "TIMESTAMPNTZ" else types.INSTANT
            found = instant_of(value)
        else:
            raise self._unknown(node)
        if found is None:
            raise self._text.refused(
                node, f"{value!r} is no {types.name_of(arrow)}; write it like {_EXAMPLES[kind[:4]]}"
            )
        name = types.name_of(arrow)
        return Value(found, arrow, f"{name} {text_literal(value)}", start=self._at(node))

    def _boolean(self, node: Any) -> Expression:
        return Value(bool(node.this), types.BOOL, "TRUE" if node.this else "FALSE", start=self._at(node))

    def _null(self, node: Any) -> Expression:
        return Value(None, types.NULL, "NULL", start=self._at(node))

    # ------------------------------------------------------------ operators

    def _negative(self, node: Any) -> Expression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._number(node.this, "-", self._at(node))
        return Call("NEGATE", (self.expression(node.this),), start=self._at(node))

    def _not(self, node: Any) -> Expression:
        return Call("NOT", (self.expression(node.this),), start=self._at(node))

    def _distinct(self, node: Any) -> Expression:
        return Call("NOT", (self._binary(node, "<=>"),), start=self._at(node))

    def _is(self, node: Any) -> Expression:
        self._require_grouped(node, (node.this,))
        what = node.expression
        value = self.expression(node.this)
        if isinstance(what, exp.Null):
            return Call("IS NULL", (value,), start=value.start)
        if isinstance(what, exp.Boolean):
            return Call("IS TRUE" if what.this else "IS FALSE", (value,), start=value.start)
        raise self._unknown(node)

    def _in(self, node: Any) -> Expression:
        given = node.args.get("expressions")
        if not given or node.args.get("query") is not None:
            raise self._text.refused(node, "IN is followed by a list of values in parentheses")
        self._require_grouped(node, (node.this,))
        value = self.expression(node.this)
        return Call("IN", (value, *map(self.expression, given)), start=value.start)

    def _between(self, node: Any) -> Expression:
        if node.args.get("symmetric"):
            raise self._text.refused(node, "Spark has no BETWEEN SYMMETRIC")
        operands = (node.this, node.args["low"], node.args["high"])
        self._require_grouped(node, operands)
        found = tuple(map(self.expression, operands))
        return Call("BETWEEN", found, start=found[0].start)

    def _like(self, node: Any, escape: str = "") -> Expression:
        self._require_grouped(node, (node.this, node.expression))
        found = (self.expression(node.this), self.expression(node.expression))
        return Call("LIKE", found, escape, start=found[0].start)

    def _escape(self, node: Any) -> Expression:
        sign = node.expression
        if not isinstance(node.this, exp.Like) or not isinstance(sign, exp.Literal) or len(str(sign.this)) != 1:
            raise self._text.refused(node, "ESCAPE gives one character, behind LIKE and its pattern")
        found = self._like(node.this, str(sign.this))
        return Call("NOT", (found,), start=found.start) if node.this.args.get("negate") is True else found

    def _case(self, node: Any) -> Expression:
        subject = node.this
        arguments: list[Expression] = []
        for each in node.args["ifs"]:
            condition = self.expression(each.this)
            if subject is not None:
                asked = self.expression(subject)
                condition = Call("=", (asked, condition), start=condition.start)
            arguments += [condition, self.expression(each.args["true"])]
        if not arguments:
            raise self._text.refused(node, "CASE has at least one WHEN ... THEN")
        default = node.args.get("default")
        arguments += [] if default is None else [self.expression(default)]
        return Call("CASE", tuple(arguments), start=self._at(node))

    def _joined(self, node: Any) -> Expression:
        for each in (node.this, node.expression):
            if isinstance(each, (exp.Add, exp.Sub)):
                raise self._text.refused(each, "put sums in parentheses beside ||")
        found = (self.expression(node.this), self.expression(node.expression))
        return Call("CONCAT", found, start=found[0].start)

    # ------------------------------------------------------------ functions

    def _function(self, node: Any) -> Expression:
        name = str(node.name).upper()
        name = _SYNONYMS.get(name, name)
        start = self._at(node)
        given = list(node.expressions)
        if name in ("CAST", "EXTRACT"):
            return Call(name, (self.expression(given[0]),), self._word(name, given[1]), start=start)
        if name == "DATE_TRUNC" and len(given) == 2:
            if not isinstance(given[0], exp.Literal) or not given[0].is_string:
                raise self._text.refused(given[0], "the unit of DATE_TRUNC is a text, such as 'HOUR'")
            return Call(name, (self.expression(given[1]),), self._word(name, given[0]), start=start)
        if name == "%" and len(given) == 2:
            return Call(name, tuple(map(self.expression, given)), start=start)
        if name not in FUNCTIONS:
            raise self._text.refused(
                node, f"there is no function {node.name}{hint(name, FUNCTIONS)}; there are {', '.join(FUNCTIONS)}"
            )
        function = FUNCTIONS[name]
        if not function.least <= len(given) <= function.most:
            raise self._text.refused(node, f"{name} is written {function.written}; it got {len(given)} arguments")
        return Call(name, tuple(map(self.expression, given)), start=start)

    def _word(self, name: str, node: Any) -> str:
        """Return the word that a function takes, in the form in which it is known; reject others."""
        word = str(node.this)
        if name == "CAST":
            kind = types.type_named(word)
            if kind is None:
                known = ", ".join((*types.TYPE_NAMES, "TIMESTAMP", "TIMESTAMP_NTZ"))
                raise self._text.refused(node, f"there is no type {word!r} for CAST; there are {known}")
            return types.name_of(kind)
        units = FUNCTIONS[name].words
        found = units.get(word.upper())
        if found is None:
            raise self._text.refused(
                node, f"there is no unit {word!r} for {name}; there are {', '.join(dict.fromkeys(units.values()))}"
            )
        return found


_EXAMPLES = {"DATE": "DATE '2024-03-01'", "TIME": "TIMESTAMP '2024-03-01 12:30:00'"}
_READ: dict[Any, Callable[[Reader, Any], Expression]] = {
    exp.Column: Reader._name,
    exp.Dot: Reader._name,
    exp.Literal: Reader._literal,
    exp.Boolean: Reader._boolean,
    exp.Null: Reader._null,
    exp.Cast: Reader._time,
    exp.Neg: Reader._negative,
    exp.Not: Reader._not,
    exp.NullSafeNEQ: Reader._distinct,
    exp.Is: Reader._is,
    exp.In: Reader._in,
    exp.Between: Reader._between,
    exp.Like: Reader._like,
    exp.Escape: Reader._escape,
    exp.Case: Reader._case,
    exp.DPipe: Reader._joined,
    exp.Anonymous: Reader._function,
}


def _path(node: Any) -> tuple[str, ...]:
    """Return the names of a column and of its fields; None of a part that is neither makes an error of the caller."""
    if isinstance(node, exp.Dot):
        return (*_path(node.this), str(node.name))
    return tuple(str(each.name) for each in node.parts)
