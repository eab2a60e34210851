"""How the reference is written from docstrings: a hook of mkdocs, and an extension of griffe, which reads the source.

A docstring of this project is Markdown with doctests. Markdown would take `>>>` for a quotation in a quotation in a
quotation, so that doctests are put into fences before anyone reads them.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

from muntin import agg

MARK = "<!-- aggregations -->"
CALLED = {
    "count": "agg.count(column=None)",
    "per": "agg.per(column, aggregation, top=None, most=10_000)",
}
"""Aggregations that are functions, which choose among definitions by their arguments."""
FROM_NETWORK = re.compile(r'<script src="https?://[^"]*worker[^"]*"></script>')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the sections of the built-in aggregations where the mark is."""
    return markdown.replace(MARK, "\n".join(_section(name) for name in agg.__all__ if is_built_in(name)))


def on_page_context(context: Any, *, page: Any, **_: Any) -> Any:
    """Let the edit button of a page open its source, which lies beside the site where that was built from a clone."""
    if page.edit_url is None:
        page.edit_url = "../" * (page.file.dest_uri.count("/") + 1) + f"docs/{page.file.src_uri}"
    return context


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Take the script that lets a page search without a server from the pages themselves, not from the network."""
    here = "../" * page.file.dest_uri.count("/")
    return FROM_NETWORK.sub(f'<script src="{here}file-worker.js"></script>', output)


def is_built_in(name: str) -> bool:
    """Say whether a name of `agg` is an aggregation, and not a tool to make one."""
    return isinstance(getattr(agg, name), agg.Factory) or name in CALLED


def _section(name: str) -> str:
    thing = getattr(agg, name)
    signature = CALLED.get(name) or repr(thing)
    heading = f'## muntin.agg.{name} {{ #muntin.agg.{name} .doc-heading data-toc-label="{name}" }}'
    code = f"``` {{ .python .doc-signature }}\n{signature}\n```"
    return f"{heading}\n\n{code}\n\n{fenced(inspect.cleandoc(thing.__doc__ or ''))}\n"


def fenced(text: str) -> str:
    r"""Put the doctests of a docstring into fences.

    >>> print(fenced("One.\n\n>>> 1\n1\n\nTwo."))
    One.
    <BLANKLINE>
    ```pycon
    >>> 1
    1
    ```
    <BLANKLINE>
    Two.
    """
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


class Doctests(griffe.Extension):
    """Puts the doctests of every docstring into fences, and shows descriptors in signatures as what they take."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(inspect.cleandoc(obj.docstring.value))

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Show the windows of a query as a parameter that must be given, in one of the ways that it is taken."""
        windows = pkg["query.query.Query.windows"]
        windows.value = None
        windows.annotation = pkg["query.named_windows.Windows.__set__"].parameters["given"].annotation
