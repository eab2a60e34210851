"""Writes the table of aggregators into docs/choosing.md, and a test compares the two.

python tools/aggregator_tables.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from muntin.aggregators.table import BUILT_IN, TABLE, Entry

PAGE = Path(__file__).parent.parent / "docs" / "choosing.md"
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

Columns = dict[str, Callable[[Entry], str]]


def title(entry: Entry) -> str:
    """Return the name of an aggregator's class."""
    return f"`{entry.kind.__name__}`" if entry.kind is not None else ""


TABLES: dict[str, Columns] = {
    "work": {"": title, "insert": lambda e: e.insert, "evict": lambda e: e.evict, "query": lambda e: e.query},
    "abilities": {
        "": title,
        "times": lambda e: e.order,
        "aggregations": lambda e: e.takes,
        "range queries": lambda e: e.ranges,
        "evict from the middle": lambda e: e.middle,
        "memory, in states": lambda e: e.memory,
    },
    "uses": {
        "name": lambda e: f"`{e.name}`",
        "in `slide`": lambda e: "loops of its own" if e.own_loops else "row by row",
        "as `merge=` of a stream": lambda e: e.merges,
        "`slide` takes it for": lambda e: "; ".join(rule.when for rule in e.rules),
    },
}
"""The columns of each table, as its mark on the page names it."""


def table(name: str) -> str:
    """Return a table in Markdown. One without a class is left out where rows begin with the class."""
    columns = TABLES[name]
    cells = [[cell(TABLE[each]) for cell in columns.values()] for each in TABLE if each in BUILT_IN]
    lines = [list(columns), ["---"] * len(columns), *(row for row in cells if row[0])]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")


def page() -> str:
    """Return the page with its tables written from the table of aggregators."""
    return PLACE.sub(lambda found: f"{found[1]}\n{table(found[2])}\n{found[3]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
