"""What a user of `Query.spark` may need besides: a session, what a running query has done, its late rows.

Nothing here imports pyspark before it is used.
"""

from muntin.engines.spark.java import use_packaged_java
from muntin.engines.spark.late import split
from muntin.engines.spark.progress import Progress, progress
from muntin.engines.spark.session import session

__all__ = ["Progress", "progress", "session", "split", "use_packaged_java"]
