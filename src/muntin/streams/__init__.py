"""Streams: what is kept of arriving rows, and how windows are answered from it."""
