"""Manifests: what of a window is durable. Two take turns, so that one is whole whenever the other is being written."""

from __future__ import annotations

from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.names import Names
from muntin.errors import LeaseError, SnapshotError
from muntin.snapshots import Snapshot


class Manifests:
    """The manifests of one window, and the key that says who may write them."""

    def __init__(self, courier: Courier, names: Names) -> None:
        self._courier, self._names = courier, names
        self.sequence = 0
        """How many have been written."""

    def newest(self, *, allow_pickle: bool) -> Snapshot | None:
        """Return the last manifest that is whole."""
        courier, keys = self._courier, [self._key(0), self._key(1)]
        whole = []
        for data in courier.insist(lambda: courier.store.get_many(keys)):
            try:
                if data is not None:
                    whole.append(Snapshot.decode(data, allow_pickle=allow_pickle))
            except SnapshotError as error:
                if "allow_pickle" in str(error):
                    raise
                # Else it was being written when its writer died: the other one holds.
        return max(whole, key=lambda snapshot: int(snapshot.header["sequence"]), default=None)

    def claim(self) -> None:
        """Announce a new generation, before any of its chunks is written: whoever held the window writes no more."""
        courier = self._courier
        courier.insist(lambda: courier.store.put_many({self._owner_key: self._owner}))

    def write(self, manifest: Snapshot) -> None:
        """Write a manifest; all chunks that it speaks of have been put. `LeaseError` if the window is another's."""
        courier = self._courier
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
        return b"%d" % self._names.generation
