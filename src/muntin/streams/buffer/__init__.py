"""The tuple buffer: rows are kept as they are, and windows found among them. Exact for every kind of window."""
