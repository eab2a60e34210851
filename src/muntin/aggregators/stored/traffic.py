"""Traffic: chunks on their way to and from the store, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future

from muntin.aggregators.stored.chunks import ChunkFormat
from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.ends import Chunk
from muntin.aggregators.stored.names import Name, Names
from muntin.errors import StoreError


class Traffic:
    """Chunks to write and to read ahead. `send` starts both."""

    format: ChunkFormat
    """The serialisation of chunks; replaced when the column types change."""

    def __init__(self, courier: Courier, names: Names) -> None:
        self._courier, self._names = courier, names
        self._full: dict[bytes, Callable[[], bytes]] = {}
        """Chunks for the courier."""
        self._wanted: list[Name] = []
        """Chunks to read ahead."""
        self._ahead: dict[Name, Future[dict[Name, Chunk]]] = {}
        """Chunks being read; one future for all requested at once."""

    def write(self, name: Name, chunk: Chunk) -> None:
        """Schedule a chunk to be written. Its arrays may change afterwards."""
        self._full[self._names.key(name)] = self.format.encoder(name, *chunk)

    def read_ahead(self, names: Iterable[Name]) -> None:
        """Schedule chunks to be read ahead."""
        self._wanted += [name for name in names if name not in self._ahead]

    def send(self) -> None:
        """Start the courier. Once for all levels, and last: it works while a kernel runs."""
        if self._full:
            self._courier.put_all(self._full)
            self._full = {}
        if self._wanted:
            names, read, decode = tuple(self._wanted), self._courier.get_all, self.format.decode
            keys = [self._names.key(name) for name in names]
            self._wanted.clear()
            future = self._courier.ahead(
                lambda: {name: decode(name, data) for name, data in zip(names, read(keys), strict=True)}
            )
            self._ahead.update(dict.fromkeys(names, future))

    def has_come(self, name: Name) -> bool:
        """Return whether a chunk has been read ahead."""
        waiting = self._ahead.get(name)
        return waiting is not None and waiting.done() and not waiting.exception()

    def fetch(self, name: Name) -> Chunk:
        """Return a chunk that is not in memory: read ahead, or now."""
        self._courier.require_open()
        waiting = self._ahead.pop(name, None)
        if waiting is not None:
            try:
                return waiting.result()[name]
            except StoreError:
                pass  # it may be available by now
        key = self._names.key(name)
        if key in self._full:
            return self.format.decode(name, self._full[key]())
        return self.format.decode(name, self._courier.get_all([key])[0])

    def forget(self, level: int, number: int) -> None:
        """Drop chunks of a level that were read ahead, before this one."""
        for name in [name for name in self._ahead if name.level == level and name.number < number]:
            del self._ahead[name]

    def __len__(self) -> int:
        """Return the number of chunks read ahead, finished or not."""
        return len(self._ahead)
