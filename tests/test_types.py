"""What type checkers and editors see: real signatures of aggregations, and the code of the tutorials."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sampling import THOROUGH

from muntin import agg

ROOT = Path(__file__).parent.parent
STUB = ROOT / "src" / "muntin" / "aggregations" / "__init__.pyi"
TUTORIALS = ("docs/arrays.md", "docs/tutorial-features.md", "docs/tutorial-spark.md", "docs/tutorial-stream.md")
"""Those without definitions of one's own: no checker knows what a class decorator returns."""
SKIPPED = "bokeh.*,hypothesis.*,matplotlib.*,narwhals.*,numba.*,pyspark.*,redis.*"
"""Packages with types of their own that no signature here needs: to read them takes most of the time."""
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRONG = """
import muntin, polars
from muntin import Query, agg, window

agg.max()
agg.max("v", q=1)
agg.quantile("v")
agg.ewm_mean("v", half_life="1h", where=5)
agg.avg
window.rolling
muntin.Qurey
Query(window.tumbling(5), {"n": agg.count()}, tim="t")
Query(window.tumbling(5), {"n": 5})
muntin.slide([1, 2], agg.max("v"), range=2, step=1)
muntin.slide([1, 2], agg.max("v"), range=2).keys()
muntin.slide([1, 2], {"high": agg.max("v")}, range=2).tolist()
Query(window.trailing(5), {"n": agg.count()}).over(polars.DataFrame()).num_rows
Query(window.trailing(5), {"n": agg.count()}).over({}, at=polars.DataFrame()).num_rows
"""
RIGHT = """
import numpy as np
import polars
import muntin
from muntin import Query, agg, rows, window

muntin.slide(np.zeros(3), agg.max("v"), range=2, times=np.arange(3)).tolist()
muntin.slide([1, 2], {"high": agg.max("v")}, range=2, closed="left")["high"].tolist()
muntin.slide({"v": [1]}, agg.max("v"), range=2, return_windows=True)
Query(windows=window.tumbling("1 minute"), aggregates={"n": agg.count()}, key="k")
Query([window.trailing(rows(3)), window.session("5min")], {"n": agg.quantile("v", 0.9, where="ok")}, key=["k"])
Query({"hour": window.trailing("1h", closed="left")}, {"n": agg.ewm_mean("v", half_life="1h")}).run({}).num_rows
agg.by_type("middle", integer=agg.min, any=agg.mean)("v")
Query(window.trailing(5), {"n": agg.count()}).over(polars.DataFrame()).height
Query(window.trailing(5), {"n": agg.count()}).over(polars.DataFrame(), at={"t": [1]}).num_rows
Query(window.tumbling(5), {"n": agg.count()}).run(polars.DataFrame()).height
"""


def signatures() -> dict[str, dict[str, Any]]:
    """Return what the stub says that each aggregation takes: names and defaults."""
    tree = ast.parse(STUB.read_text())
    classes = {each.name: each.body[0] for each in tree.body if isinstance(each, ast.ClassDef)}
    found = {}
    for each in tree.body:
        if isinstance(each, ast.AnnAssign):
            assert isinstance(each.target, ast.Name)
            assert isinstance(each.annotation, ast.Name)
            call = classes[each.annotation.id]
            assert isinstance(call, ast.FunctionDef)
            names = [argument.arg for argument in call.args.args[1:]]
            defaults = [ast.literal_eval(default) for default in call.args.defaults]
            missing = [inspect.Parameter.empty] * (len(names) - len(defaults))
            found[each.target.id] = dict(zip(names, [*missing, *defaults], strict=True))
            assert [argument.arg for argument in call.args.kwonlyargs] == ["skip_nan", "where"]
    return found


def test_the_stub_says_what_the_definitions_take() -> None:
    said = signatures()
    factories = {name for name in agg.__all__ if isinstance(getattr(agg, name), agg.Factory)}
    assert set(said) == factories
    for name, takes in said.items():
        first = getattr(agg, name).first
        asked = dict.fromkeys(first.columns, inspect.Parameter.empty) | first.parameters
        assert list(takes.items()) == list(asked.items()), name


def by_mypy(folder: Path) -> list[str]:
    """Return what mypy says, a line for each error. Pages show the same name in several forms."""
    (folder / "mypy.ini").write_text(f"[mypy]\n[mypy-{SKIPPED}]\nfollow_imports = skip\n")
    command = [sys.executable, "-m", "mypy"]  # in a process of its own: it takes a quarter of a gigabyte
    options = ["--config-file", str(folder / "mypy.ini"), "--ignore-missing-imports", "--no-error-summary"]
    options += ["--cache-dir", str(ROOT / ".mypy_cache" / "tutorials")]  # what has not changed is not read again
    options += ["--disable-error-code", "no-redef", "--follow-imports", "silent"]
    files = sorted(each.name for each in folder.glob("*.py"))  # errors that it knows already have the path of then
    out = subprocess.run([*command, *options, *files], check=False, capture_output=True, text=True, cwd=folder).stdout
    return [line for line in out.splitlines() if ": error:" in line]


def by_pyright(folder: Path) -> list[str]:
    """Return what pyright says, by the build of it that is whole on PyPI, in the mode that pyright itself has.

    It is not asked about attributes of Arrow's arrays: Arrow ships no types, and of two overloads pyright takes the
    first for a value that it knows nothing of, where mypy takes none.
    """
    options = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT / "src")], "reportMissingImports": "none"}
    (folder / "pyrightconfig.json").write_text(json.dumps(options))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, str(folder)]
    out = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder).stdout  # 1 where errors are
    errors = [each for each in json.loads(out)["generalDiagnostics"] if each["severity"] == "error"]
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in errors
        if '"to_pylist" for class "Array"' not in each["message"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("checked", [by_mypy] if THOROUGH == 1 else [by_mypy, by_pyright])
def test_tutorials_pass_the_type_checkers_and_mistakes_do_not(
    checked: Callable[[Path], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run for all files; pyright in a thorough run, since it takes ten seconds."""
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    for page in TUTORIALS:
        blocks = (block for block in BLOCK.findall((ROOT / page).read_text()) if not block.startswith("# raises"))
        (tmp_path / f"{Path(page).stem.replace('-', '_').lower()}.py").write_text("\n".join(blocks))
    (tmp_path / "mistakes.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    lines = checked(tmp_path)
    mistakes = {int(line.split(":")[1]) for line in lines if line.startswith("mistakes.py")}
    assert "\n".join(line for line in lines if not line.startswith("mistakes.py")) == ""
    assert mistakes == set(range(5, 19))
