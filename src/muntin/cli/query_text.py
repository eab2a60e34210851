"""The query of a command: a TOML file, a statement, or a file with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muntin.cli.query_file import QueryFileError, read_query
from muntin.durations import parse_duration
from muntin.errors import MuntinError, SqlError
from muntin.query import Query


def asked_for(query: Path | None, sql: str | None, watermark: str | None, allowed_lateness: str | None) -> Query:
    """Return the query of a command, from a file or --sql.

    >>> asked_for(None, "SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "10 seconds", None)
    Query(window.tumbling('1 hour'), {'n': agg.count()}, watermark='10 seconds')
    """
    if (query is None) == (sql is None):
        given = "both QUERY.toml and --sql" if sql is not None else "no query"
        raise QueryFileError(
            f"there is {given}; give QUERY.toml, or --sql with a statement or a file, such as query.sql"
        )
    durations = {"watermark": watermark, "allowed_lateness": allowed_lateness}
    options: dict[str, Any] = {name: _duration(name, value) for name, value in durations.items() if value is not None}
    if query is not None:
        if options:
            name = next(iter(options))
            raise QueryFileError(f"--{name.replace('_', '-')} is for --sql; {query} has the key {name}")
        return read_query(query)
    assert sql is not None
    return _read_sql(sql, options)


def _read_sql(given: str, options: dict[str, Any]) -> Query:
    from muntin.statements.sql import sql

    path = Path(given)
    if path.suffix.lower() != ".sql":
        return sql(given, **options)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise QueryFileError(f"{path} cannot be read: {reason}") from error
    try:
        return sql(text, **options)
    except SqlError as error:
        raise QueryFileError(f"{path}:{error.line}:{error.column}: {error.reason}") from error


def _duration(name: str, value: str) -> str | int:
    """Return a duration in words, or an integer in the unit of the time column."""
    if value.isdecimal():
        return int(value)
    try:
        parse_duration(value)
    except MuntinError as error:
        raise QueryFileError(f"--{name.replace('_', '-')}: {error}") from error
    return value
