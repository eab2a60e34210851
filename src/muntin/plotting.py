"""`muntin.plot`: windows over time, drawn with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.tables.latest import latest
from muntin.types import is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OWN = ("window", "window_id", "revision", "retracted")
_MOST_KEYS = 10
_MOST_BARS = 2000
"""More windows than that are drawn as a line through their ends, since bars could not be distinguished."""


def plot(
    result: pa.Table,
    columns: str | Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Return a figure of windows over time: a panel per window of the query, with a line or bars per aggregate.

    `result` is what `run`, `push` or `close` returns. Windows that follow one another are bars from start to end;
    overlapping windows are a line through their ends. Of a revised window the latest revision is drawn. `columns` are
    the aggregates to draw, by default all numeric ones; `names` are titles of the panels. With several keys each has
    its own colour, up to ten. Returns a matplotlib figure, which notebooks display.

    >>> from muntin import Query, agg, plot, window
    >>> query = Query(window.tumbling(10), {"high": agg.max("v")}, time="t")
    >>> figure = plot(query.run({"t": [1, 4, 12], "v": [3.0, 5.0, 4.0]}))
    >>> len(figure.axes)
    1
    """
    if not isinstance(result, pa.Table) or not set(_OWN) <= set(result.column_names):
        raise InvalidArgumentError("plot draws the table that Query.run, Stream.push or Stream.close returns")
    chosen = _columns(result, columns)
    windows = _latest(result)
    ids = sorted(set(windows["window_id"].to_pylist()))
    figure = _figure(max(1, len(ids)))
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    for axes, window_id in zip(figure.subplots(max(1, len(ids)), 1, squeeze=False)[:, 0], ids, strict=False):
        _panel(axes, windows.filter(pc.equal(windows["window_id"], window_id)), chosen)
        axes.set_title(names[window_id] if names else f"window {window_id}", loc="left", fontsize=9)
    return figure


def _columns(result: pa.Table, columns: str | Sequence[str] | None) -> list[str]:
    wanted = [columns] if isinstance(columns, str) else columns
    numeric = [
        field.name
        for field in result.schema
        if field.name not in _OWN and is_number(field.type) and field.name in _aggregates(result)
    ]
    if wanted is None:
        wanted = numeric
    for name in wanted:
        if name not in numeric:
            raise ColumnError(f"there is no numeric aggregate {name!r}; there are {', '.join(map(repr, numeric))}")
    if not wanted:
        raise ColumnError("no aggregate of this result is a number")
    return list(wanted)


def _keys(result: pa.Table) -> list[str]:
    """Return the columns before the window: the keys."""
    names: list[str] = result.column_names
    return names[: names.index("window")]


def _aggregates(result: pa.Table) -> list[str]:
    names: list[str] = result.column_names
    return names[names.index("window_id") + 1 : names.index("revision")]


def _latest(result: pa.Table) -> pa.Table:
    """Return the last revision of each window that still stands, with its bounds as columns, by start."""
    flat = latest(result)
    for name in ("start", "end"):
        flat = flat.append_column(f"_{name}", pc.struct_field(flat["window"], name))
    return flat.sort_by([("_start", "ascending"), ("_end", "ascending")])


# ---------------------------------------------------------------- drawing


def _figure(panels: int) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedOperationError("plot needs matplotlib: pip install 'muntin[plot]'") from error

    class Chart(Figure):  # type: ignore[misc]  # matplotlib's types are not looked at
        """A figure that notebooks show by itself, whatever they have set up."""

        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png")
            return out.getvalue()

    return Chart(figsize=(9, 0.6 + 2.2 * panels), dpi=110, layout="constrained")


def _panel(axes: Any, windows: pa.Table, columns: list[str]) -> None:
    keys = _keys(windows)
    groups = (
        windows.select(keys).group_by(keys).aggregate([]).sort_by([(name, "ascending") for name in keys])
        if keys
        else None
    )
    wanted = [()] if groups is None else [tuple(row.values()) for row in groups.slice(0, _MOST_KEYS).to_pylist()]
    for values in wanted:
        mine = windows
        for name, value in zip(keys, values, strict=True):
            mine = mine.filter(pc.equal(mine[name], pa.scalar(value, mine[name].type)))
        for column in columns:
            label = " ".join([column, *map(str, values)]) if len(wanted) > 1 else column
            _draw(axes, mine, column, label)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.01)


def _draw(axes: Any, windows: pa.Table, column: str, label: str) -> None:
    starts, ends = (_times(windows[name]) for name in ("_start", "_end"))
    values = windows[column].cast(pa.float64()).to_numpy(zero_copy_only=False)
    apart = len(starts) <= _MOST_BARS and bool((ends[:-1] <= starts[1:]).all())
    if apart:
        drawn = axes.hlines(values, starts, ends, label=label, linewidth=2, color=axes._get_lines.get_next_color())
        drawn.set_capstyle("butt")
    else:
        order = np.argsort(ends, kind="stable")
        axes.plot(ends[order], values[order], label=label, linewidth=1)


def _times(column: pa.ChunkedArray) -> Any:
    """Return times as matplotlib takes them; those with a zone in UTC."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.to_numpy(zero_copy_only=False)
