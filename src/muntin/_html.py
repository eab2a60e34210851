"""Small tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_LEFT = ' style="text-align:left"'


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a titled table of names and values as HTML.

    >>> table("x", [("a", "<b>")])
    '<table><tr><th colspan="2" style="text-align:left">x</th></tr><tr><td style="text-align:left">a</td><td \
style="text-align:left">&lt;b&gt;</td></tr></table>'
    """
    head = f'<tr><th colspan="2"{_LEFT}>{html.escape(title)}</th></tr>'
    cells = ("".join(f"<td{_LEFT}>{html.escape(str(each))}</td>" for each in row) for row in rows)
    return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def grid(names: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool], note: str = "") -> str:
    """Return a table with a row of names as HTML; a column is aligned to the right where it should be.

    >>> grid(["a"], [["1"]], [True], "all")
    '<table><thead><tr><th style="text-align:right">a</th></tr></thead><tbody><tr><td style="text-align:right">1</td>\
</tr></tbody></table><p>all</p>'
    """
    styles = [' style="text-align:right"' if each else _LEFT for each in right]
    head = "".join(f"<th{style}>{html.escape(name)}</th>" for name, style in zip(names, styles, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{html.escape(each)}</td>' for each, style in zip(row, styles, strict=True))}</tr>"
        for row in rows
    )
    end = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{end}"


def lines(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as HTML, the last cell of each as wide as is left.

    >>> lines([["a", "b"], ["c"]])
    '<table><tr><td style="text-align:left">a</td><td style="text-align:left">b</td></tr><tr><td colspan="2" \
style="text-align:left">c</td></tr></table>'
    """
    width = max(map(len, rows), default=0)
    out = []
    for row in rows:
        *first, last = row or [""]
        span = f' colspan="{width - len(first)}"' if width > len(first) + 1 else ""
        cells = [
            *(f"<td{_LEFT}>{html.escape(each)}</td>" for each in first),
            f"<td{span}{_LEFT}>{html.escape(last)}</td>",
        ]
        out.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(out)}</table>"
