"""What a user of `Query.spark` may need besides: a session, how a query is answered, what it has done, its late rows.

Nothing here imports pyspark before it is used.
"""

from muntin.engines.spark.batch import explain
from muntin.engines.spark.java import use_packaged_java
from muntin.engines.spark.late import split
from muntin.engines.spark.progress import Progress, progress
from muntin.engines.spark.session import session

__all__ = ["Progress", "explain", "progress", "session", "split", "use_packaged_java"]
