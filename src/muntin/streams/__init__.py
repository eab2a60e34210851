"""Streams: what is kept of the rows that come, and how windows are answered from it."""
