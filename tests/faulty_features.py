"""A store of features that counts what it is asked, and fails on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muntin.errors import StoreError
from muntin.serving.base import FeatureStore


class Faulty(FeatureStore):
    """A store that wraps another."""

    def __init__(self, inner: FeatureStore) -> None:
        self.inner, self.url = inner, inner.url
        self.calls: list[str] = []
        self.failing: set[str] = set()
        self.failing_after: int | None = None
        """The number of batches that are published before one fails."""
        self.halfway = False
        """Whether a batch that fails has written half of its values."""

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise StoreError("failed on demand")

    def read(self, names: Sequence[bytes]) -> list[bytes | None]:
        self._note("read")
        return self.inner.read(names)

    def write(self, values: Mapping[bytes, bytes]) -> None:
        self._note("write")
        self.inner.write(values)

    def publish(self, run: bytes, part: bytes, record: bytes, values: Mapping[bytes, bytes | None]) -> None:
        if self.failing_after is not None:
            self.failing_after -= 1
            if self.failing_after < 0:
                self.failing_after = None
                raise StoreError("failed on demand")
        if self.halfway and "publish" in self.failing:
            self.inner.publish(run, part, record, dict(list(values.items())[::2]))
        self._note("publish")
        self.inner.publish(run, part, record, values)

    def swap(self, expected: bytes | None, head: bytes) -> bool:
        self._note("swap")
        return self.inner.swap(expected, head)

    def clear(self, kept: bytes | None) -> None:
        self._note("clear")
        self.inner.clear(kept)

    def close(self) -> None:
        self.inner.close()
