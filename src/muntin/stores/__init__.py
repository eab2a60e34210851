"""Stores: where a window keeps what it does not need in memory. Bytes in, bytes out.

`Memory` is a dict, for tests and as an example; `Lmdb` is a file on disk, in this process; `Redis` is a server.
"""

from muntin.stores.base import Lease, Store, numbered
from muntin.stores.lmdb import Lmdb
from muntin.stores.memory import Memory
from muntin.stores.redis import Redis

__all__ = ["Lease", "Lmdb", "Memory", "Redis", "Store", "numbered"]
