"""Windows to group rows by: Flink's table functions and group windows, Spark's `window` and `session_window`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from muntin import windows
from muntin.errors import MuntinError
from muntin.expressions.places import Text
from muntin.statements.columns import Columns, is_call
from muntin.statements.intervals import duration_of
from muntin.suggestions import hint

FLINK = {
    "tumble": ("size", "offset"),
    "hop": ("slide", "size", "offset"),
    "cumulate": ("step", "size", "offset"),
    "session": ("gap",),
}
"""The lengths that Flink's functions take, in their order. Only the offset may be left out."""
SPARK = {"window": ("size", "slide", "offset"), "session_window": ("gap",)}
"""The same for Spark's, where only the first must be given."""
BOUNDS = ("start", "end")


@dataclass(frozen=True)
class GroupWindow:
    """A window that rows are grouped by, and where it came from."""

    window: windows.Window
    time: str | None
    call: Any
    """The function, as it was called."""
    partition: tuple[str, ...] | None = None
    """Of which columns each combination has sessions of its own; None where it is no table function."""
    tables: tuple[str, ...] = ()
    """What may stand before the columns that a table function adds."""

    @property
    def name(self) -> str:
        """The function's name, in lower case."""
        return str(self.call.name).lower()

    def bound(self, node: Any) -> str | None:
        """Return what of the window a part of the statement names: "start", "end", "window"; None for all else."""
        if isinstance(node, exp.Column):
            if node.args.get("db") is not None:
                return None
            table, name = node.text("table").lower(), node.name.lower()
            if table in SPARK and self.name == table:
                return name if name in BOUNDS else None
            if self.name in SPARK:
                return "window" if name == self.name and not table else None
            added = self.is_of_table and (not table or node.text("table") in self.tables)
            return name.removeprefix("window_") if name in ("window_start", "window_end") and added else None
        if not isinstance(node, exp.Anonymous) or node.expressions != self.call.expressions:
            return None
        name = str(node.name).lower()
        if name == self.name:
            return "window"
        return next((each for each in BOUNDS if name == f"{self.name}_{each}" and self.name in FLINK), None)

    @property
    def is_of_table(self) -> bool:
        """Whether it is a table function, which adds columns for its windows."""
        return self.partition is not None


@dataclass(frozen=True)
class GroupWindows:
    """Reads windows that rows are grouped by."""

    text: Text
    columns: Columns

    def in_group(self, call: Any) -> GroupWindow | None:
        """Return the window that a part of GROUP BY is; None where it calls no such function."""
        if not is_call(call, *FLINK, *SPARK):
            return None
        form = (FLINK | SPARK)[str(call.name).lower()]
        given = self._given(call, ("timecol", *form))
        return GroupWindow(self._window(call, given), self.columns.time(given["timecol"]), call)

    def of_table(self, call: Any) -> GroupWindow:
        """Return the window of a table function such as `HOP(TABLE t, DESCRIPTOR(ts), ...)`."""
        given = self._given(call, ("data", "timecol", *FLINK[str(call.name).lower()]))
        if not isinstance(given["data"], exp.Table):
            raise self.text.refused(given["data"], f"write TABLE before the table: {call.name}(TABLE t, ...)")
        time = given["timecol"]
        if not is_call(time, "descriptor") or len(time.expressions) != 1:
            raise self.text.refused(time, "the time of a table function is written DESCRIPTOR(ts)")
        partition = given["data"].args.get("partition")
        if partition is not None and str(call.name).lower() != "session":
            raise self.text.refused(partition, f"PARTITION BY is for SESSION; {call.name} has its keys in GROUP BY")
        keys = [self.columns.name(each, "a key") for each in partition.expressions] if partition is not None else []
        window, time = self._window(call, given), self.columns.time(time.expressions[0])
        return GroupWindow(window, time, call, tuple(keys), self.columns.tables)

    def _given(self, call: Any, form: tuple[str, ...]) -> dict[str, Any]:
        """Return the arguments of a call by their names."""
        name = str(call.name)
        given: dict[str, Any] = {}
        for place, each in enumerate(call.expressions):
            if isinstance(each, exp.Kwarg):
                word, value = each.name.lower(), each.expression
            else:
                word, value = (form[place] if place < len(form) else ""), each
            if word not in form:
                which = f"{each.name}{hint(word, form)}" if isinstance(each, exp.Kwarg) else str(place + 1)
                raise self.text.refused(each, f"{name} has no argument {which}")
            if word in given:
                raise self.text.refused(each, f"{name} got {word.upper()} twice")
            given[word] = value
        optional = ("offset", "slide") if name.lower() in SPARK else ("offset",)
        missing = next((word for word in form if word not in given and word not in optional), None)
        if missing is not None:
            raise self.text.refused(
                call, f"{name} lacks its argument {missing.upper()}: {name}({_shown(form, optional)})"
            )
        return given

    def _window(self, call: Any, given: dict[str, Any]) -> windows.Window:
        lengths = {
            word: duration_of(node, self.text) for word, node in given.items() if word not in ("data", "timecol")
        }
        offset = lengths.get("offset", 0)
        try:
            if "gap" in lengths:
                return windows.session(lengths["gap"])
            if "step" in lengths:
                return windows.cumulative(lengths["size"], every=lengths["step"], offset=offset)
            if "slide" in lengths:
                return windows.sliding(lengths["size"], every=lengths["slide"], offset=offset)
            return windows.tumbling(lengths["size"], offset=offset)
        except MuntinError as error:
            raise self.text.refused(call, str(error)) from error


def _shown(form: tuple[str, ...], optional: tuple[str, ...]) -> str:
    return ", ".join(f"[{word}]" if word in optional else word for word in form)
