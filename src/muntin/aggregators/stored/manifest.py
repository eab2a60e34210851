"""Manifests: the durable part of a window. Two alternate, so that one is complete while the other is written.

After a manifest is durable its number is written under a separate key. That distinguishes one torn while being written,
where the other is valid, from one damaged later, where the other is out of date.

Whoever opens a window writes its name under the key `owner`, and every other write is conditional on it.
"""

from __future__ import annotations

import secrets
import zlib

from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.names import Names
from muntin.errors import DamagedChunkError, LeaseError
from muntin.snapshots import Snapshot, is_whole


class Manifests:
    """The manifests of one window, and the key of their owner."""

    def __init__(self, courier: Courier, names: Names) -> None:
        self._courier, self.names = courier, names
        self.sequence = 0
        """The number of manifests written."""
        self._token = secrets.token_hex(8).encode()
        """Distinguishes two processes that reach the same generation, one after the other."""
        self._seen: list[bytes | None] = [None] * 4
        """The contents of the store when the newest manifest was read."""

    def newest(self, *, allow_pickle: bool) -> Snapshot | None:
        """Return the last complete manifest; reject one that is not the last."""
        self._seen = self._read()
        _, confirmed, *found = self._seen
        present = [(slot, data) for slot, data in enumerate(found) if data is not None]
        whole = [
            manifest
            for slot, data in present
            if is_whole(data) and self._belongs(manifest := Snapshot.decode(data, allow_pickle=allow_pickle), slot)
        ]
        if not whole:
            # An incomplete one was being written when its writer died. If there is no other, it was the first one, of
            # an empty window.
            if len(present) == 2 or confirmed is not None:
                raise DamagedChunkError("both manifests of the window are damaged, and one is never written")
            return None
        newest = max(whole, key=lambda manifest: int(manifest.header["sequence"]))
        if not _is_last(newest, confirmed, alone=len(present) == 1, both_whole=len(whole) == 2):
            raise DamagedChunkError(
                "the last manifest of the window is damaged, and the one before it is out of date: restore the store"
            )
        return newest

    def _belongs(self, manifest: Snapshot, slot: int) -> bool:
        """Return whether a manifest belongs to this window and slot."""
        return self.names.prefix == Names(manifest.header["window"]).prefix and manifest.header["sequence"] % 2 == slot

    def claim(self) -> None:
        """Announce a new generation, before any of its chunks is written: the previous owner can write no more."""
        courier, before = self._courier, self._seen[0]
        claimed = courier.insist(lambda: courier.store.put_if(self._owner_key, before, {self._owner_key: self._owner}))
        now = self._read()
        # An attempt whose reply was lost may have claimed it.
        if (not claimed and now[0] != self._owner) or now[1:] != self._seen[1:]:
            raise LeaseError("another process has written to the window while it was being opened; open it again")

    def write(self, manifest: Snapshot) -> None:
        """Write a manifest, after all chunks it refers to. `LeaseError` if another process owns the window."""
        courier = self._courier
        courier.insist(courier.lease.renew)  # it may have expired while this process stalled
        key, data = self._key(self.sequence + 1), manifest.encode()

        def put(key: bytes, data: bytes) -> None:
            if not courier.store.put_if(self._owner_key, self._owner, {key: data}):
                raise LeaseError(f"another process has opened the window {manifest.header['window']!r}")

        def write() -> None:
            courier.store.flush()
            put(key, data)
            courier.store.flush()

        courier.insist(write)
        courier.insist(lambda: put(self._confirmed_key, _text(self.sequence + 1)))
        self.sequence += 1

    def _read(self) -> list[bytes | None]:
        """Return the owner, the number of the last manifest, and both manifests, from the store."""
        courier, keys = self._courier, [self._owner_key, self._confirmed_key, self._key(0), self._key(1)]
        return courier.insist(lambda: courier.store.get_many(keys))

    def _key(self, sequence: int) -> bytes:
        return self.names.prefix + b"manifest%d" % (sequence % 2)

    @property
    def _confirmed_key(self) -> bytes:
        return self.names.prefix + b"confirmed"

    @property
    def _owner_key(self) -> bytes:
        return self.names.prefix + b"owner"

    @property
    def _owner(self) -> bytes:
        return b"%d %s" % (self.names.generation, self._token)


def _text(number: int) -> bytes:
    """Return a number with a checksum.

    >>> _number(_text(7)), _number(_text(17)[1:])
    (7, None)
    """
    text = b"%d " % number
    return text + b"%08x" % zlib.crc32(text)


def _number(text: bytes | None) -> int | None:
    """Return the number in such a text; None if it is damaged or missing."""
    digits = (text or b"").partition(b" ")[0]
    return int(digits) if digits.isdigit() and _text(int(digits)) == text else None


def _is_last(newest: Snapshot, confirmed: bytes | None, *, alone: bool, both_whole: bool) -> bool:
    """Return whether no manifest after this one was ever durable."""
    sequence, number = int(newest.header["sequence"]), _number(confirmed)
    if number is not None:
        return sequence >= number
    # The number is durable before the next manifest is begun. So a crash tears it only while both manifests are
    # complete, or there is only the first; and it is missing beside a second one only in windows that never had
    # numbers.
    writes_numbers = "chunk_format" in newest.header
    return both_whole or (sequence == 1 and alone) or (confirmed is None and (sequence == 1 or not writes_numbers))
