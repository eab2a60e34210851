"""The server: Bokeh's, on this machine only, in its own thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import threading
from collections.abc import Callable

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop

from muntin.errors import InvalidArgumentError
from muntin.forks import in_child

ADDRESS = "127.0.0.1"
_GONE = "Failed sending message as connection was closed"


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log line of Bokeh is more than a lost browser, which it repeats for every change."""
    return record.getMessage() != _GONE


logging.getLogger("bokeh.server.views.ws").addFilter(_is_news)


class Server:
    """Serves a page until stopped. Only pages from this very server may connect."""

    def __init__(self, open_page: Callable[[Document], None], port: int) -> None:
        self._open_page = open_page
        self._ready = threading.Event()
        self._loop: IOLoop | None = None
        self._failure: BaseException | None = None
        """Why the page could not be opened."""
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        run = contextvars.copy_context().run  # the context decides how kernels run
        self._thread = threading.Thread(target=run, args=(self._run,), name="muntin page", daemon=True)

        in_child(self, Server._forked)

    def _forked(self) -> None:
        self._loop = None
        self._socket.close()  # else it would go on listening after its server

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.port}/"

    def start(self) -> None:
        """Start; return when the page can be opened. Errors are raised here, in the caller's thread."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Stop the server."""
        loop = self._loop
        if loop is not None:
            loop.add_callback(loop.stop)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            if self._ready.is_set():
                raise  # nobody waits any more
            self._failure = error
            self._socket.close()
            self._ready.set()

    def _serve(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        loop = self._loop = IOLoop.current()
        origins = [f"{host}:{self.port}" for host in (ADDRESS, "localhost")]
        application = BokehTornado(
            {"/": Application(FunctionHandler(self._open_page))},
            extra_websocket_origins=origins,
            check_unused_sessions_milliseconds=1_000,
            unused_session_lifetime_milliseconds=5_000,
        )
        http = HTTPServer(application)
        http.add_socket(self._socket)
        server = BaseServer(loop, application, http)
        server.start()
        loop.add_callback(self._ready.set)
        loop.start()
        server.stop()
        http.stop()
        loop.close(all_fds=True)


def _bound(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine only."""
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((ADDRESS, port))
        found.listen()
        found.setblocking(False)
    except (OSError, OverflowError) as error:
        found.close()
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(
            f"port {port} cannot be used: {reason}; give another one, or 0 for any that is free"
        ) from error
    return found
