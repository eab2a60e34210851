"""`muntin serve`: published features over HTTP."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
import uvicorn

import muntin
from muntin import Query, agg, window
from muntin.cli.features import ARROW, TOKEN, app_of
from muntin.serving.base import HEAD
from muntin.serving.urls import store_of

TEXT = """
time = "ts"
key = ["card", "shop"]

[[windows]]
trailing = "1 hour"

[aggregates]
n = "count()"
mean = "mean(amount)"
"""
QUERY = Query(
    window.trailing("1 hour"), {"n": agg.count(), "mean": agg.mean("amount")}, key=["card", "shop"], time="ts"
)
ROWS = pa.table(
    {
        "card": ["a", "a", "b"],
        "shop": [1, 1, 2],
        "ts": pa.array([0, 60_000_000, 120_000_000], pa.timestamp("us")),
        "amount": [1.0, 2.0, float("nan")],
    }
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'features.db'}"
    stream = QUERY.stream(serve=found)
    stream.push(ROWS)
    stream.close()
    return found


class Answer:
    """The answer of a server."""

    def __init__(self, status: int, headers: Any, content: bytes) -> None:
        self.status_code, self.headers, self.content = status, headers, content

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """An application on a free port of this machine, and what asks it."""

    def __init__(self, app: Any) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.ask("GET", path, b"", headers or {})

    def post(self, path: str, content: bytes, headers: dict[str, str]) -> Answer:
        return self.ask("POST", path, content, headers)

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection(*self.socket.getsockname(), timeout=60)
        connection.request(method, path.replace(" ", "%20"), body, headers)
        found = connection.getresponse()
        answer = Answer(found.status, found.headers, found.read())
        connection.close()
        return answer


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with muntin.serving.open(url, QUERY) as served, Client(app_of(served)) as asking:
        yield asking


ASKED = "/features?card=a&shop=1&ts=1970-01-01T00:03:00"
FOUND = {"card": "a", "shop": 1, "ts": "1970-01-01T00:03:00", "n": 2, "mean": 1.5}


def test_points_in_the_url(client: Client) -> None:
    assert client.get(ASKED).json() == [FOUND]
    found = client.get(f"{ASKED}&card=b&shop=2&ts=1970-01-01 00:03").json()
    assert [row["n"] for row in found] == [2, 1]
    assert found[1]["mean"] == "nan"
    assert client.get("/features?card=a&shop=1").json() == [{"card": "a", "shop": 1, "n": 0, "mean": None}]  # now


def test_points_in_the_body(client: Client) -> None:
    columns = {"card": ["a"], "shop": [1], "ts": ["1970-01-01T00:03:00"]}
    rows = [{name: values[0] for name, values in columns.items()}]
    for body in (columns, rows):
        assert client.post("/features", json.dumps(body).encode(), {}).json() == [FOUND]
    points = ROWS.select(["card", "shop", "ts"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, points.schema) as writer:
        writer.write_table(points)
    answer = client.post("/features", sink.getvalue(), {"content-type": ARROW, "accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    assert pa.ipc.open_stream(answer.content).read_all()["n"].to_pylist() == [1, 2, 1]


def test_health_and_description(client: Client) -> None:
    found = client.get("/health").json()
    assert found["watermark"] == "1970-01-01T00:02:00.000000"
    assert found["published_at"].endswith("+00:00")
    described = client.get("/openapi.json").json()
    names = [each["name"] for each in described["paths"]["/features"]["get"]["parameters"]]
    assert names == ["card", "shop", "ts"]
    assert "GET /features" in client.get("/docs").content.decode()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("/features?card=a", "shop"),
        ("/features?card=a&shop=1&shop=2", "different number of times"),
        ("/features?card=a&shop=one", "shop is no column of int64"),
        ("/features?card=a&shop=1&ts=soon", "ts is no column of timestamp"),
        ("/features?card=a&shop=1&cart=2", "there is no parameter 'cart'"),
        ("/features", "card"),
    ],
)
def test_points_that_do_not_fit(asked: str, message: str, client: Client) -> None:
    answer = client.get(asked)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"card": "a"}', b"[1]", b"[" * 100_000, b'{"card": [{}]}'])
def test_bodies_that_are_no_points(body: bytes, client: Client) -> None:
    for kind in ("application/json", ARROW):
        answer = client.post("/features", body, {"content-type": kind})
        assert answer.status_code == 400, body
        assert answer.json()["error"]


def test_a_token_is_asked_for(url: str) -> None:
    with muntin.serving.open(url, QUERY) as served, Client(app_of(served, "secret")) as client:
        for sent in (None, "Bearer other", "secret", "Bearer sécret"):
            headers = {} if sent is None else {"authorization": sent}
            for path in (ASKED, "/health"):
                assert client.get(path, headers=headers).status_code == 401
        assert client.get(ASKED, headers={"authorization": "Bearer secret"}).json() == [FOUND]


def test_a_store_without_its_features(client: Client, url: str) -> None:
    store = store_of(url)
    head = store.read([HEAD])[0]
    assert head is not None
    muntin.serving.delete(url, QUERY)
    assert client.get(ASKED).status_code == 400
    store.write({HEAD: head.replace(b'"run"', b'"ran"')})
    assert client.get(ASKED).status_code == 500
    store.close()


def test_without_key_or_rows(tmp_path: Path) -> None:
    query = Query(window.trailing(10), {"n": agg.count()}, time="t")
    found = f"sqlite:///{tmp_path / 'one.db'}"
    stream = query.stream(serve=found)
    with muntin.serving.open(found, query) as served, Client(app_of(served)) as client:
        assert client.get("/features?t=5").json() == [{"t": "5", "n": 0}]  # types are not known yet
        stream.push({"t": [4]})
        assert client.get("/features?t=5").json() == [{"t": 5, "n": 1}]
        assert client.get("/features").json() == [{"n": 0}]
    stream.close()


def test_bad_input_is_one_line(muntin: Any, tmp_path: Path, url: str) -> None:
    path = tmp_path / "query.toml"
    path.write_text(TEXT)
    for arguments, message in (
        ([path, "--store", "features.db"], "no store of features"),
        ([path, "--store", f"sqlite:///{tmp_path}/none.db"], "holds no features"),
        ([path, "--store", url, "--host", "0.0.0.0"], f"set the environment variable {TOKEN}"),
        (["none.toml", "--store", url], "cannot be read"),
    ):
        result = muntin("serve", *arguments, "--port", "0")
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path, url: str) -> None:
    path = tmp_path / "query.toml"
    path.write_text(TEXT)
    command = [sys.executable, "-m", "muntin", "serve", str(path), "--store", url, "--port", "0", "--json"]
    environment = {**os.environ, TOKEN: "secret"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["url"]
        assert address.startswith("http://127.0.0.1:")
        asked = urllib.request.Request(address + ASKED, headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer) == [FOUND]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130, -signal.SIGINT)
