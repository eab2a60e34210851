"""The pipeline on Spark. Nothing here imports pyspark before it is used."""
