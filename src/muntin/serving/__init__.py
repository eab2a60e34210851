"""Features online: what a stream knows of each key, published to a store, and asked from any process.

`Query.stream(serve=url)` and `Query.spark(frame, serve=url)` publish; `open` returns a reader.
"""

from __future__ import annotations

from muntin.serving.served import Served, delete, open  # noqa: A004  # the name is the point

__all__ = ["Served", "delete", "open"]
