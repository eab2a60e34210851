"""For your own tests: the laws an aggregation must obey, and an oracle to compare windows with."""

from muntin.testing import laws, oracle

__all__ = ["laws", "oracle"]
