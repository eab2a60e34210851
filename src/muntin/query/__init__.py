"""Queries: what is asked, over which rows."""

from muntin.query.query import Query

__all__ = ["Query"]
