"""What `import muntin` loads: nothing that is large, and nothing at all before it is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import muntin

LARGE = ["numba", "pyspark", "matplotlib", "pandas", "polars", "duckdb", "lmdb", "redis", "typer", "rich", "sqlglot"]
LARGE += ["bokeh", "tornado", "prometheus_client"]
LOADED = "import json, sys; {}; print(json.dumps(sorted(sys.modules)))"


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a new interpreter has after a statement."""
    command = [sys.executable, "-c", LOADED.format(statement)]
    return set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def test_the_package_alone_loads_no_other() -> None:
    found = loaded_by("import muntin")
    assert not found & {*LARGE, "numpy", "pyarrow"}
    assert {name for name in found if name.startswith("muntin")} == {"muntin", "muntin._version"}


def test_no_public_name_loads_a_large_package() -> None:
    found = loaded_by("from muntin import *")
    assert "muntin.spark" in found  # all of them were loaded
    assert not found & {*LARGE}


def test_queries_without_expressions_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNTIN_UNCOMPILED", "1")
    calls = (
        "import muntin.spark.batch, muntin.spark.over, muntin.spark.streaming, muntin.spark.processor\n"
        "from muntin import Query, agg, window\n"
        "query = Query(window.trailing(5), {'n': agg.count()}, time='t')\n"
        "rows = {'t': [1, 2]}\n"
        "stream = query.stream(history=rows)\n"
        "query.stream(stream.snapshot()).push(rows), query.run(rows), query.over(rows), query.explain()"
    )
    assert "sqlglot" not in loaded_by(f"exec({calls!r})")


def test_a_query_loads_no_engine() -> None:
    found = loaded_by("from muntin import Query, agg, rows, window")
    engines = {"muntin.streams", "muntin.tables", "muntin.plans", "muntin.spark", "muntin.arrays.runner"}
    assert not found & engines


def test_the_first_slide_loads_no_large_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNTIN_UNCOMPILED", "1")  # compiled, it needs numba, and that alone
    call = "from muntin import agg, slide; assert slide([1, 5, 2], agg.max('v'), range=2).tolist() == [1, 5, 5]"
    assert not loaded_by(call) & {*LARGE}


def test_an_aggregation_loads_only_its_own_module() -> None:
    found = loaded_by("from muntin import agg; agg.max('v'); assert 'std' in dir(agg)")
    assert "muntin.aggregations.extremes" in found
    assert not found & {"muntin.aggregations.statistics", "muntin.aggregations.sketches"}


LINEAR_ALGEBRA = """
import numpy as np, numba
from numba.core.registry import cpu_target
import muntin.kernels.intrinsics
cpu_target.target_context.refresh()
assert "numba.np.arraymath" in sys.modules and "scipy.linalg" not in sys.modules
assert numba.njit(lambda a: a @ a)(np.array([3.0, 4.0])) == 25.0
assert "scipy.linalg" in sys.modules
"""


def test_kernels_load_scipy_only_where_one_needs_it() -> None:
    pytest.importorskip("scipy", reason="numba has no linear algebra without scipy")
    loaded_by(f"exec({LINEAR_ALGEBRA!r})")


def test_workers_of_spark_are_forked_with_all_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNTIN_UNCOMPILED", "1")  # else numba, too
    found = loaded_by("from muntin.spark.daemon import load; load(); import gc; assert gc.get_freeze_count()")
    assert {"pyspark.worker", "pandas", "pyarrow.compute", "muntin.spark.bucket", "muntin.streams.slices"} <= found


@pytest.mark.parametrize("name", muntin.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(muntin, name) is getattr(muntin, name)
    assert name in dir(muntin)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="there is no muntin.sum; there are"):
        _ = muntin.sum


IN_A_ZIP = """
import os
import numpy as np
import muntin
from muntin import Query, agg, window

assert ".zip" in muntin.__file__, muntin.__file__

@agg.define(state="f8")
class own:
    def lift(v):
        return v * 2.0

    def combine(a, b):
        return a + b

print(muntin.slide(np.arange(4.0), own("v"), range=2).tolist())
query = Query(window.tumbling(2), {"n": agg.sum("v")}, time="t")
print(query.run({"t": [0, 1, 2], "v": [1, 2, 3]})["n"].to_pylist())
print(muntin.cache_info().folder.is_relative_to(os.environ["MUNTIN_CACHE_DIR"]))
"""


def test_the_package_works_from_a_zip(tmp_path: Path) -> None:
    """Spark ships it so: `addPyFile("muntin.zip")`. Own definitions and kernels, compiled, need no folder."""
    package = Path(muntin.__path__[0])
    shutil.make_archive(str(tmp_path / "muntin"), "zip", package.parent, package.name)
    (tmp_path / "script.py").write_text(IN_A_ZIP)
    paths = [tmp_path / "muntin.zip", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "MUNTIN_UNCOMPILED": ""}
    environment["MUNTIN_CACHE_DIR"] = str(tmp_path / "cache")
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[0.0, 2.0, 6.0, 10.0]", "[3, 3]", "True"]
