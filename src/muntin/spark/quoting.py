"""Names of columns as Spark's parser reads them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a name in backticks, so that a dot or a space in it is part of it.

    >>> quoted("a.b"), quoted("a`b")
    ('`a.b`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"
