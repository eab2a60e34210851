"""Holistic aggregations: sorted, run-length encoded values of each slice, and answers selected across them."""
