"""Workers that have no muntin: it is said, or it is shipped with the query."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from pathlib import Path

from spark.processes import TRIES, family

import muntin

PACKAGE = Path(muntin.__path__[0])


def python_without_muntin(where: Path) -> Path:
    """Return a Python that has the packages of this one but muntin."""
    farm = where / "packages"
    farm.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "muntin" not in each.name and each.suffix != ".pth":
            (farm / each.name).symlink_to(each)
    made = where / "python"
    strip = f"tr ':' '\\n' | grep -vx '{PACKAGE.parent}' | paste -sd:"
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    made.write_text(f'#!/bin/sh\nexport PYTHONPATH="$(echo "$PYTHONPATH" | {strip}):{farm}"\nexec "{python}" "$@"\n')
    made.chmod(0o755)
    return made


def test_a_zip_of_the_package_is_enough(tmp_path: Path) -> None:
    """Without it the error says what is missing, and where; with it finite and streaming DataFrames are answered."""
    python = python_without_muntin(tmp_path)
    zipped = shutil.make_archive(str(tmp_path / "muntin"), "zip", PACKAGE.parent, PACKAGE.name)
    for i in range(TRIES):
        where = tmp_path / f"try {i}"
        where.mkdir()
        environment = {"PYSPARK_PYTHON": str(python), "MUNTIN_UNCOMPILED": "1"}
        with family("unequipped.py", where, zipped, log=where / "log", **environment) as program:
            if program.finish():
                break
    else:
        raise TimeoutError("this machine is too busy for Spark")
    refusal = (where / "refusal.txt").read_text()
    assert "muntin is missing in the Python of this Spark worker" in refusal
    assert "install it where the workers run, or ship it with the query" in refusal
    rows = {"t": list(range(10)), "k": ["ab"[i % 2] for i in range(10)]}
    query = muntin.Query(muntin.window.sliding(6, every=2), {"n": muntin.agg.count()}, key="k", time="t")
    ends = [row["window"]["end"] for row in query.run(rows).to_pylist()]
    assert json.loads((where / "answers.json").read_text()) == {
        "finite": len(ends),
        "stream": sum(end <= 9 for end in ends),
        "rows": 10,
    }
