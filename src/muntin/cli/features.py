"""`muntin serve`: published features over HTTP. Needs the extra `serve`."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import muntin
from muntin.errors import InvalidArgumentError, MuntinError, SnapshotError, StoreError
from muntin.query import Query
from muntin.serving import Served

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

TOKEN = "MUNTIN_SERVE_TOKEN"  # noqa: S105  # the name of a variable
"""The environment variable with the token that callers must send; without it anyone on this machine may ask."""
ARROW = "application/vnd.apache.arrow.stream"
_LOCAL = ("127.0.0.1", "localhost", "::1")
_MOST_BYTES = 64 << 20
"""The largest body of a request."""
Handler = Callable[["Request"], Awaitable["Response"]]


def serve(query: Query, url: str, host: str, port: int, announce: Callable[[str], object]) -> None:
    """Answer points over HTTP until Ctrl-C. `announce` gets the address."""
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise InvalidArgumentError("muntin serve needs uvicorn and starlette: pip install 'muntin[serve]'") from error
    token = os.environ.get(TOKEN) or None
    if token is None and host not in _LOCAL:
        raise InvalidArgumentError(
            f"--host is {host}, which others can reach: set the environment variable {TOKEN} to a secret that callers "
            "send as 'Authorization: Bearer ...'"
        )
    with Served(url, query) as served, socket.create_server((host, port)) as listening:
        announce(f"http://{host}:{listening.getsockname()[1]}")
        config = uvicorn.Config(app_of(served, token), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])


def app_of(served: Served, token: str | None = None) -> Starlette:
    """Return the application: /features, /health, /openapi.json and /docs."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.routing import Route

    door = _Door(served)
    described = _described(served.query)

    async def openapi(_: Request) -> Response:
        return JSONResponse(described)

    async def docs(_: Request) -> Response:
        return HTMLResponse(_page(described))

    guarded = [
        Route("/features", _guarded(door.one, token), methods=["GET"]),
        Route("/features", _guarded(door.many, token), methods=["POST"]),
        Route("/health", _guarded(door.health, token), methods=["GET"]),
    ]
    return Starlette(routes=[*guarded, Route("/openapi.json", openapi), Route("/docs", docs)])


class _Door:
    """Answers requests from published features."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def one(self, request: Request) -> Response:
        """Answer the points of a URL: /features?card=a&card=b."""
        return _response(request, await self._served.ask_async(self._points(request.query_params.multi_items())))

    async def many(self, request: Request) -> Response:
        """Answer the points of a body: columns or rows as JSON, or an Arrow stream."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BYTES:
                raise InvalidArgumentError(f"the body has more than {_MOST_BYTES:,} bytes; ask in several requests")
        if request.headers.get("content-type", "").startswith(ARROW):
            points = _from_arrow(bytes(body))
        else:
            points = self._typed(_from_json(bytes(body)))
        return _response(request, await self._served.ask_async(points))

    async def health(self, _: Request) -> Response:
        """Say how far the features are."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        watermark = await run_in_threadpool(lambda: self._served.watermark_time)
        published = await run_in_threadpool(lambda: self._served.published_at)
        return JSONResponse({"watermark": _plain(watermark), "published_at": _plain(published)})

    def _points(self, pairs: list[tuple[str, str]]) -> pa.Table:
        """Return the points of the parameters of a URL."""
        query, columns = self._served.query, dict[str, list[Any]]()
        for name, value in pairs:
            columns.setdefault(name, []).append(value)
        for name in columns:
            if name not in (*query.key, query.time):
                raise InvalidArgumentError(
                    f"there is no parameter {name!r}; there are {', '.join(map(repr, _parameters(query)))}"
                )
        counts = {name: len(values) for name, values in columns.items()}
        if len(set(counts.values())) > 1:
            raise InvalidArgumentError(f"parameters are given a different number of times: {counts}")
        if not columns:
            columns = {"": [None]}  # one point, of a query without a key
        return self._typed(columns)

    def _typed(self, columns: Mapping[str, list[Any]]) -> pa.Table:
        """Return columns as a table, keys and times in the types of the rows."""
        types = self._served.point_types
        made = {}
        for name, values in columns.items():
            try:
                made[name] = _column(values, types.get(name))
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise InvalidArgumentError(f"{name} is no column of {types.get(name, 'one type')}: {error}") from error
        try:
            return pa.table(made)
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"these columns make no table: {error}") from error


def _column(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    """Return values of JSON, or texts of a URL, as a column."""
    if kind is None or all(value is None for value in values):
        return pa.array(values, kind)
    if all(isinstance(value, str | None) for value in values):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values).cast(kind)


def _from_arrow(body: bytes) -> pa.Table:
    try:
        return pa.ipc.open_stream(body).read_all()
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"the body is no Arrow stream: {error}") from error


def _from_json(body: bytes) -> dict[str, list[Any]]:
    """Return the columns of a body: `{"card": ["a", "b"]}` or `[{"card": "a"}, {"card": "b"}]`."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the body is not JSON: {error}") from error
    if isinstance(found, dict) and all(isinstance(values, list) for values in found.values()):
        return found
    if isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
        return {name: [row.get(name) for row in found] for name in dict.fromkeys(name for row in found for name in row)}
    raise InvalidArgumentError(
        'the body is neither columns, such as {"card": ["a", "b"]}, nor a list of rows, such as [{"card": "a"}]'
    )


