"""The tuple buffer: keeps raw rows, and finds windows among them. Exact for every kind of window."""
