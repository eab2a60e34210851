"""The tuple buffer: rows are kept as they are, and windows found anew. Exact for every kind of window."""
