"""Features in a Redis or Valkey server: `pip install 'muntin[redis]'`.

`redis://user:password@host:6379/0?prefix=cards`; `rediss://` for TLS, `unix://` for a socket. All names begin with the
prefix, `muntin` by default.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muntin.errors import InvalidArgumentError, StoreError
from muntin.serving.base import BATCH, CHUNK, HEAD, RUN, FeatureStore, chunks, refusal, split

_PUBLISH = f"""
if redis.call('getrange', KEYS[1], 0, {RUN - 1}) ~= ARGV[1] then return 1 end
if redis.call('getrange', KEYS[2], 0, {BATCH - 1}) > string.sub(ARGV[2], 1, {BATCH}) then return 2 end
redis.call('set', KEYS[2], ARGV[2])
local written = tonumber(ARGV[3])
for i = 1, written do redis.call('set', KEYS[2 + i], ARGV[3 + i]) end
for i = 3 + written, #KEYS do redis.call('unlink', KEYS[i]) end
return 0
"""
_SWAP = (
    "if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], ARGV[2]) return 1"
)


class Redis(FeatureStore):
    """Values in a server, all names with one prefix. A chunk of a batch is one script, which the server runs whole."""

    def __init__(self, url: str, prefix: str, timeout: float) -> None:
        try:
            import redis
        except ImportError as error:
            raise InvalidArgumentError(
                "a store of features in Redis needs the package redis: pip install 'muntin[redis]'"
            ) from error
        self.url = re.sub(r"//[^/]*@", "//...@", url)
        self._prefix = prefix.encode() + b":"
        options: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
        if url.startswith("rediss:") and not re.search(r"[?&]ssl_(check_hostname|cert_reqs)=", url):
            options["ssl_check_hostname"] = True  # which redis-py does by itself from version 6 on
        try:
            self._client: Any = redis.Redis.from_url(url, **options)
        except ValueError as error:
            raise InvalidArgumentError(f"{self.url!r} is no URL of a Redis server: {error}") from error
        self._failures = (redis.RedisError, OSError)
        self._publish = self._client.register_script(_PUBLISH)
        self._swap = self._client.register_script(_SWAP)

    def read(self, names: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some names: one command, so that they are of one moment."""
        with self._attempt("read"):
            return list(self._client.mget([self._prefix + name for name in names])) if names else []

    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Write values: one command."""
        with self._attempt("write"):
            if values:
                self._client.mset({self._prefix + name: value for name, value in values.items()})

    def publish(self, run: bytes, part: bytes, record: bytes, values: Mapping[bytes, bytes | None]) -> None:
        """Write a batch, chunk by chunk."""
        for chunk in chunks(values, CHUNK):
            written, removed = split(chunk)
            names = [self._prefix + name for name in (HEAD, part, *written, *removed)]
            with self._attempt("write"):
                refused = self._publish(names, [run, record, len(written), *written.values()])
            if refused:
                raise refusal(self.url, newer_batch=refused == 2)

    def swap(self, expected: bytes | None, head: bytes) -> bool:
        """Replace the head if it is as expected."""
        with self._attempt("write"):
            return bool(self._swap([self._prefix + HEAD], [expected or b"", head]))

    def clear(self, kept: bytes | None) -> None:
        """Delete what belongs to other runs, in the background of the server."""
        start = len(self._prefix)
        pattern = re.sub(rb"([\\*?\[\]])", rb"\\\1", self._prefix) + b"*"
        with self._attempt("delete"):
            if kept is None:
                self._client.unlink(self._prefix + HEAD)
            for names in _batches(self._client.scan_iter(match=pattern, count=1000)):
                gone = [name for name in names if kept is None or name[start:] != HEAD]
                gone = [name for name in gone if kept is None or name[start : start + RUN] != kept]
                if gone:
                    self._client.unlink(*gone)

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(*self._failures):
            self._client.close()

    @contextlib.contextmanager
    def _attempt(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot {what} in {self.url}: {error}") from error


def _batches(names: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield lists of names."""
    batch: list[bytes] = []
    for name in names:
        batch.append(name)
        if len(batch) == 1000:
            yield batch
            batch = []
    yield batch
