"""Manifests: what of a window is durable. Two take turns, so that one is whole whenever the other is being written."""

from __future__ import annotations

import secrets

from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.names import Names
from muntin.errors import DamagedChunkError, LeaseError
from muntin.snapshots import Snapshot, is_whole


class Manifests:
    """The manifests of one window, and the key that says who may write them."""

    def __init__(self, courier: Courier, names: Names) -> None:
        self._courier, self._names = courier, names
        self.sequence = 0
        """How many have been written."""
        self._token = secrets.token_hex(8).encode()
        """Tells two processes apart that came to the same generation, one after the other."""

    def newest(self, *, allow_pickle: bool) -> Snapshot | None:
        """Return the last manifest that is whole."""
        courier, keys = self._courier, [self._key(0), self._key(1)]
        found = [data for data in courier.insist(lambda: courier.store.get_many(keys)) if data is not None]
        whole = [Snapshot.decode(data, allow_pickle=allow_pickle) for data in found if is_whole(data)]
        if len(found) == 2 and not whole:
            raise DamagedChunkError("both manifests of the window are damaged, and one is never written")
        # One that is not whole was being written when its writer died, and the other holds. If there is no other, it
        # was the first one, of an empty window.
        return max(whole, key=lambda snapshot: int(snapshot.header["sequence"]), default=None)

    def claim(self) -> None:
        """Announce a new generation, before any of its chunks is written: whoever held the window writes no more."""
        courier = self._courier
        courier.insist(lambda: courier.store.put_many({self._owner_key: self._owner}))

    def write(self, manifest: Snapshot) -> None:
        """Write a manifest; all chunks that it speaks of have been put. `LeaseError` if the window is another's."""
        courier = self._courier
        courier.insist(courier.lease.renew)  # else it may have run out while this process was held up
        owner = courier.insist(lambda: courier.store.get_many([self._owner_key])[0])
        if owner != self._owner:
            raise LeaseError(f"another process has opened the window {manifest.header['window']!r}")
        key, data = self._key(self.sequence + 1), manifest.encode()

        def write() -> None:
            courier.store.flush()
            courier.store.put_many({key: data})
            courier.store.flush()

        courier.insist(write)
        self.sequence += 1

    def _key(self, sequence: int) -> bytes:
        return self._names.prefix + b"manifest%d" % (sequence % 2)

    @property
    def _owner_key(self) -> bytes:
        return self._names.prefix + b"owner"

    @property
    def _owner(self) -> bytes:
        return b"%d %s" % (self._names.generation, self._token)
