"""The product's streams in the guise of the oracle's: rows in as dicts, windows out as `Result`s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from queries import oracle

from muntin import Query
from muntin.query.plan import Plan
from muntin.streams.plan import STRATEGIES, why_not
from muntin.types import INT64, column_type

FORCED = ("auto", *STRATEGIES)
"""The strategies that every transcript and every random query is played to, where they can answer."""

TYPES = {"mark": column_type(pa.bool_())}
"""The types of columns that are no integers."""


def answering(query: oracle.Query) -> list[str]:
    """Return the strategies that can answer some window of a query: the others refuse it."""
    plan = Plan(
        windows={},
        aggregates=query.aggregates,
        types={column: TYPES.get(column, INT64) for each in query.aggregates.values() for column in each.reads},
        time_type=query.time_type,
        lateness=query.lateness,
        partial=query.partial,
        emit_empty=query.emit_empty,
        early=query.emit_early is not None,
    )
    single = [replace(plan, windows={i: each}) for i, each in enumerate(query.resolved)]
    return ["oracle", "auto", *(name for name in STRATEGIES if any(why_not(name, each) is None for each in single))]


WORDS = ("windows", "aggregates", "key", "time", "watermark", "allowed_lateness", "partial", "emit_empty")
WORDS += ("idle_timeout", "emit_early")


def asked(query: oracle.Query) -> Query:
    """Return the oracle's query as the product's."""
    return Query(**{name: getattr(query, name) for name in WORDS})


def plain(value: Any) -> Any:
    """Return an Arrow value as the oracle has it: structs as tuples."""
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    return [plain(each) for each in value] if isinstance(value, list) else value


class Clock:
    """A clock that says what it is told."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Stream:
    """A stream of the product that is played to as the oracle is."""

    def __init__(
        self, query: oracle.Query, rows: Iterable[Mapping[str, Any]], clock: Any = None, *, strategy: str = "auto"
    ) -> None:
        self.query = query
        self.clock = clock
        self.strategy = strategy
        rows = list(rows)
        names = list(rows[0]) if rows else [query.time]
        kinds = {name: pa.array([row[name] for row in rows]).type for name in names}
        unknown = {"mark": pa.bool_(), "k": pa.string()}
        kinds = {name: unknown.get(name, pa.int64()) if kind == pa.null() else kind for name, kind in kinds.items()}
        self.schema = pa.schema({**kinds, query.time: query.time_type.logical})
        self.stream = asked(query).stream(strategy=strategy, clock=clock)

    def push(self, rows: list[dict[str, Any]]) -> list[oracle.Result]:
        return self.results(self.stream.push(self.table(rows)))

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Return rows as a table of the types that all of them need."""
        return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in self.schema})

    def advance(self, watermark: int) -> list[oracle.Result]:
        return self.results(self.stream.advance(watermark))

    def tick(self) -> list[oracle.Result]:
        return self.results(self.stream.tick())

    def close(self) -> list[oracle.Result]:
        return self.results(self.stream.close())

    def restart(self) -> None:
        """Go on from a snapshot."""
        self.stream = asked(self.query).stream(self.stream.snapshot(), strategy=self.strategy, clock=self.clock)

    @property
    def late(self) -> list[dict[str, Any]]:
        late = self.stream.late
        if not late.num_rows:
            return []
        times = {self.query.time: integers(late[self.query.time])}
        columns = {name: times.get(name) or late[name].to_pylist() for name in late.column_names}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def results(self, table: pa.Table) -> list[oracle.Result]:
        """Return the rows of an answer as the oracle writes them."""
        if not table.num_rows:
            return []
        windows = table["window"].combine_chunks()
        start, end = (integers(windows.field(name)) for name in ("start", "end"))
        return [self.result(row, start[i], end[i]) for i, row in enumerate(table.to_pylist())]

    def result(self, row: dict[str, Any], start: int, end: int) -> oracle.Result:
        span = row["window"]
        bounds = {}
        for name, low, high in (("rows", "from_row", "to_row"), ("values", "from_value", "to_value")):
            if span.get(low) is not None:
                bounds[name] = (span[low], span[high])
        if span.get("at") is not None:
            bounds["at"] = integers(pa.array([span["at"]], self.query.time_type.logical))[0]
        return oracle.Result(
            tuple(row[name] for name in self.query.key),
            row["window_id"],
            start,
            end,
            {name: plain(row[name]) for name in self.query.aggregates},
            row["revision"],
            row["retracted"],
            **bounds,
        )


def integers(times: pa.Array) -> list[int]:
    return list(times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64()).to_pylist())
