"""Manifests: what of a window is durable. Two take turns, so that one is whole whenever the other is being written.

After a manifest is durable its number is put under a key of its own. So one that was torn while it was being written,
where the other holds, is told from one that was damaged later, where the other is out of date.

Whoever opens a window writes its name under the key `owner`, and every other write is made on condition that it is
still there.
"""

from __future__ import annotations

import secrets
import zlib

from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.names import Names
from muntin.errors import DamagedChunkError, LeaseError
from muntin.snapshots import Snapshot, is_whole


class Manifests:
    """The manifests of one window, and the key that says who may write them."""

    def __init__(self, courier: Courier, names: Names) -> None:
        self._courier, self.names = courier, names
        self.sequence = 0
        """How many have been written."""
        self._token = secrets.token_hex(8).encode()
        """Tells two processes apart that came to the same generation, one after the other."""
        self._seen: list[bytes | None] = [None] * 4
        """What the store held when the newest manifest was read."""

    def newest(self, *, allow_pickle: bool) -> Snapshot | None:
        """Return the last manifest that is whole; reject to go back to one that is not the last."""
        self._seen = self._read()
        _, confirmed, *found = self._seen
        present = [(slot, data) for slot, data in enumerate(found) if data is not None]
        whole = [
            manifest
            for slot, data in present
            if is_whole(data) and self._belongs(manifest := Snapshot.decode(data, allow_pickle=allow_pickle), slot)
        ]
        if not whole:
            # One that is not whole was being written when its writer died. If there is no other, it was the first one,
            # of an empty window.
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
        """Return whether a manifest is of this window, and where it was put."""
        return self.names.prefix == Names(manifest.header["window"]).prefix and manifest.header["sequence"] % 2 == slot

    def claim(self) -> None:
        """Announce a new generation, before any of its chunks is written: whoever held the window writes no more."""
        courier, before = self._courier, self._seen[0]
        claimed = courier.insist(lambda: courier.store.put_if(self._owner_key, before, {self._owner_key: self._owner}))
        now = self._read()
        # It may have been claimed by an attempt whose answer was lost.
        if (not claimed and now[0] != self._owner) or now[1:] != self._seen[1:]:
            raise LeaseError("another process has written to the window while it was being opened; open it again")

    def write(self, manifest: Snapshot) -> None:
        """Write a manifest; all chunks that it speaks of have been put. `LeaseError` if the window is another's."""
        courier = self._courier
        courier.insist(courier.lease.renew)  # else it may have run out while this process was held up
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
        """Return the owner, the number of the last manifest, and both manifests, as they are in the store."""
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
    """Return the number of such a text; None where it is damaged, or there is none."""
    digits = (text or b"").partition(b" ")[0]
    return int(digits) if digits.isdigit() and _text(int(digits)) == text else None


def _is_last(newest: Snapshot, confirmed: bytes | None, *, alone: bool, both_whole: bool) -> bool:
    """Return whether no manifest after this one was ever durable."""
    sequence, number = int(newest.header["sequence"]), _number(confirmed)
    if number is not None:
        return sequence >= number
    # The number is made durable before the next manifest is begun. So a crash tears it only while both manifests are
    # whole, or there is only the first; and it is missing beside a second one only in windows that never had numbers.
    writes_numbers = "chunk_format" in newest.header
    return both_whole or (sequence == 1 and alone) or (confirmed is None and (sequence == 1 or not writes_numbers))
