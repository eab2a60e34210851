"""Durations in SQL: `INTERVAL '10' MINUTES`, `'10 minutes'`, and integers in the unit of the time column."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from muntin.durations import NANOSECONDS, UNIT_OF, in_any_unit, is_unitless
from muntin.errors import InvalidArgumentError
from muntin.expressions.places import Text

_UNITS = ("day", "hour", "minute", "second")
"""Of what an interval such as '1 02:03:04' DAY TO SECOND has parts, in their order."""
_TWO_DIGITS = 99
_LENGTHS = {unit: length for unit, length in reversed(NANOSECONDS.items()) if unit != "week"}
_PARTS = {"day": r"(\d+)", "hour": r"(\d+)", "minute": r"(\d+)", "second": r"(\d+(?:\.\d+)?)"}
_LIMITS = {"hour": 24, "minute": 60, "second": 60}
"""Below what a part is that stands after a longer one."""


def duration_of(node: Any, text: Text) -> Any:
    """Return a duration as windows take it: words, or an integer; reject what is none. O(length).

    >>> from muntin.statements.grammar import parsed
    >>> text = Text("SELECT INTERVAL '90' SECONDS, '1h', 10, INTERVAL '1:30' HOUR TO MINUTE")
    >>> [duration_of(each, text) for each in parsed(text, None).expressions]
    ['90 seconds', '1h', 10, '1 hour 30 minutes']
    """
    negative = isinstance(node, exp.Neg)
    found = _magnitude(node.this if negative else node, text)
    try:
        size = in_any_unit(found, "the interval")
    except InvalidArgumentError as error:
        raise text.refused(node, str(error)) from error
    if not negative:
        return found
    return -found if is_unitless(found) else in_words(-size)


def _magnitude(node: Any, text: Text) -> Any:
    if isinstance(node, exp.Paren):
        return duration_of(node.this, text)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return str(node.this)
        if str(node.this).isdecimal():
            return int(node.this)
    if isinstance(node, exp.Add):  # INTERVAL 1 HOUR 30 MINUTES
        return f"{duration_of(node.this, text)} {duration_of(node.expression, text)}"
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        return _interval(node, text)
    raise text.refused(
        node, f"{text.written(node)} is no fixed duration; write one such as INTERVAL '10' MINUTES, '10 minutes' or 600"
    )


def _interval(node: Any, text: Text) -> str:
    amount, unit = str(node.this.this), node.args.get("unit")
    if unit is None:
        return amount
    if isinstance(unit, exp.IntervalSpan):
        return _between_units(node, amount, unit.this.name.lower(), unit.expression.name.lower(), text)
    word = unit.name.lower()
    return _counted(amount.strip(), UNIT_OF.get(word, word))


def _between_units(node: Any, amount: str, first: str, last: str, text: Text) -> str:
    """Return the words of an interval such as '1:30' HOUR TO MINUTE."""
    units = _UNITS[_UNITS.index(first) : _UNITS.index(last) + 1] if first in _UNITS and last in _UNITS else ()
    form = ":".join(_PARTS[unit] for unit in units)
    form = form.replace(":", " ", 1) if first == "day" else form
    found = re.fullmatch(rf"([+-]?){form}", amount.strip()) if units else None
    if found is None or any(
        float(part) >= _LIMITS[unit] for part, unit in zip(found.groups()[2:], units[1:], strict=True)
    ):
        raise text.refused(
            node, f"{amount!r} is no interval from {first} to {last}; write it like '1:30' HOUR TO MINUTE"
        )
    sign, *parts = found.groups()
    return " ".join(_counted(f"{sign.strip('+')}{part}", unit) for part, unit in zip(parts, units, strict=True))


def _counted(amount: str, unit: str) -> str:
    return f"{amount} {unit}" if amount in ("1", "-1") else f"{amount} {unit}s"


def in_words(nanoseconds: int) -> str:
    """Return a duration in words that windows take, in as few units as there are.

    >>> in_words(5_400_000_000_000), in_words(0), in_words(-60_000_000_000)
    ('1 hour 30 minutes', '0 seconds', '-1 minute')
    """
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    words = []
    for unit, length in _LENGTHS.items():
        count, rest = divmod(rest, length)
        if count:
            words.append(_counted(f"{sign}{count}", unit))
    return " ".join(words) or "0 seconds"


def less(longer: Any, shorter: Any) -> Any:
    """Return one duration less another: in words, or as an integer where both are. O(length).

    >>> less("1 hour", "10 minutes"), less(10, 4)
    ('50 minutes', 6)
    """
    span = in_any_unit(longer, "a bound") - in_any_unit(shorter, "a bound")
    return span if is_unitless(longer) else in_words(span)


def written(duration: Any, dialect: str | None) -> str:
    """Return a duration as SQL: an interval in the longest unit that holds it as a whole number, or an integer.

    >>> written("90 minutes", "spark"), written("24 hours", None), written("1 ms", "flink"), written(10, None)
    ("INTERVAL '90' MINUTE", "INTERVAL '1' DAY", "INTERVAL '0.001' SECOND", '10')
    >>> written("100 minutes", "flink")  # where more than two digits must be declared
    "INTERVAL '100' MINUTE(3)"
    """
    if is_unitless(duration):
        return str(duration)
    span = in_any_unit(duration, "the duration")
    unit = next((unit for unit in _UNITS if span % _LENGTHS[unit] == 0), "second")
    whole, rest = divmod(abs(span), _LENGTHS[unit])
    amount = f"{'-' if span < 0 else ''}{whole}" + (f".{rest:09}".rstrip("0") if rest else "")
    digits = f"({len(str(whole))})" if dialect == "flink" and whole > _TWO_DIGITS else ""
    return f"INTERVAL '{amount}' {unit.upper()}{digits}"


def quoted(duration: Any) -> str:
    """Return a duration as Spark's functions take it: as text, or an integer.

    >>> quoted("90 minutes"), quoted(10)
    ("'1 hour 30 minutes'", '10')
    """
    return str(duration) if is_unitless(duration) else f"'{in_words(in_any_unit(duration, 'the duration'))}'"
