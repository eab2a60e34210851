"""`muntin.watch`: opens the live page over a stream or a folder of answers."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.streams.stream import Stream
from muntin.watching.answers_folder import AnswersFolder
from muntin.watching.health import HealthReport, work_folder
from muntin.watching.rows import Rows
from muntin.watching.watched import Answers, Asked, Live, Poller, RawRows, Reported, Source, Watched

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from muntin.watching.server import Server

_FIRST = 2.0
"""Seconds that the page waits for existing data; the rest is loaded while it is open."""


class Watching:
    """An open live page at `url`; `stop()`, or the end of a `with` block, closes it.

    Notebooks display the page itself.
    """

    def __init__(self, watched: Watched, sources: list[Source], port: int) -> None:
        self._sources = sources
        self._poller = Poller(watched, sources)
        try:
            self._server = _server(watched, port)
            self._poller.start()
            self._poller.has_polled.wait(_FIRST)
            self._server.start()
        except BaseException:  # the caller gets no object to stop what has started
            self._release()
            raise

    @property
    def url(self) -> str:
        """The address of the page, on this machine only."""
        return self._server.url

    def stop(self) -> None:
        """Close the page. What was watched continues."""
        self._release()
        self._server.stop()

    def _release(self) -> None:
        """Stop polling and observing."""
        for source in self._sources:
            if isinstance(source, Live):
                source.end()
        self._poller.stop()

    def __enter__(self) -> Self:
        """Return it, for a `with` block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the page."""
        self.stop()

    def __repr__(self) -> str:
        """Return the address of the page."""
        return f"<a live page at {self.url}>"

    def _repr_html_(self) -> str:
        """Return the page, for notebooks."""
        url = html.escape(self.url, quote=True)
        return f'<a href="{url}">{url}</a><iframe src="{url}" width="100%" height="900" style="border:0"></iframe>'


def _server(watched: Watched, port: int) -> Server:
    """Return the server of the page; only this imports Bokeh."""
    if importlib.util.find_spec("bokeh") is None:
        raise UnsupportedOperationError("the live page needs Bokeh: pip install 'muntin[watch]'")
    from muntin.watching.page import Page
    from muntin.watching.server import Server

    return Server(lambda document: Page(document, watched).open(), port)


def watch(
    what: Stream | StreamingQuery | str | Path,
    answers: str | Path | None = None,
    *,
    column: str | None = None,
    port: int = 0,
) -> Watching:
    """Open a live page over a stream in this process, a Spark query, or a folder of answers; return at once.

    A stream is observed from now on: what is pushed to it and what it emits. `column` is the one whose raw rows are
    drawn, by default the first that the query reads. For a Spark query `answers` is the folder it writes to. A folder
    need not exist yet; see `muntin watch` for raw rows beside it.

    The page listens on 127.0.0.1 only, at `url`; `port` 0 takes any free one. It keeps the answers it shows, and 16
    bytes per raw row. Needs the extra `watch`.

    >>> from muntin import Query, agg, watch, window
    >>> stream = Query(window.tumbling(10), {"high": agg.max("v")}, time="t").stream()
    >>> with watch(stream) as page:
    ...     _ = stream.push({"t": [1, 4, 12], "v": [3.0, 5.0, 4.0]})
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    if isinstance(what, Stream):
        if answers is not None:
            raise InvalidArgumentError("a stream tells its answers itself: leave `answers` out")
        return _watch_stream(what, column, port)
    if column is not None:
        raise InvalidArgumentError("column= is for a stream; for files see `muntin watch --rows`")
    if isinstance(what, str | Path):
        if answers is not None:
            raise InvalidArgumentError(f"{what} is watched already: leave `answers` out")
        return watch_files(Path(what), port=port)
    if hasattr(what, "recentProgress") and hasattr(what, "isActive"):
        if answers is None:
            raise InvalidArgumentError("give the folder that the Spark query writes to: watch(query, 'answers/')")
        return watch_files(Path(answers), running=what, port=port)
    raise InvalidArgumentError(f"a Stream, a Spark query or a folder of answers can be watched, not {what!r}")


def _watch_stream(stream: Stream, column: str | None, port: int) -> Watching:
    query = stream.query
    rows = None
    if column is not None and column not in query.reads:
        raise ColumnError(f"the query reads no column {column!r}; it reads {', '.join(map(repr, query.reads))}")
    shown = [name for name in (query.reads if column is None else (column,)) if name not in query.expressions]
    others = {query.time, *query.key}
    if query.time is not None and shown and not others & query.expressions.keys():  # rows come as they were pushed
        rows = Rows(query.time, shown[0], query.key, query.watermark)
    watched = Watched("a stream in this process", windows=True, rows=rows, plan=stream.explain().to_dict())
    return Watching(watched, [Live(stream)], port)


def watch_files(
    answers: Path | None,
    *,
    read: Callable[[], Iterable[pa.Table]] | None = None,
    rows: Rows | None = None,
    query: Query | None = None,
    running: Any = None,
    port: int = 0,
) -> Watching:
    """Open a page over a folder of answers, raw rows that `read` yields as they arrive, or both."""
    sources: list[Source] = []
    if answers is not None:
        sources.append(Answers(AnswersFolder(answers)))
        sources.append(Reported(HealthReport(work_folder(answers))))
    if running is not None:
        from muntin.watching.spark_health import SparkHealth

        sources.append(Asked(SparkHealth(running).now))
    if read is not None:
        sources.append(RawRows(read))
    plan = None if query is None else query.explain().to_dict()
    title = str(answers) if answers is not None else "" if rows is None else f"{rows.column} over {rows.time}"
    return Watching(Watched(title, windows=answers is not None, rows=rows, plan=plan), sources, port)
