"""Aggregators: how the states of a window are merged. `from muntin import aggregators`."""

from muntin.aggregators.base import Aggregator
from muntin.aggregators.daba import Daba
from muntin.aggregators.enforced import Enforced
from muntin.aggregators.flat_fit import FlatFit
from muntin.aggregators.log_monoid_tree import LogMonoidTree
from muntin.aggregators.monoid_tree import MonoidTree
from muntin.aggregators.recalculate import Recalculate
from muntin.aggregators.slick_deque import SlickDeque
from muntin.aggregators.subtract_on_evict import SubtractOnEvict
from muntin.aggregators.two_stacks import TwoStacks

__all__ = [
    "Aggregator",
    "Daba",
    "Enforced",
    "FlatFit",
    "LogMonoidTree",
    "MonoidTree",
    "Recalculate",
    "SlickDeque",
    "SubtractOnEvict",
    "TwoStacks",
]