def _response(request: Request, answers: pa.Table) -> Response:
    """Return answers as the caller wants them: JSON rows, or an Arrow stream."""
    from starlette.responses import Response

    if ARROW in request.headers.get("accept", ""):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, answers.schema) as writer:
            writer.write_table(answers)
        return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
    rows = [{name: _plain(value) for name, value in row.items() if name} for row in answers.to_pylist()]
    return Response(json.dumps(rows, allow_nan=False), media_type="application/json")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: times in ISO form, bytes in base 64, NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _guarded(handler: Handler, token: str | None) -> Handler:
    """Return a handler that refuses callers without the token, and says in JSON what is wrong."""
    from starlette.responses import JSONResponse

    @wraps(handler)
    async def call(request: Request) -> Response:
        sent = request.headers.get("authorization", "")
        if token is not None and not compare_digest(sent.encode(), f"Bearer {token}".encode()):
            return JSONResponse({"error": "send 'Authorization: Bearer ...' with the token"}, 401)
        try:
            return await handler(request)
        except StoreError as error:
            return JSONResponse({"error": str(error)}, 503)
        except SnapshotError as error:
            return JSONResponse({"error": str(error)}, 500)
        except MuntinError as error:
            return JSONResponse({"error": str(error)}, 400)

    return call


# ------------------------------------------------------------ what there is


def _parameters(query: Query) -> list[str]:
    return [*query.key, *([query.time] if query.time is not None else [])]


def _described(query: Query) -> dict[str, Any]:
    """Return the description of the application, as OpenAPI has it."""
    parameters = [
        {
            "name": name,
            "in": "query",
            "required": name != query.time,
            "description": "the time of the point; now, if it is left out" if name == query.time else "the key",
            "schema": {"type": "array", "items": {"type": "string"}},
        }
        for name in _parameters(query)
    ]
    rows = {"type": "array", "items": {"type": "object"}}
    content: dict[str, Any] = {"application/json": {"schema": rows}, ARROW: {"schema": {"type": "string"}}}
    answers = {
        "200": {"description": "the points, each with the features of its key", "content": content},
        "400": {"description": "points that do not fit, or that reach rows no longer held"},
        "401": {"description": "no token, or another one"},
        "503": {"description": "the store is away"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Features: {', '.join(query.aggregates)}", "version": muntin.__version__},
        "paths": {
            "/features": {
                "get": {"summary": "The features of some keys", "parameters": parameters, "responses": answers},
                "post": {
                    "summary": "The features of many keys: columns or rows as JSON, or an Arrow stream",
                    "requestBody": {"content": content},
                    "responses": answers,
                },
            },
            "/health": {"get": {"summary": "How far the features are", "responses": {"200": {"description": "times"}}}},
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _page(described: Mapping[str, Any]) -> str:
    """Return a page that shows the description; it loads nothing from elsewhere."""
    parts = [f"<h1>{html.escape(described['info']['title'])}</h1>"]
    for path, methods in described["paths"].items():
        for method, each in methods.items():
            parts.append(f"<h2><code>{method.upper()} {path}</code></h2><p>{html.escape(each['summary'])}</p><ul>")
            for parameter in each.get("parameters", ()):
                name, text = html.escape(parameter["name"]), html.escape(parameter["description"])
                parts.append(f"<li><code>{name}</code>: {text}</li>")
            for code, answer in each["responses"].items():
                parts.append(f"<li>{code}: {html.escape(answer['description'])}</li>")
            parts.append("</ul>")
    style = "body{font:16px/1.5 sans-serif;max-width:45em;margin:2em auto;padding:0 1em}"
    head = f"<!doctype html><meta charset=utf-8><title>Features</title><style>{style}</style>"
    return head + "".join(parts) + '<p>As <a href="openapi.json">OpenAPI</a>.</p>'
