"""What `Query.spark` needs besides: a session, how a query is answered, its progress, its late rows.

Imports pyspark only on use.
"""

from muntin.spark.explanation import explain
from muntin.spark.java import use_packaged_java
from muntin.spark.late import split
from muntin.spark.progress import Progress, progress
from muntin.spark.rescaling import rescale
from muntin.spark.saving import savepoint
from muntin.spark.session import session
from muntin.spark.state import State, state
from muntin.spark.upsert import upsert
from muntin.spark.warm import warm

__all__ = [
    "Progress",
    "State",
    "explain",
    "progress",
    "rescale",
    "savepoint",
    "session",
    "split",
    "state",
    "upsert",
    "use_packaged_java",
    "warm",
]
