"""Slicing: windows, aggregators and time brought together."""
