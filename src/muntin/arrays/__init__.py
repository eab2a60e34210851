"""Arrays: `slide`, and aggregators over the windows of sorted rows."""
