"""A store in a Redis server or cluster: `pip install 'muntin[redis]'`.

The URL says everything: `redis://user:password@host:6379/0?socket_timeout=2`, `rediss://` for TLS (with `ssl_ca_certs=`
and the like), `unix://` for a socket. Over TLS the server must have a certificate for its name that is trusted, unless
the URL says otherwise. All keys of a window lie in one slot of a cluster.

How durable a value is, the server's configuration decides; with `appendonly yes` it survives a restart. `replicas=n`
lets `flush` wait until `replicas` of them have it.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muntin.errors import InvalidArgumentError, LeaseError, StoreError
from muntin.stores.base import Lease, Store, numbered
from muntin.types import is_finite_number

MOST_SECONDS = 1_000_000
"""Of a timeout or a lease: eleven days."""
_RENEW = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"
)
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

_PUT_IF = (
    "if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end "
    "for i = 2, #KEYS do redis.call('set', KEYS[i], ARGV[i]) end return 1"
)
"""Fencing: whoever was held up for longer than the lease writes nothing once another has opened the window."""


class Redis(Store):
    """Values in a Redis server, or with `cluster=True` in a cluster, of which `url` names one node.

    `timeout` is in seconds, for connecting and for each answer, unless the URL has `socket_timeout=`. A lease is held
    by renewal: when its holder dies, another may take it `lease_seconds` later.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379/0",
        *,
        cluster: bool = False,
        timeout: float = 5.0,
        lease_seconds: float = 10.0,
        replicas: int = 0,
    ) -> None:
        try:
            import redis
        except ImportError as error:
            raise InvalidArgumentError(
                "the store Redis needs the package redis: pip install 'muntin[redis]'"
            ) from error
        if not isinstance(url, str):
            raise InvalidArgumentError(f"the URL of a Redis server is a text, such as redis://host:6379/0; got {url!r}")
        for name, seconds in (("timeout", timeout), ("lease_seconds", lease_seconds)):
            if not is_finite_number(seconds) or not 0.001 <= seconds <= MOST_SECONDS:
                raise InvalidArgumentError(f"{name} is {seconds!r}; give a number of seconds, 0.001 to {MOST_SECONDS}")
        if isinstance(replicas, bool) or not isinstance(replicas, int) or not 0 <= replicas < 1 << 31:
            raise InvalidArgumentError(f"replicas is {replicas!r}; give how many of them, 0 or more")
        options: dict[str, Any] = {}
        if "socket_timeout=" not in url:
            options = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
        if url.startswith("rediss:") and not re.search(r"[?&]ssl_(check_hostname|cert_reqs)=", url):
            options["ssl_check_hostname"] = True  # which redis-py does by itself from version 6 on
        kind = redis.RedisCluster if cluster else redis.Redis
        try:
            self._client: Any = kind.from_url(url, **options)
        except ValueError as error:
            shown = re.sub(r"//[^/]*@", "//...@", url)  # without the password
            raise InvalidArgumentError(f"{shown!r} is no URL of a Redis server: {error}") from error
        except redis.RedisError as error:
            raise StoreError(f"cannot reach the Redis cluster: {error}") from error
        self._failures = (redis.RedisError, OSError)
        self._lease_seconds = lease_seconds
        self._replicas = replicas
        self._timeout = timeout

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some keys: one round trip."""
        with self._attempt("read"):
            return list(self._client.mget(keys)) if keys else []

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Set the values of some keys, all at once: one round trip."""
        with self._attempt("write"):
            if items:
                self._client.mset(dict(items))

    def put_if(self, key: bytes, expected: bytes | None, items: Mapping[bytes, bytes]) -> bool:
        """Set the values of some keys if one key has the expected value; return whether it had: a script, at once.

        In a cluster all keys must lie in one slot, as those of a window do.
        """
        with self._attempt("write"):
            done = self._client.eval(_PUT_IF, 1 + len(items), key, *items, expected or b"", *items.values())
        return bool(done)

    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        """Delete a range of numbered keys, in the background of the server: a round trip for each 1024."""
        gone = 0
        with self._attempt("delete"):
            for begin in range(start, stop, 1024):
                gone += self._client.unlink(*(numbered(prefix, n) for n in range(begin, min(stop, begin + 1024))))
        return gone

    def flush(self) -> None:
        """Check that the server responds and, with `replicas`, that as many of them have everything."""
        with self._attempt("flush"):
            if not self._replicas:
                self._client.ping()
            elif self._client.wait(self._replicas, int(self._timeout * 1000)) < self._replicas:
                raise StoreError(f"fewer than {self._replicas} replicas have answered within {self._timeout} s")

    def lease(self, name: bytes) -> Lease:
        """Take the lease of a name: a key that expires unless it is renewed."""
        token = secrets.token_bytes(16)
        key = b"muntin:{" + name + b"}:lease"
        milliseconds = int(self._lease_seconds * 1000)
        with self._attempt("lease"):
            taken = self._client.set(key, token, nx=True, px=milliseconds)
        if not taken:
            raise LeaseError(
                f"the window {name.decode()!r} is open already, here or in another process; "
                f"the lease of a dead one ends after {self._lease_seconds} s"
            )
        return _KeyLease(self, key, token, self._lease_seconds)

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(*self._failures):
            self._client.close()

    def _run(self, script: str, key: bytes, *arguments: Any) -> bool:
        with self._attempt("lease"):
            return bool(self._client.eval(script, 1, key, *arguments))

    @contextlib.contextmanager
    def _attempt(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot {what} in Redis: {error}") from error


class _KeyLease(Lease):
    def __init__(self, store: Redis, key: bytes, token: bytes, seconds: float) -> None:
        self._store, self._key, self._token = store, key, token
        self.seconds = seconds / 3
        self._milliseconds = int(seconds * 1000)
        self._held = True

    def renew(self) -> None:
        if self._held and not self._store._run(_RENEW, self._key, self._token, self._milliseconds):
            # The key may have expired while the server was away; nobody has taken it if it can be taken again.
            with self._store._attempt("lease"):
                again = self._store._client.set(self._key, self._token, nx=True, px=self._milliseconds)
            if not again:
                raise LeaseError("another process has taken the window: the lease had not been renewed in time")

    def forked(self) -> None:
        self._held = False

    def release(self) -> None:
        held, self._held = self._held, False
        if held:
            with contextlib.suppress(StoreError):
                self._store._run(_RELEASE, self._key, self._token)
