"""Engines: they move data and state to where the windows are computed, and compute nothing themselves."""
