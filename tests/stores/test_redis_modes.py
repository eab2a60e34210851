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
"""Certificates that sign themselves, for 127.0.0.1 and for elsewhere.example, and their keys, for these tests only."""


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


@contextlib.contextmanager
def encrypted(folder: Path, name: str) -> Iterator[str]:
    """Start a server with one of the certificates, for connections over TLS; yield its address."""
    port, certificate, key = free_port(), str(TLS / f"{name}cert.pem"), str(TLS / f"{name}key.pem")
    files = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate)
    with serving(folder, "--tls-port", str(port), *files, "--tls-auth-clients", "no"):
        yield f"rediss://127.0.0.1:{port}/0"


def test_tls(tmp_path: Path) -> None:
    with encrypted(tmp_path, "") as url:
        use(stores.Redis(f"{url}?ssl_ca_certs={TLS / 'cert.pem'}"))
        for trusted in ("", f"?ssl_ca_certs={TLS / 'elsewhere-cert.pem'}"):
            with pytest.raises(StoreError, match="(?i)certificate"):
                stores.Redis(f"{url}{trusted}").put_many({b"a": b"1"})


def test_a_certificate_of_another_server_is_refused(tmp_path: Path) -> None:
    """It is trusted, and for `elsewhere.example` only."""
    with encrypted(tmp_path, "elsewhere-") as url:
        trusted = f"{url}?ssl_ca_certs={TLS / 'elsewhere-cert.pem'}"
        with pytest.raises(StoreError, match="(?i)certificate.*(mismatch|not valid for)"):
            stores.Redis(trusted).put_many({b"a": b"1"})
        use(stores.Redis(f"{trusted}&ssl_check_hostname=False"))  # for those who say so


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
