"""A declarative pipeline: a stream of calls, the longest of each region by sliding windows, and totals by the hour.

spark-pipelines run --spec examples/pipeline/spark-pipeline.yml
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin import Query, agg, window

spark = SparkSession.active()
SOURCE = Path(__file__).parents[1] / "calls"
CALLS = StructType.fromDDL("ts timestamp, region string, len double, caller string")
HOURS = StructType.fromDDL("region string, ts timestamp")

LONGEST = Query(
    {"hour": window.sliding("1 hour", every="20 minutes"), "session": window.session("10 minutes")},
    {"longest": agg.max("len"), "who": agg.arg_max("len", "caller")},
    key="region",
    time="ts",
    watermark="5 minutes",
)
BEFORE = Query(window.trailing("1 hour", closed="left"), {"before": agg.count()}, key="region", time="ts")
TOTALS = Query(window.tumbling("1 hour"), {"calls": agg.count(), "minutes": agg.sum("len")}, key="region", time="ts")


def source() -> DataFrame:
    """Files of calls, as they come."""
    return spark.readStream.schema(CALLS).json(SOURCE.as_uri())


@dp.table
def calls() -> DataFrame:
    """All calls, as a table."""
    return source()


@dp.table
def longest() -> DataFrame:
    """The longest call of each window. Of tables of the pipeline itself Spark cannot define a query with state yet."""
    return LONGEST.spark(source(), schema=CALLS, buckets=4)


@dp.materialized_view
def totals() -> DataFrame:
    """What came in each hour, of all calls: computed again by each run, from a table of the pipeline."""
    return TOTALS.spark(spark.read.table("calls"), schema=CALLS)


@dp.materialized_view
def busy() -> DataFrame:
    """Each call, with how many there were in its region in the hour before it."""
    return BEFORE.over(spark.read.table("calls"), schema=CALLS)


@dp.materialized_view
def hourly() -> DataFrame:
    """How many calls a region had in the hour before each full one."""
    calls = spark.read.table("calls")
    hours = calls.select("region", F.date_trunc("hour", "ts").alias("ts")).distinct()
    return BEFORE.over(calls, at=hours, schema=(CALLS, HOURS))
