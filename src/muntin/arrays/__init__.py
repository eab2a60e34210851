"""Arrays: `slide`, and the windows of sorted rows by the aggregators."""
