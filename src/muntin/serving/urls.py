"""The store of features that a URL names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from muntin.errors import InvalidArgumentError
from muntin.serving.base import FeatureStore, checked_name

TIMEOUT = 5.0
"""Seconds to wait for an answer."""
_KINDS = ("redis", "rediss", "unix")


def store_of(url: str) -> FeatureStore:
    """Return the store that a URL names; nothing is asked of it yet.

    >>> store_of("sqlite:///features.db?table=cards").url
    'sqlite:///features.db'
    """
    if not isinstance(url, str):
        raise InvalidArgumentError(f"a store of features is named by a URL, such as sqlite:///features.db; got {url!r}")
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in (name for name, value in options.items() if not value):
        raise InvalidArgumentError(f"the option {name!r} of the URL of a store is given without a value")
    if parts.scheme == "sqlite":
        from muntin.serving.sqlite import Sqlite

        path = unquote(parts.path).removeprefix("/")
        if parts.netloc or not path:
            raise InvalidArgumentError(f"{url!r} names no file: write sqlite:///features.db, or four slashes for /...")
        table = checked_name(options.pop("table", "features"), "table", url)
        _require_known(options, url)
        return Sqlite(Path(path), table, TIMEOUT)
    if parts.scheme in _KINDS:
        from muntin.serving.redis import Redis

        prefix = options.pop("prefix", "muntin")
        return Redis(_with(url, options), prefix, TIMEOUT)
    if parts.scheme in ("postgresql", "postgres"):
        from muntin.serving.postgres import Postgres

        table = checked_name(options.pop("table", "features"), "table", parts.scheme + "://")
        return Postgres(_with(url, options), table, TIMEOUT)
    raise InvalidArgumentError(
        f"no store of features is called {parts.scheme or url!r}; there are sqlite:///PATH, redis://HOST:PORT/DB and "
        "postgresql://USER@HOST/DATABASE"
    )


def seen_from_anywhere(url: str) -> str:
    """Return a URL for other processes of this machine, whose folders may be others; reject one that names no store."""
    store = store_of(url)
    store.close()
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        return url
    path = Path(unquote(parts.path).removeprefix("/")).absolute()
    return f"sqlite:///{quote(str(path))}" + (f"?{parts.query}" if parts.query else "")


def _with(url: str, options: dict[str, str]) -> str:
    """Return a URL with other options."""
    return url.partition("?")[0] + (f"?{urlencode(options)}" if options else "")


def _require_known(options: dict[str, str], url: str) -> None:
    for name in options:
        raise InvalidArgumentError(f"{url!r} has the option {name!r}, which SQLite has not; there is table=")
