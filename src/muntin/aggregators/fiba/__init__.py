"""Fiba: a finger B-tree of states. Times in any order, single and in bulk."""

from muntin.aggregators.fiba.tree import Fiba

__all__ = ["Fiba"]
