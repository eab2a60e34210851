"""The one table of functions and operators: what each takes and gives, how Arrow computes it, what Spark is asked for.

What is not in it is refused where it stands in the text. An operation is a rule of types, which Spark SQL has as well
(`typed`), a function over Arrow's arrays (`arrow`), and a text for Spark (`spark`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow.compute as pc

from muntin.expressions import arrow, spark, typed
from muntin.expressions.typed import Rule

_ANY = 1000


def _never(node: Any, operands: Any) -> Any:  # noqa: ARG001
    raise AssertionError("invariant violated: the rule gives other operations for this one")


@dataclass(frozen=True)
class Operation:
    """A function or an operator. Where the rule gives others for it, it has no evaluation of its own."""

    written: str
    """How it is written, for errors and for the documentation."""
    gives: str
    rule: Rule
    evaluate: arrow.Evaluate = field(default=_never, repr=False)
    write: spark.Write = field(default=_never, repr=False)
    least: int = 1
    most: int = 1
    """How many arguments it takes."""
    compares: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    """The units that it knows, in all spellings, and what each stands for."""


def _kernel(function: Any) -> arrow.Evaluate:
    return lambda _, operands: function(*operands)


_two = partial(Operation, least=2, most=2)
_comparison = partial(
    _two, gives="a condition", rule=typed.comparison, evaluate=arrow.comparison, write=spark.infix, compares=True
)
_wrapping = partial(
    _two,
    gives="the wider type; decimals with more digits",
    rule=typed.arithmetic,
    evaluate=arrow.arithmetic,
    write=spark.arithmetic,
)
_condition = partial(Operation, gives="a condition", rule=typed.conditions)
_DATES = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "YEAR"),
    "YEAROFWEEK": "YEAROFWEEK",
    **dict.fromkeys(("QUARTER", "QTR"), "QUARTER"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "WEEK"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "DAY"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "DAYOFWEEK"),
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), "DAYOFWEEK_ISO"),
    "DOY": "DOY",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), "SECOND"),
}
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MM", "MON"), "MONTH"),
    "WEEK": "WEEK",
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{each: each for each in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}

OPERATORS: Mapping[str, Operation] = {
    "+": _wrapping("a + b"),
    "-": _wrapping("a - b"),
    "*": _wrapping("a * b"),
    "/": _two(
        "a / b", "DOUBLE, or a decimal of decimals; null where b is 0", typed.division, arrow.division, spark.division
    ),
    "%": _two("a % b", "the wider type; null where b is 0", typed.arithmetic, arrow.remainder, spark.remainder),
    "DIV": _two(
        "a DIV b", "BIGINT; null where b is 0", typed.whole_division, arrow.whole_division, spark.whole_division
    ),
    "NEGATE": Operation("-a", "the type of a", typed.one_number, arrow.negative, spark.negative),
    "=": _comparison("a = b"),
    "!=": _two("a != b, a <> b", "a condition", typed.unequal, compares=True),
    "<": _comparison("a < b"),
    "<=": _comparison("a <= b"),
    ">": _comparison("a > b"),
    ">=": _comparison("a >= b"),
    "<=>": _two(
        "a <=> b, a IS NOT DISTINCT FROM b",
        "a condition, never null",
        typed.comparison,
        arrow.same,
        spark.infix,
        compares=True,
    ),
    "AND": _condition("a AND b", evaluate=_kernel(pc.and_kleene), write=spark.infix, least=2, most=2),
    "OR": _condition("a OR b", evaluate=_kernel(pc.or_kleene), write=spark.infix, least=2, most=2),
    "NOT": _condition("NOT a", evaluate=_kernel(pc.invert), write=spark.negation),
    "IS NULL": Operation(
        "a IS NULL, a IS NOT NULL", "a condition, never null", typed.is_null, arrow.is_null, spark.behind
    ),
    "IS TRUE": _condition("a IS TRUE", evaluate=arrow.is_true, write=spark.behind),
    "IS FALSE": _condition("a IS FALSE", evaluate=arrow.is_false, write=spark.behind),
    "IN": Operation("a IN (b, c)", "a condition", typed.membership, arrow.membership, spark.membership, 2, _ANY),
    "BETWEEN": Operation("a BETWEEN b AND c", "a condition", typed.between, least=3, most=3),
    "LIKE": _two("a LIKE 'b%' ESCAPE '#'", "a condition", typed.like, arrow.like, spark.like),
}
"""Operators, by the names that they have in a tree."""

FUNCTIONS: Mapping[str, Operation] = {
    "CASE": Operation(
        "CASE WHEN a THEN b ELSE c END",
        "the type that the values have in common",
        typed.case,
        arrow.case,
        spark.case,
        2,
        _ANY,
    ),
    "COALESCE": Operation(
        "COALESCE(a, b)", "the type that all have in common", typed.first_of, _kernel(pc.coalesce), spark.call, 1, _ANY
    ),
    "CAST": Operation(
        "CAST(a AS type)", "that type; null where it has no such value", typed.casting, arrow.cast, spark.cast
    ),
    "ABS": Operation("ABS(a)", "the type of a", typed.one_number, arrow.absolute, spark.absolute),
    "ROUND": Operation(
        "ROUND(a), ROUND(a, digits)", "the type of a, half up", typed.rounding, arrow.rounded, spark.rounded, 1, 2
    ),
    "FLOOR": Operation("FLOOR(a)", "BIGINT, or a decimal", typed.floor, arrow.floor, spark.floor),
    "LOWER": Operation("LOWER(a)", "STRING", typed.text, arrow.lower, spark.call),
    "UPPER": Operation("UPPER(a)", "STRING", typed.text, arrow.upper, spark.call),
    "LENGTH": Operation("LENGTH(a)", "INT: characters", typed.length, arrow.length, spark.call),
    "SUBSTRING": Operation("SUBSTRING(a, from, length)", "STRING", typed.substring, arrow.substring, spark.call, 2, 3),
    "CONCAT": Operation(
        "CONCAT(a, b), a || b", "STRING; null if one of them is", typed.text, arrow.concatenation, spark.call, 1, _ANY
    ),
    "EXTRACT": Operation(
        "EXTRACT(unit FROM a)", "INT; of SECOND a decimal", typed.extract, arrow.extract, spark.extract, words=_DATES
    ),
    "DATE_TRUNC": Operation(
        "DATE_TRUNC('unit', a)", "TIMESTAMP", typed.truncation, arrow.truncation, spark.truncation, words=_UNITS
    ),
}
"""Functions, by their names."""


def operation(name: str) -> Operation:
    """Return a function or an operator by its name in a tree. O(1)."""
    return FUNCTIONS[name] if name in FUNCTIONS else OPERATORS[name]
