"""What a query will do, in words and in numbers: what `explain` returns."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any

from muntin.aggregators.choose import Chosen

_WIDTH = 104
_INDENT = 14
_IN_SHORT = {
    "rows": "rows are kept for as long as a window needs them",
    "values": "slices keep the values of rows, sorted",
    "nothing": "each row is combined into its {piece}, and let go",
}
"""What becomes of rows, from what keeps most to what keeps least."""
_SPLITS = {
    "split": ("slices are split where an edge comes", "slices would be split where an edge comes"),
    "whole": ("slices are never split", "slices would never be split"),
}
_REMOVALS = {
    "never": ("no row leaves its slice", "no row would leave its slice"),
    "invert": ("rows leave slices by invert", "rows would leave slices by invert"),
    "skip": (
        "slices that lose the row they stand for are folded again",
        "slices that lose the row they stand for would be folded again",
    ),
    "recompute": ("slices that lose a row are folded again", "slices that lose a row would be folded again"),
}
"""What becomes of slices, and what would if there were any."""


@dataclass(frozen=True)
class Decision:
    """The leaf that a window comes to in one of the decision trees of slicing: its answer, the rule, and why."""

    answer: str
    rule: str
    why: str


@dataclass(frozen=True)
class WindowPlan:
    """How one window is answered."""

    window_id: int
    window: str
    context: str
    """Context free, forward context free, or forward context aware."""
    measure: str
    strategy: str
    not_by: Mapping[str, str]
    """Better strategies, or the one that was asked for, and why it is none of them."""
    kept: str
    """What is kept of rows besides states: "rows", "values" or "nothing"."""
    rule: str
    """The rule of the decision tree that this window comes to, and what it says must be kept."""
    must_keep: str
    why: str
    split: Decision
    """Whether its slices must be split: "split" or "whole"."""
    removal: Decision
    """How a row leaves its slice: "never", by "invert", "skip" or "recompute"."""
    how: str
    """How a strategy without slices finds its windows, and what a push costs it; empty if it does not tell."""
    edges: float | None
    """How many edges it has a second (a unit of time, where times are integers); None where only rows tell.

    Of sessions, the most that there can be.
    """
    slices: int | None
    """How many slices a window has, at most; None where only rows tell, or where there are none."""
    run: tuple[Chosen, ...]
    """What merges rows in `run`. Where it depends on how many rows there are, what it may be."""
    complete_from: Any = None
    """In a running stream, for a window that was added: from when on it is complete."""

    def lines(self, unit: str) -> Iterator[tuple[str, str]]:
        """Yield its lines, each with a title."""
        yield "class", f"{self.context}, measured in {self.measure}"
        yield "strategy", "; ".join([self.strategy, *(f"not {name}: {why}" for name, why in self.not_by.items())])
        kept = {"nothing": "none is kept", "values": "their values are kept, sorted"}.get(self.kept, "they are kept")
        if self.kept == self.must_keep:
            yield "rows", f"{kept} ({self.rule}): {self.why}"
        else:
            yield "rows", f"{kept} by the strategy {self.strategy}; slices would keep {self.must_keep} ({self.rule})"
        would = int(self.strategy != "slices")
        yield "splits", f"{_SPLITS[self.split.answer][would]} ({self.split.rule}): {self.split.why}"
        yield "removals", f"{_REMOVALS[self.removal.answer][would]} ({self.removal.rule}): {self.removal.why}"
        if self.how:
            yield "answered", self.how
        if self.edges is None:
            yield "edges", "where the rows put them"
        else:
            most = "" if self.context == "context free" else "at most "
            slices = "" if self.slices is None else f"; a window has up to {_count(self.slices, 'slice')}"
            yield "edges", f"{most}{_number(self.edges)} a {unit}{slices}"
        yield "in run", "; ".join(map(str, self.run))
        if self.complete_from is not None:
            yield "complete", f"from {self.complete_from} on: it was added while rows came"


@dataclass(frozen=True)
class StorePlan:
    """What one strategy keeps for the windows it answers."""

    strategy: str
    window_ids: tuple[int, ...]
    merge: tuple[Chosen, ...]
    """What merges slices, or rows, into windows."""
    slices_per_second: float | None
    """Slices a second and key (or a unit of time, where times are integers), at most."""
    slices: int | None
    """Slices that a key holds at a time."""
    slice_bytes: int | None
    value_bytes: int | None
    """The bytes of each distinct value of a slice, where values are kept."""
    row_bytes: int | None
    """The bytes of a row that is kept."""
    row_time: float | None
    """For how long rows are kept, in seconds or units of time; None where only rows tell."""
    row_count: int
    """How many of the last rows are kept whatever their time."""
    bytes: int | None
    """The bytes of state of a key, about and between pushes; None where they depend on how many rows come."""
    note: str = ""
    """What the estimate leaves out."""
    for_ever: bool = False
    """Whether rows are kept for as long as their key lives."""
    piece: str = "slice"
    """What states are of: "slice" or "tile"."""
    now: Mapping[str, int] | None = None
    """In a running stream: what is there."""

    def lines(self, unit: str, keys: int) -> Iterator[tuple[str, str]]:
        """Yield its lines, each with a title."""
        yield "windows", ", ".join(map(str, self.window_ids))
        if self.slices_per_second is not None:
            yield "slices", f"{_number(self.slices_per_second)} a {unit} and key, at most"
        yield "merged by", "; ".join(map(str, self.merge))
        yield "state", self._state(unit, keys)
        if self.now is not None:
            yield "now", ", ".join(f"{name} {count}" for name, count in self.now.items())

    @property
    def most(self) -> str:
        """The word before `bytes`: of rows they are an estimate, as the rate of rows is."""
        return "up to" if self.row_bytes is None else "about"

    def _state(self, unit: str, keys: int) -> str:
        parts = []
        if self.slice_bytes is not None:
            held = "" if self.slices is None else f", up to {self.slices:,} at a time"
            parts.append(f"{_count(self.slice_bytes, 'byte')} a {self.piece}{held}")
        if self.value_bytes is not None:
            parts.append(f"{_count(self.value_bytes, 'byte')} for each distinct value of a slice")
        if self.row_bytes is not None:
            parts.append(f"{_count(self.row_bytes, 'byte')} a row, {self._kept_for(unit)}")
        if self.bytes is not None:
            parts.append(f"{self.most} {_size(self.bytes)} a key, {_size(self.bytes * keys)} for {_count(keys, 'key')}")
        if parts and self.note:
            parts.append(self.note)
        return "; ".join(parts) or "not estimated"

    def _kept_for(self, unit: str) -> str:
        if self.for_ever:
            return "kept for as long as its key lives"
        if self.row_time is None:
            return "kept for as long as the rows themselves say"
        times = f"those of the last {_count(self.row_time, unit)}"
        if not self.row_count:
            return times
        last = f"the last {_count(self.row_count, 'row')}"
        return f"{last}, and {times}" if self.row_time else last


@dataclass(frozen=True)
class QueryPlan:
    """How a query runs. Print it, or read its fields, which are plain values (`to_dict` has all of them).

    `unit` is the unit of rates: seconds, or units of time if the times are integers.
    """

    windows: tuple[WindowPlan, ...]
    stores: tuple[StorePlan, ...]
    aggregates: Mapping[str, str]
    key: tuple[str, ...]
    time: str | None
    time_type: str
    unit: str
    assumed: Mapping[str, str]
    """Columns whose types were not given, and what was assumed."""
    keys: int
    """The number of keys for which bytes are reckoned."""
    bytes: int | None
    """The bytes of state of all `keys`; None where they depend on how many rows come."""
    run: str
    watermark: str
    lateness: str
    early: str
    idle: str
    order: str
    changes: str = ""
    """How deletions are answered; empty where none come."""
    now: Mapping[str, Any] | None = None
    """In a running stream: its metrics."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The computed columns that something reads, as they were written."""
    where: str | None = None
    """The condition for rows, as it was written."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON."""
        return asdict(self)

    def sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield sections of lines with titles."""
        yield "query", list(self._of_the_query())
        for window in self.windows:
            lines = list(window.lines(self.unit))
            yield f"window {window.window_id}", [("definition", window.window), *lines]
        for store in self.stores:
            yield f"kept by {store.strategy}", list(store.lines(self.unit, self.keys))
        yield "run", [("how", self.run)]
        yield "stream", list(self._of_the_stream())

    def _in_short(self) -> Iterator[str]:
        kept = {each.window_id: each.kept for each in self.windows}
        for store in self.stores:
            most = next(each for each in _IN_SHORT if each in [kept[i] for i in store.window_ids])
            size = "" if store.bytes is None else f", {store.most} {_size(store.bytes)} a key"
            ids = ", ".join(map(str, store.window_ids))
            what = _IN_SHORT[most].format(piece=store.piece)
            yield f"{'window' if len(store.window_ids) == 1 else 'windows'} {ids}: {what}{size}"

    def _of_the_query(self) -> Iterator[tuple[str, str]]:
        yield "in short", "; ".join(self._in_short()) or "there is no window"
        yield "aggregates", ", ".join(f"{name} = {each}" for name, each in self.aggregates.items())
        if self.columns:
            computed = ", ".join(f"{name} = {text}" for name, text in self.columns.items())
            yield "columns", f"{computed}: computed for each row as it comes, by Arrow, on Spark by Spark's expressions"
        if self.where is not None:
            yield "where", f"{self.where}: other rows are left out before anything else, and move no watermark"
        yield "key", ", ".join(self.key) or "none: all rows share their windows"
        yield "time", "the clock's, as rows come" if self.time is None else f"{self.time}, {self.time_type}"
        if self.assumed:
            columns = ", ".join(f"{name} is {kind}" for name, kind in self.assumed.items())
            yield "assumed", f"{columns}; give schema= to have it exact"

    def _of_the_stream(self) -> Iterator[tuple[str, str]]:
        yield "watermark", self.watermark
        yield "lateness", self.lateness
        yield "early", self.early
        yield "idle", self.idle
        yield "order", self.order
        if self.changes:
            yield "changes", self.changes
        if self.now is not None:
            yield "now", ", ".join(f"{name} {count}" for name, count in self.now.items())

    def __str__(self) -> str:
        """Say it in words."""
        lines = []
        for title, section in self.sections():
            lines.append(title)
            for name, text in section:
                first, *rest = wrap(text, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False) or [""]
                lines += [f"  {name:<{_INDENT - 2}}{first}", *(" " * _INDENT + line for line in rest)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows = []
        for title, section in self.sections():
            rows.append(f'<tr><th colspan="2" style="text-align:left">{html.escape(title)}</th></tr>')
            for name, text in section:
                cells = "".join(f'<td style="text-align:left">{html.escape(each)}</td>' for each in (name, text))
                rows.append(f"<tr>{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _count(value: float, what: str) -> str:
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
    if value == 1:
        return f"{shown} {what}"
    first, *rest = what.split(" ", 1)
    return " ".join([shown, f"{first}s", *rest])


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if unit != "bytes" else f"{count} bytes"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.3g} GiB"
