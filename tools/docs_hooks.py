"""Writes the list of aggregations into the reference, from the docstrings that users see. A hook of mkdocs."""

from __future__ import annotations

import inspect
from typing import Any

from muntin import agg

MARK = "<!-- aggregations -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the sections where the mark is."""
    return markdown.replace(MARK, "\n".join(_section(name) for name in agg.__all__ if _is_built_in(name)))


def _is_built_in(name: str) -> bool:
    return isinstance(getattr(agg, name), agg.Factory) or name == "count"


def _section(name: str) -> str:
    thing = getattr(agg, name)
    signature = "agg.count(column=None)" if name == "count" else repr(thing)
    text = inspect.cleandoc(thing.__doc__ or "")
    return f"## {name}\n\n`{signature}`\n\n{_fenced(text)}\n"


def _fenced(text: str) -> str:
    """Put doctests into fences."""
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>") and not inside:
            out.append("```pycon")
            inside = True
        if inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)
