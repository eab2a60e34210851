"""What others install: a wheel and a source distribution build, and work where nothing else of muntin is."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
CHECK = runpy.run_path(str(ROOT / "tools" / "check_docs.py"))
QUERY = """
import muntin
from muntin import Query, agg, window
answer = Query(window.tumbling(10), {"n": agg.count()}, time="t").run({"t": [1, 4, 12]})
print(muntin.__file__, answer["n"].to_pylist())
"""


def run(*command: str, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=ROOT)
    return folder


def test_the_wheel_and_the_source_hold_what_they_should(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {"muntin/py.typed", "muntin/__init__.py", "muntin/_benchmarks/run.py", "muntin/cli/app.py"} <= files
    assert not [each for each in files if each.startswith(("tests/", "docs/"))]
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"README.md", "LICENSE", "Makefile", "pyproject.toml", "docs/index.md", "tools/papers.toml"}
    assert wanted <= names


def test_the_source_installs_and_answers_a_query(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    place = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run(*pip, "--disable-pip-version-check", "--target", str(place), str(source), cwd=tmp_path)
    said = run(sys.executable, "-c", QUERY, cwd=tmp_path, PYTHONPATH=str(place), MUNTIN_CACHE_DIR=str(tmp_path / "c"))
    assert said.split() == [str(place / "muntin" / "__init__.py"), "[2,", "1]"]
    command = "from muntin.cli import main; main()"
    listed = run(sys.executable, "-c", command, "bench", "--list", cwd=tmp_path, PYTHONPATH=str(place))
    assert "slide_extremes" in listed


def test_all_name_the_same_install_line_and_versions() -> None:
    line = "pip install '.[cli,spark,sql,watch]'"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = sorted(re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])), key=lambda v: int(v[2:]))
    first, last = classified[0], classified[-1]
    assert project["requires-python"] == f">={first},<3.{int(last[2:]) + 1}"
    for name in ("README.md", "docs/index.md"):
        text = (ROOT / name).read_text()
        assert line in text
        assert f"Python {first} to {last}" in text
    makefile = (ROOT / "Makefile").read_text()
    assert f"needs Python {first} to {last}" in makefile
    assert f"(3, {first[2:]}) <= sys.version_info < (3, {int(last[2:]) + 1})" in makefile


def all_of(extra: str, extras: dict[str, list[str]]) -> set[str]:
    """Return the names of the packages of an extra, and of the extras in it."""
    names: set[str] = set()
    for each in extras[extra]:
        name, _, more = re.match(r"([\w-]+)(\[([\w,]+)\])?", each).group(1, 2, 3)  # type: ignore[union-attr]
        names |= {part for one in more.split(",") for part in all_of(one, extras)} if name == "muntin" else {name}
    return names


def test_the_extra_of_the_documentation_has_what_its_pages_import() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [re.split(r"[<>=\[]", each)[0] for each in project["dependencies"]]
    installed = {"muntin", *needed, *all_of("docs", project["optional-dependencies"])}
    known, missing = packages_distributions(), set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text()
        if CHECK["NEEDS_SPARK"] in text:
            continue
        code = "\n".join(block[1] for block in CHECK["BLOCK"].finditer(text))
        imported = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.MULTILINE)) - sys.stdlib_module_names
        missing |= {
            (page.name, name)
            for name in imported
            if not installed & {each.replace("_", "-") for each in (name, *known.get(name, ()))}
        }
    assert missing == set()


def test_the_tests_run_without_xdist() -> None:
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/test_suggestions.py", cwd=ROOT)
