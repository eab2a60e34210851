"""A small table for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a titled table of names and values as HTML.

    >>> table("x", [("a", "<b>")])
    '<table><tr><th colspan="2" style="text-align:left">x</th></tr><tr><td style="text-align:left">a</td><td \
style="text-align:left">&lt;b&gt;</td></tr></table>'
    """
    head = f'<tr><th colspan="2" style="text-align:left">{html.escape(title)}</th></tr>'
    cells = ("".join(f'<td style="text-align:left">{html.escape(str(each))}</td>' for each in row) for row in rows)
    return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
