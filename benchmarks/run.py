"""Runs the benchmarks: `python benchmarks/run.py [NAME ...] [OPTION ...]`; `--help` names the options.

A name also stands for all that begin with it and `_`: `slicing` for `slicing_rows` and the like. Without a name all
run, in the order of the list, about fifteen minutes, and twenty for Spark. Exits with 0 whether or not targets are
reached.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("MUNTIN_COMPILE", "wait")  # read when muntin is imported: measure machine code

from harness import (
    Figure,
    as_json,
    count_processor_time,
    environment,
    remember,
    show,
    show_summary,
)

BAD_INPUT = 2
PAGE_WRITER = Path(__file__).resolve().parent.parent / "tools" / "measurements.py"
EXPERIMENTS = (
    "slide_extremes",
    "slide_moments",
    "slide_by_time",
    "over",
    "words",
    "ask",
    "serving",
    "expressions",
    "own_aggregation",
    "fused",
    "threads",
    "structures",
    "flat_fat",
    "boundary",
    "latency",
    "median",
    "holistic",
    "count_windows",
    "monoid_trees",
    "cold_start",
    "fiba",
    "citi_bike",
    "of_papers",
    "keys",
    "slicing_rows",
    "slicing_rivals",
    "slicing_latency",
    "slicing_keys",
    "table_run",
    "lazy_tables",
    "slicing_memory",
    "small_pushes",
    "incremental",
    "tiles_push",
    "holistic_frames",
    "living_state",
    "words_per",
    "spark_batch",
    "spark_over",
    "spark_streaming",
    "spark_state",
)


def named(name: str) -> list[str]:
    """Return the experiments that a name stands for."""
    return [each for each in EXPERIMENTS if each == name or each.startswith(f"{name}_")]


def first_line(name: str) -> str:
    """Return the summary of an experiment, without importing it: its rivals need not be installed."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


OF_STORES = {"stores.Lmdb": "lmdb", "stores.Redis": "redis"}
"""What stores import when they are opened."""


def packages(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the packages that an experiment imports, directly or by a file of this folder, at any level."""
    path = Path(__file__).parent / f"{name}.py"
    files = [path] if path.exists() else list((path.parent / name).rglob("*.py"))
    texts = [each.read_text(encoding="utf-8") for each in files]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    out_of = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    found = {each.partition(".")[0] for each in plain | out_of} - sys.stdlib_module_names - {"muntin", name} - seen
    here = {each for each in found if (path.parent / each).is_dir() or (path.parent / f"{each}.py").exists()}
    stored = {package for use, package in OF_STORES.items() if any(use in text for text in texts)}
    return (found - here).union(stored, *(packages(each, seen | found | {name}) for each in here))


def require_packages(names: Sequence[str]) -> None:
    """Report missing packages, and the remedy, before anything is measured."""
    for name in names:
        missing = sorted(each for each in packages(name) if importlib.util.find_spec(each) is None)
        if missing:
            print(f"the benchmark {name} needs {', '.join(missing)}: pip install 'muntin[bench]'", file=sys.stderr)
            sys.exit(BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout; the tables go to stderr")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and few rounds: a smoke test")
    parser.add_argument("--cpu", action="store_true", help="processor time of one thread, for a machine that is shared")
    parser.add_argument(
        "--write-readme", action="store_true", help="put the figures of this run into README.md and docs/, in a clone"
    )
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if not named(name)]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    if options.list:
        for name in EXPERIMENTS:
            print(f"{name:<16} {first_line(name)}")
        return
    if options.cpu:
        count_processor_time()
    out = sys.stderr if options.json else sys.stdout
    figures: list[Figure] = []
    chosen = list(dict.fromkeys([each for name in options.names for each in named(name)] or EXPERIMENTS))
    require_packages(chosen)
    for name in chosen:
        found: list[Figure] = []
        for figure in importlib.import_module(name).run(options.quick):
            show(figure, out)
            found.append(figure)
        figures += found
        if options.write_readme:
            remember(found)  # immediately: the others may take half an hour
    show_summary(figures, out)
    print("\n" + ", ".join(f"{name} {value}" for name, value in environment().items()), file=out)
    if options.json:
        print(json.dumps(as_json(figures), indent=2))
    if options.write_readme:
        runpy.run_path(str(PAGE_WRITER))["main"]([])


if __name__ == "__main__":
    main()
