"""The parts of an expression, before types are known, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_KEYWORDS = """
    ALL ALTER AND ANY AS BETWEEN BY CALL CASE CAST CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER DATE DISTINCT DIV DROP ELSE END ESCAPE EXCEPT EXECUTE EXISTS EXPLAIN EXTRACT FALSE FETCH FOR FROM
    GLOB GRANT GROUP HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS ISNULL JOIN LATERAL LIKE LIMIT NOT
    NOTNULL NULL ON OPTIMIZE OR ORDER OUTER OVER PARTITIONED_BY PREPARE QUALIFY REGEXP RENAME RETURNING REVOKE RLIKE
    ROLLBACK SELECT SET SHOW SIMILAR SOME TABLE TABLESAMPLE THEN TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TRUE TRY_CAST
    UNCACHE UNION USING VACUUM VALUES WHEN WHERE WINDOW WITH XOR
"""
_RESERVED = frozenset(_KEYWORDS.split())
"""Words that are names only in backticks. What is written is in states of streams, so that none is taken out."""
BINDING = {
    "OR": 1,
    "AND": 2,
    "NOT": 3,
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "<=>", "IN", "LIKE", "BETWEEN", "IS"), 4),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
    "DIV": 6,
    "NEGATE": 7,
}
"""How tightly operators bind: an operand that binds as loosely, or more so, gets parentheses."""
_TIGHTEST = 8


@dataclass(frozen=True)
class Expression:
    """A part of an expression; `start` is where it begins in its text."""

    start: int = field(default=0, compare=False, kw_only=True)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The parts that this one is made of."""
        return ()

    @property
    def binding(self) -> int:
        """How tightly it binds."""
        return _TIGHTEST

    def names(self) -> Iterator[Name]:
        """Yield the columns in it."""
        for each in self.parts:
            yield from each.names()


@dataclass(frozen=True)
class Name(Expression):
    """A column, or a field of one that holds structs."""

    path: tuple[str, ...]

    def names(self) -> Iterator[Name]:
        """Yield itself."""
        yield self

    def __str__(self) -> str:
        """Return it as it stands in SQL."""
        return ".".join(map(quoted, self.path))


@dataclass(frozen=True)
class Value(Expression):
    """A value that stands in the text, with Spark's type of it."""

    value: Any
    type: pa.DataType
    text: str
    """How it is written."""

    @property
    def binding(self) -> int:
        """How tightly it binds: -5 as the minus of its operand."""
        return BINDING["NEGATE"] if self.text.startswith("-") else _TIGHTEST

    def __str__(self) -> str:
        """Return it as it stands in SQL."""
        return self.text


@dataclass(frozen=True)
class Call(Expression):
    """A function or an operator, by its name in the table of functions, with its arguments."""

    name: str
    arguments: tuple[Expression, ...]
    word: str = ""
    """What is no expression: the type of CAST, the unit of EXTRACT and DATE_TRUNC."""

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    @property
    def binding(self) -> int:
        """How tightly it binds."""
        return BINDING.get(self.name.partition(" ")[0], _TIGHTEST)

    def __str__(self) -> str:
        """Return it as it stands in SQL, with no more parentheses than it needs."""
        write: Callable[[Call], str] = _WRITTEN.get(self.name, _call)
        return write(self)


def _call(call: Call) -> str:
    return f"{call.name}({', '.join(map(str, call.arguments))})"


def _operand(part: Expression, binding: int) -> str:
    return str(part) if part.binding > binding else f"({part})"


def _infix(call: Call) -> str:
    """Write an operator between two operands; what binds alike is grouped from the left."""
    left, right = call.arguments
    grouped = call.binding - 1 if call.name in ("AND", "OR", "+", "-", "*", "/", "%", "DIV") else call.binding
    return f"{_operand(left, grouped)} {call.name} {_operand(right, call.binding)}"


def _before(word: str) -> Any:
    return lambda call: f"{word}{_operand(call.arguments[0], call.binding)}"


def _behind(word: str) -> Any:
    return lambda call: f"{_operand(call.arguments[0], call.binding)} {word}"


def _in(call: Call) -> str:
    first, *rest = call.arguments
    return f"{_operand(first, call.binding)} IN ({', '.join(map(str, rest))})"


def _between(call: Call) -> str:
    value, low, high = (_operand(each, call.binding) for each in call.arguments)
    return f"{value} BETWEEN {low} AND {high}"


def _like(call: Call) -> str:
    escape = f" ESCAPE {text_literal(call.word)}" if call.word else ""
    return f"{_infix(call)}{escape}"


def _case(call: Call) -> str:
    """Write CASE; its arguments are conditions and values in turn, and then the value of ELSE if there is one."""
    *pairs, last = (*call.arguments, None) if len(call.arguments) % 2 == 0 else call.arguments
    whens = "".join(f" WHEN {pairs[i]} THEN {pairs[i + 1]}" for i in range(0, len(pairs), 2))
    return f"CASE{whens}{'' if last is None else f' ELSE {last}'} END"


_WRITTEN: dict[str, Any] = {
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "<=>", "AND", "OR", "+", "-", "*", "/", "%", "DIV"), _infix),
    "NOT": _before("NOT "),
    "NEGATE": _before("-"),
    "IS NULL": _behind("IS NULL"),
    "IS TRUE": _behind("IS TRUE"),
    "IS FALSE": _behind("IS FALSE"),
    "IN": _in,
    "BETWEEN": _between,
    "LIKE": _like,
    "CASE": _case,
    "CAST": lambda call: f"CAST({call.arguments[0]} AS {call.word})",
    "EXTRACT": lambda call: f"EXTRACT({call.word} FROM {call.arguments[0]})",
    "DATE_TRUNC": lambda call: f"DATE_TRUNC('{call.word}', {call.arguments[0]})",
}


def quoted(name: str) -> str:
    """Return a name as it stands in SQL, in backticks where it must.

    >>> quoted("price"), quoted("unit price"), quoted("end"), quoted("a`b")
    ('price', '`unit price`', '`end`', '`a``b`')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    r"""Return a text as it stands in Spark's SQL.

    >>> print(text_literal("it's 5\\6"))
    'it\'s 5\\6'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def renamed(part: Expression, known: dict[str, Expression]) -> Expression:
    """Return an expression with names replaced by what they stand for; a field of what is no column stays a name.

    >>> price = Name(("price",))
    >>> str(renamed(Call("*", (price, Name(("n",)))), {"n": Call("+", (price, price))}))
    'price * (price + price)'
    """
    if isinstance(part, Name):
        found = known.get(part.path[0])
        if found is None:
            return part
        if len(part.path) == 1:
            return found
        return Name((*found.path, *part.path[1:]), start=part.start) if isinstance(found, Name) else part
    if isinstance(part, Call):
        return Call(part.name, tuple(renamed(each, known) for each in part.arguments), part.word, start=part.start)
    return part
