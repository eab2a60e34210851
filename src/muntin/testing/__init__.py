"""For your own tests: the laws an aggregation must obey, an oracle to compare windows with, and stores that fail."""

from muntin.testing import faults, laws, oracle

__all__ = ["faults", "laws", "oracle"]
