"""Holistic aggregations: sorted, run-length encoded values per slice, and answers selected across them."""
