"""Redis as it is run in production: with a password, behind TLS, as a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis_server import Server, free_port
from waiting import until

from muntin import agg, aggregators, stores
from muntin.errors import StoreError

pytestmark = pytest.mark.slow
TLS = Path(__file__).parent / "tls"
"""A certificate for 127.0.0.1 that signs itself, and its key, for these tests only."""


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, *options)
    try:
        yield server
    finally:
        server.stop()


def use(store: Any) -> None:
    """Write a window, close it, and find it again."""
    window = aggregators.MonoidTree(agg.sum("v"), store=store, window_id="w", chunk_pairs=8, compiled=False)
    window.bulk_insert(range(300), range(300))
    window.bulk_evict(99)
    window.flush()
    window.close()
    again = aggregators.MonoidTree.open(store, "w", agg.sum("v"), chunk_pairs=8, compiled=False)
    assert len(again) == 200
    assert again.query() == sum(range(100, 300))
    again.close()


def test_a_password(tmp_path: Path) -> None:
    with serving(tmp_path, "--requirepass", "open sesame") as server:
        use(stores.Redis(f"redis://:open%20sesame@127.0.0.1:{server.port}/0"))
        for url in (server.url, f"redis://:wrong@127.0.0.1:{server.port}/0"):
            with pytest.raises(StoreError, match=r"(?i)auth|password"):
                stores.Redis(url).put_many({b"a": b"1"})


def test_tls(tmp_path: Path) -> None:
    port = free_port()
    files = ("--tls-cert-file", str(TLS / "cert.pem"), "--tls-key-file", str(TLS / "key.pem"))
    with serving(
        tmp_path,
        "--tls-port",
        str(port),
        *files,
        "--tls-ca-cert-file",
        str(TLS / "cert.pem"),
        "--tls-auth-clients",
        "no",
    ):
        use(stores.Redis(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={TLS / 'cert.pem'}"))
        with pytest.raises(StoreError, match="(?i)certificate"):
            stores.Redis(f"rediss://127.0.0.1:{port}/0").put_many({b"a": b"1"})


def test_a_cluster(tmp_path: Path) -> None:
    """A cluster of one node, which owns all slots: keys of different slots in one command are refused there too."""
    bus = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with serving(tmp_path, *bus) as server:
        node = redis.Redis(port=server.port)
        node.execute_command("CLUSTER ADDSLOTSRANGE 0 16383")
        until(lambda: node.cluster("INFO")["cluster_state"] == "ok")
        with pytest.raises(redis.ResponseError, match="same slot"):
            node.mset({b"one": b"1", b"other": b"2"})
        use(stores.Redis(f"redis://127.0.0.1:{server.port}", cluster=True))
