"""Queries: windows and aggregates over rows."""

from muntin.query.query import Query

__all__ = ["Query"]
