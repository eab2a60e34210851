"""Writes the tables of docs/expressions.md from the one table of functions: `python tools/expression_tables.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from muntin.expressions.functions import FUNCTIONS, OPERATORS, Operation

PAGE = Path(__file__).parents[1] / "docs" / "expressions.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def tables() -> str:
    """Return both tables as Markdown."""
    return "\n".join([*_lines("operator", OPERATORS), "", *_lines("function", FUNCTIONS), ""])


def _lines(title: str, of: Mapping[str, Operation]) -> Iterator[str]:
    yield f"| {title} | gives |"
    yield "|---|---|"
    for each in of.values():
        written = each.written.replace("|", "\\|")
        units = "" if not each.words else f"; units: {', '.join(dict.fromkeys(each.words.values()))}"
        yield f"| `{written}` | {each.gives}{units} |"


def page() -> str:
    """Return the page with its tables as they are now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
