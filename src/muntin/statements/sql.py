"""`muntin.sql`: a statement as a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muntin.aggregations.aggregation import Aggregation
from muntin.errors import InvalidArgumentError
from muntin.expressions import needs
from muntin.query.query import Query

if TYPE_CHECKING:
    from muntin.statements.selects import Meaning, Select


def sql(
    text: str,
    *,
    dialect: str | None = None,
    functions: Mapping[str, Callable[..., Aggregation]] | None = None,
    watermark: Any = 0,
    allowed_lateness: Any = 0,
    emit_empty: bool = False,
    idle_timeout: Any = None,
    emit_early: Any = None,
    ordered: bool = False,
) -> Query:
    """Return a SELECT as a query.

    Windows are Flink's table functions (`TUMBLE(TABLE t, DESCRIPTOR(ts), ...)`, HOP, CUMULATE, SESSION) and group
    windows, Spark's `window` and `session_window`, and `OVER (PARTITION BY ... ORDER BY ... RANGE BETWEEN ...)`.
    Functions are the aggregations of `agg`, by their names here and in SQL; `functions` are your own. They take
    expressions, and so do FILTER and WHERE; FROM takes a subquery that computes columns and leaves rows out. These
    become `columns` and `where` of the query. The key and the time come from the statement. The table name does not
    matter: `run`, `over`, `stream` and `spark` take the table.
    What a query cannot express raises an `SqlError` with its line and column.

    `dialect="spark"` reads "double quotes" as text and backslashes as Spark does; otherwise they quote names. All other
    options are those of `Query` that SQL cannot express.

    Needs `pip install muntin[sql]`. O(length).

    >>> import muntin
    >>> query = muntin.sql('''
    ...     SELECT plug, max(watts) AS peak
    ...     FROM readings
    ...     GROUP BY plug, HOP(ts, INTERVAL '1' MINUTE, INTERVAL '24' HOURS)
    ... ''', watermark="10 seconds")
    >>> query
    Query(window.sliding('24 hours', every='1 minute'), {'peak': agg.max('watts')}, key='plug', watermark='10 seconds')
    >>> muntin.sql("SELECT sum(v) AS total FROM t GROUP BY TUMBLE(ts, 60) LIMIT 5")
    Traceback (most recent call last):
    muntin.errors.SqlError: line 1, column 55: a query has no LIMIT: take the first windows of the answer afterwards
    """
    require_sqlglot()
    if not isinstance(text, str):
        raise InvalidArgumentError(f"the statement is {text!r}; give a text")
    from muntin.expressions.places import Text
    from muntin.statements.grammar import parsed
    from muntin.statements.selects import Select

    require_dialect(dialect)
    _require_functions(functions)
    written = Text(text)
    meant = _meaning(Select(written, parsed(written, dialect), functions or {}))
    return Query(
        meant.windows,
        meant.aggregates,
        key=meant.key,
        time=meant.time,
        watermark=watermark,
        allowed_lateness=allowed_lateness,
        emit_empty=emit_empty,
        idle_timeout=idle_timeout,
        emit_early=emit_early,
        ordered=ordered,
        columns=meant.columns,
        where=meant.where,
    )


def _meaning(select: Select) -> Meaning:
    """Return what a statement asks for: windows of OVER, or of GROUP BY."""
    from sqlglot import exp

    from muntin.statements.framed import Framed
    from muntin.statements.grouped import Grouped

    select.require_clauses()
    framed = any(node.find(exp.Window) is not None for _, node in select.items)
    found = Framed(select).meaning() if framed else Grouped(select).meaning()
    source = select.source
    computed = {name: str(each) for name, each in source.computed.items()}
    return replace(found, columns=computed, where=None if source.where is None else str(source.where))


def _require_functions(functions: Any) -> None:
    if functions is None:
        return
    if not isinstance(functions, Mapping):
        raise InvalidArgumentError(f"functions is {functions!r}; give names to them, such as {{'energy': energy}}")
    for name, make in functions.items():
        if not isinstance(name, str) or not callable(make) or isinstance(make, Aggregation):
            raise InvalidArgumentError(
                f"the function {name!r} is {make!r}; give an aggregation such as agg.max, not called"
            )


DIALECTS = ("flink", "spark")


def require_dialect(dialect: object) -> None:
    """Reject a dialect that is not known."""
    if dialect is not None and dialect not in DIALECTS:
        raise InvalidArgumentError(f"dialect is {dialect!r}; it is one of {', '.join(DIALECTS)}, or None")


def require_sqlglot() -> None:
    """Reject where the parser is not installed, or cannot be extended, and say what to do."""
    needs.require_sqlglot("SQL is read")
