"""A program that asks for features, without Spark: a line of JSON with points in, a line with their answers out."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from spark.served_query import QUERY

import muntin
from muntin.errors import InvalidArgumentError, StoreError


def main(url: str) -> None:
    served = muntin.serving.open(url, QUERY)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            watermark = served.watermark or 0
            times = pa.array([watermark + ahead for ahead in asked["ahead"]], pa.timestamp("us", "UTC"))
            found = served.ask({"card": asked["card"], "ts": times}).drop_columns("ts").to_pylist()
            said = {"watermark": watermark, "answers": found}
        except StoreError as error:
            said = {"away": str(error)}
        except InvalidArgumentError as error:  # a batch has moved the watermark since it was read
            if "let go" not in str(error):
                raise
            said = {"away": str(error)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
