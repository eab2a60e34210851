"""The interface of a store of features: bytes by name, written by one run at a time.

The head is the one value that names the current run; all other names begin with that run. A writer of an earlier run is
refused, and so is one of an earlier batch of the same part, so that whoever stalled overwrites nothing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from muntin.errors import InvalidArgumentError, LeaseError, StoreError

HEAD = b"head"
RUN = 16
"""The length of the name of a run, with which the head begins."""
BATCH = 16
"""The length of the number of a batch, in hexadecimal, with which the record of a part begins."""
CHUNK = 2000
"""How many values are written at a time, where a store is blocked by that."""
T = TypeVar("T")


class FeatureStore(ABC):
    """Values by name. Any thread may call it; each call is one round trip, or one for each chunk of writes."""

    url: str
    """Without passwords, for messages."""

    @abstractmethod
    def read(self, names: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some names as they are at one moment, None where there is none: one round trip."""

    @abstractmethod
    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Write values that no reader knows of yet."""

    @abstractmethod
    def publish(self, run: bytes, part: bytes, record: bytes, values: Mapping[bytes, bytes | None]) -> None:
        """Write the record of a part, and values; None removes one. `record` begins with the number of the batch.

        Raises `SupersededError` if the head names another run, or if the part has a record of a later batch.
        """

    @abstractmethod
    def swap(self, expected: bytes | None, head: bytes) -> bool:
        """Replace the head if it is as expected (None: there is none); return whether it was."""

    @abstractmethod
    def clear(self, kept: bytes | None) -> None:
        """Delete what belongs to other runs than this one; with None all, and the head first."""

    def close(self) -> None:
        """Close the connections."""
        return


class SupersededError(LeaseError):
    """Another writer publishes to this store now."""


def refusal(url: str, *, newer_batch: bool) -> SupersededError:
    """Return the error for a writer that was overtaken."""
    if newer_batch:
        return SupersededError(f"{url} holds a later batch than this one: another attempt has published since")
    return SupersededError(
        f"another stream publishes to {url} since: this one was replaced, or the store was deleted. Go on with the "
        "other one, or begin a new stream with serve="
    )


def patiently(call: Callable[[], T], seconds: float, wait: Callable[[float], object] | None = None) -> T:
    """Return what a call returns, tried again while the store is away, less and less often; fail after `seconds`.

    >>> answers = iter([StoreError("away"), StoreError("away"), 7])
    >>> def call():
    ...     answer = next(answers)
    ...     if isinstance(answer, Exception):
    ...         raise answer
    ...     return answer
    >>> patiently(call, 1.0, wait=lambda seconds: print(f"wait {seconds}"))
    wait 0.05
    wait 0.1
    7
    """
    pause, waited = 0.05, 0.0
    while True:
        try:
            return call()
        except SupersededError:
            raise
        except StoreError as error:
            if waited >= seconds:
                raise StoreError(f"{error} (tried for {seconds:g} s)") from error
            pause = min(pause, seconds - waited)
            (wait or time.sleep)(pause)
            waited += pause
            pause = min(2 * pause, 5.0)


def chunks(values: Mapping[bytes, T], size: int) -> Iterator[dict[bytes, T]]:
    """Yield the items in chunks; one that is empty if there are none."""
    items = iter(values.items())
    yield dict(islice(items, size))
    while chunk := dict(islice(items, size)):
        yield chunk


def checked_name(name: str, what: str, url: str) -> str:
    """Return a name of an option that may stand in SQL, or in a key; reject any other."""
    if not name or not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
        raise InvalidArgumentError(f"{what} is {name!r} in {url}; give letters, digits and underscores")
    return name


def split(values: Mapping[bytes, bytes | None]) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Return the values to write, and the names to delete."""
    written = {name: value for name, value in values.items() if value is not None}
    return written, [name for name, value in values.items() if value is None]


def in_order(names: Sequence[bytes], found: Iterable[tuple[bytes, bytes]]) -> list[bytes | None]:
    """Return values in the order of their names, None where there is none."""
    held = {bytes(name): bytes(value) for name, value in found}
    return [held.get(name) for name in names]
