"""Aggregators: how the states of a window are merged. `from muntin import aggregators`."""

from muntin.aggregators.base import Aggregator
from muntin.aggregators.base_intervals import BaseIntervals
from muntin.aggregators.boundary import Boundary
from muntin.aggregators.daba import Daba
from muntin.aggregators.enforced import Enforced
from muntin.aggregators.fiba import Fiba
from muntin.aggregators.flat_fat import FlatFat
from muntin.aggregators.flat_fit import FlatFit
from muntin.aggregators.log_monoid_tree import LogMonoidTree
from muntin.aggregators.monoid_tree import MonoidTree
from muntin.aggregators.recalculate import Recalculate
from muntin.aggregators.slick_deque import SlickDeque
from muntin.aggregators.subtract_on_evict import SubtractOnEvict
from muntin.aggregators.table import Entry, register
from muntin.aggregators.two_stacks import TwoStacks

__all__ = [
    "Aggregator",
    "BaseIntervals",
    "Boundary",
    "Daba",
    "Enforced",
    "Entry",
    "Fiba",
    "FlatFat",
    "FlatFit",
    "LogMonoidTree",
    "MonoidTree",
    "Recalculate",
    "SlickDeque",
    "SubtractOnEvict",
    "TwoStacks",
    "register",
]
