"""`muntin.show`: answers as a table to read, in a terminal and in a notebook; and how notebooks show Arrow tables."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from muntin import _html
from muntin.errors import InvalidArgumentError
from muntin.notebooks import shell
from muntin.tabular import as_table
from muntin.types import is_number

_ANSWER = ("window", "window_id", "revision", "retracted")


def show(answers: Any, rows: int = 10) -> Shown:
    """Return the first rows of a table for reading: windows as spans of time, and no uninformative columns.

    For results of `run`, `push`, `close`, `over` and `latest`: Arrow, pandas, polars or a mapping of columns. Printed,
    it is text; as the last line of a notebook's cell, a table. It omits `window_id` if there is one window, `revision`
    if all are 0, and `retracted` if none is: these three columns are read whole, O(rows), and of all others only the
    rows shown.

    >>> import muntin
    >>> from muntin import Query, agg, window
    >>> query = Query(window.tumbling(10), {"n": agg.count(), "high": agg.max("v")}, key="k", time="t")
    >>> muntin.show(query.run({"t": [1, 4, 12], "k": ["a", "a", "b"], "v": [3.0, 5.5, 4.0]}))
    k  window    n  high
    a  0 to 10   2   5.5
    b  10 to 20  1     4
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InvalidArgumentError(f"rows is {rows!r}; give how many rows to show, 1 or more")
    return Shown(as_table(answers), rows)


class Shown:
    """The first rows of a table as text, and as HTML for notebooks. Created by `show`."""

    def __init__(self, table: pa.Table, rows: int) -> None:
        self.total = table.num_rows
        names = [name for name in table.column_names if not _says_nothing(table, name)]
        first = table.select(names).slice(0, min(rows, self.total))
        self.names = names
        self.right = [is_number(first.schema.field(name).type) for name in names]
        self.cells = [[cell(row[name]) for name in names] for row in first.to_pylist()]

    @property
    def more(self) -> str:
        """Say how many rows are not shown; nothing, if all are."""
        left = self.total - len(self.cells)
        return f"... and {left:,} more of {self.total:,} rows" if left else ""

    def __repr__(self) -> str:
        """Return the rows as text in columns."""
        lines = [self.names, *self.cells]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.names))]
        text = [
            "  ".join(_fit(*each) for each in zip(line, widths, self.right, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([*text, *filter(None, [self.more or ("" if self.cells else "(no rows)")])])

    def _repr_html_(self) -> str:
        """Return the rows as a table, for notebooks."""
        return _html.grid(self.names, self.cells, self.right, self.more)


def _fit(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _says_nothing(table: pa.Table, name: str) -> bool:
    """Say whether a column of answers is the same in all rows, as it is where nothing is to be told apart."""
    if not is_answer(table.column_names) or name not in _ANSWER[1:]:
        return False
    column = table[name]
    return not table.num_rows or (column.null_count == 0 and len(column.unique()) == 1 and not column[0].as_py())


def is_answer(names: Sequence[str]) -> bool:
    """Say whether a table with these columns is the answer of a query."""
    return set(_ANSWER) <= set(names)


# ---------------------------------------------------------------- cells


def cell(value: Any) -> str:
    """Return a value as text: four digits of a number, a window as a span, a time without what is zero.

    >>> cell(12345.678), cell(0.12345678), cell(None), cell({"start": 0, "end": 10})
    ('12,346', '0.1235', '-', '0 to 10')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e3 else f"{value:,.0f}"
    if isinstance(value, dict) and {"start", "end"} <= value.keys():
        return _span(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return _time(value)


def _time(value: Any, *, as_date: bool | None = None) -> str:
    """Return a time without what is zero, and as a date where it is midnight; anything else as it is."""
    if not isinstance(value, datetime.datetime):
        return str(value)
    if _is_midnight(value) if as_date is None else as_date:
        return value.date().isoformat()
    micro = value.microsecond
    precision = (
        "microseconds" if micro % 1000 else "milliseconds" if micro else "seconds" if value.second else "minutes"
    )
    return value.replace(tzinfo=None).isoformat(" ", precision)


def _is_midnight(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.time() == datetime.time()


def _span(window: dict[str, Any]) -> str:
    at = "" if window.get("at") is None else f" at {_time(window['at'])}"
    if window["start"] is None:  # a frame by rows that holds none
        return f"no rows{at}"
    as_date = _is_midnight(window["start"]) and _is_midnight(window["end"])
    start, end = (_time(window[name], as_date=as_date) for name in ("start", "end"))
    if start[:11] == end[:11] and len(start) > 11:
        end = end[11:]
    rows = "" if window.get("from_row") is None else f" (rows {window['from_row']} to {window['to_row']})"
    values = "" if window.get("from_value") is None else f" ({window['from_value']:g} to {window['to_value']:g})"
    return f"{start} to {end}{rows}{values}{at}"


# ---------------------------------------------------------------- notebooks


class Explanation(str):  # noqa: SLOT000  # as a string it has no room for slots
    """The output of `explain`, line by line. A notebook shows it as a table, a terminal as printed text.

    >>> Explanation("a  by two_stacks")._repr_html_()
    '<table><tr><td style="text-align:left">a</td><td style="text-align:left">by two_stacks</td></tr></table>'
    """

    def __repr__(self) -> str:
        """Show the lines, and no escapes."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return the lines as a table, whose cells are what two spaces or more set apart."""
        lines = [[each for each in re.split(r"\s{2,}", line.strip()) if each] for line in self.splitlines()]
        return _html.lines(lines)


def show_in_notebooks() -> None:
    """Have notebooks show answers, which are Arrow tables, as `show` does. Other Arrow tables are left as they are."""
    found = shell()
    if found is not None:
        found.display_formatter.formatters["text/html"].for_type_by_name("pyarrow.lib", "Table", _answer_as_html)


def _answer_as_html(table: pa.Table) -> str | None:
    return Shown(table, 10)._repr_html_() if is_answer(table.column_names) else None
