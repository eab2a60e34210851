"""Changes the package in small ways, one at a time, and runs the tests that cover the place: does any of them notice?

    python tools/mutants.py [--count 50] [--seed 1] [--jobs 1] [--only stored]

A mutant has one operator, constant or branch changed, a statement left out, or two of them swapped. It is a copy of the
package beside the others, found by PYTHONPATH before this one. It is killed if a test fails, or takes several times as
long as it should. Mutants that nobody could notice are listed in tools/equivalent_mutants.toml, each with its reason,
and are not made. Exits with 1 if one survives.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "muntin"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")

STORED = "tests/stores/test_durable_order.py tests/stores/test_stored_tree.py tests/stores/test_stores.py"
RECOMPUTED = "tests/aggregators/test_against_recomputation.py tests/aggregators/test_contract.py"
STREAMS = "tests/queries/test_stream.py tests/queries/test_transcripts.py tests/streams"
BUCKETS = "tests/spark/test_parts.py tests/spark/test_transcripts.py"

GROUPS: dict[str, tuple[str, str]] = {
    # name: modules, and the tests that cover them. What makes machine code alone (intrinsics.py, linking.py) is left
    # out, since quick tests run plain kernels; so is what needs a running Spark.
    "stored": ("aggregators/stored/*.py", f"{STORED} tests/stores/test_machine.py tests/stores/test_swapped_chunks.py"),
    "stores": ("stores/{base,memory,lmdb}.py", f"{STORED} tests/stores/test_put_if.py tests/test_forks.py"),
    "trees": (
        "aggregators/{monoid_tree,levels,log_monoid_tree}.py",
        f"tests/aggregators/test_monoid_trees.py tests/stores/test_machine.py {RECOMPUTED} tests/test_policies.py",
    ),
    "fiba": (
        "aggregators/fiba/{single,bulk_insert,bulk_evict,nodes,queries,folds}.py",
        f"tests/aggregators/test_fiba.py {RECOMPUTED}",
    ),
    "boundary": (
        "aggregators/boundary*.py",
        f"tests/aggregators/test_boundary.py tests/aggregators/test_boundary_order.py {RECOMPUTED}",
    ),
    "kernels": (
        "aggregators/{two_stacks,daba,flat_fat,flat_fit,slick_deque,subtract_on_evict,blocks,ring}.py",
        f"{RECOMPUTED} tests/aggregators/test_flat_fat.py tests/arrays/test_slide.py",
    ),
    "slices": ("streams/slices/{slices,slicer,known_edges,due,late,panes}.py", STREAMS),
    "snapshots": ("{snapshots,streams/snapshots,streams/state}.py", f"{STREAMS} tests/test_hostile_bytes.py {STORED}"),
    "Spark's state": ("spark/{state,bucket,bucket_state,buckets,chunks,local_chunks,pack,clock}.py", BUCKETS),
}  # fmt: skip

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)
LEFT_OUT = re.compile(r"__repr__|__str__|_?check$|_check_")
"""Functions that are not changed: what is shown, and the structures' checks of themselves."""


class Mutant(NamedTuple):
    """A change of some lines of a file."""

    group: str
    path: Path
    line: int
    before: str
    """The whole lines."""
    after: str
    text: str
    """The whole file, changed."""

    @property
    def key(self) -> tuple[str, ...]:
        """The file, and the lines before and after."""
        return self.path.relative_to(PACKAGE).as_posix(), one_line(self.before), one_line(self.after)

    def __str__(self) -> str:
        """Show the place and the change."""
        file, before, after = self.key
        return f"{file}:{self.line}\n    - {before}\n    + {after}"


def one_line(text: str) -> str:
    """Return a text in one line."""
    return " ".join(text.split())


# ---------------------------------------------------------------- making mutants


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Return expressions that differ from this one in one operator or constant."""
    if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp | ast.AugAssign):
        operators = node.ops if isinstance(node, ast.Compare) else [node.op]
        for place, operator in enumerate(operators):
            if type(operator) in SWAPS:
                changed = copy.deepcopy(node)
                other = SWAPS[type(operator)]()
                if isinstance(changed, ast.Compare):
                    changed.ops[place] = other  # type: ignore[call-overload]  # a comparison for a comparison
                else:
                    changed.op = other  # type: ignore[assignment]  # of the same kind
                yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield ast.Constant(node.value + 1)


def expressions(tree: ast.AST) -> Iterator[ast.AST]:
    """Return what is computed in a function: neither types nor texts, no message of an error, no other function."""
    typed = {id(getattr(tree, name, None)) for name in ("annotation", "returns")}
    for node in ast.iter_child_nodes(tree):
        if id(node) not in typed and not isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.FunctionDef):
            yield node
            yield from expressions(node)


def depend(one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether the order of two statements may matter: one calls something, or sets what the other uses."""
    if any(isinstance(node, ast.Call) for each in (one, other) for node in ast.walk(each)):
        return True

    def names(statement: ast.stmt, *, written: bool) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(statement):
            changed = isinstance(getattr(node, "ctx", None), ast.Store)
            if isinstance(node, ast.Name | ast.Attribute) and (changed or not written):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.Subscript) and changed:
                found |= {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
        return found - {"self"}

    return any(names(a, written=True) & names(b, written=False) for a, b in ((one, other), (other, one)))


class Source:
    """A file, as bytes: what the positions in its tree count."""

    def __init__(self, group: str, path: Path) -> None:
        self.group, self.path = group, path
        self.data = path.read_bytes()
        self.tree = ast.parse(self.data)
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: Any) -> tuple[int, int]:
        """Return where a node begins and ends."""
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def replaced(self, node: Any, begin: int, end: int, after: str | bytes) -> Mutant:
        """Return a mutant with other code in place of a node, or of several."""
        code = after.encode() if isinstance(after, str) else after
        first, last = self.data.rfind(b"\n", 0, begin) + 1, self.data.find(b"\n", end)
        lines = self.data[first:begin], self.data[begin:end], self.data[end:last]
        whole = [b"".join(part).decode() for part in (lines, (lines[0], code, lines[2]))]
        return Mutant(self.group, self.path, node.lineno, *whole, (self.data[:begin] + code + self.data[end:]).decode())

    def mutants(self) -> Iterator[Mutant]:
        """Return all mutants of the functions in the file."""
        for function in ast.walk(self.tree):
            if isinstance(function, ast.FunctionDef) and not LEFT_OUT.match(function.name):
                for node in expressions(function):
                    for changed in changes(node):
                        code = ast.unparse(changed)
                        code = code if isinstance(changed, ast.AugAssign) else f"({code})"
                        yield self.replaced(node, *self.span(node), code)
                for node in ast.walk(function):
                    for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
                        if isinstance(body, list):
                            yield from self._of_statements(body)

    def _of_statements(self, body: list[ast.stmt]) -> Iterator[Mutant]:
        """Return mutants with a statement left out, and with neighbours swapped."""
        for place, node in enumerate(body):
            if not isinstance(node, SIMPLE) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                continue
            begin, end = self.span(node)
            if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
                yield self.replaced(node, begin, end, "pass")
            following = body[place + 1] if place + 1 < len(body) else None
            if isinstance(following, SIMPLE) and depend(node, following):
                first, last = self.span(following)
                yield self.replaced(
                    node, begin, last, self.data[first:last] + self.data[end:first] + self.data[begin:end]
                )


def files_of(pattern: str) -> list[Path]:
    """Return the files of a pattern with one pair of braces at most."""
    if "{" in pattern:
        before, _, rest = pattern.partition("{")
        names, _, after = rest.partition("}")
        return [PACKAGE / f"{before}{name}{after}" for name in names.split(",")]
    return sorted(PACKAGE.glob(pattern))


def known_equivalent() -> set[tuple[str, ...]]:
    """Return the mutants that nobody could notice: file, lines before and after."""
    listed = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(each["file"], each["before"], each["after"]) for each in listed}


def sampled(count: int, seed: int, only: str | None) -> list[Mutant]:
    """Return some mutants: about as many of each group, of any of its places alike."""
    chance = random.Random(seed)
    equivalent = known_equivalent()
    drawn: list[list[Mutant]] = []
    for group, (pattern, _) in GROUPS.items():
        if only is not None and only not in group:
            continue
        each = [mutant for path in files_of(pattern) for mutant in Source(group, path).mutants()]
        each = [mutant for mutant in each if mutant.key not in equivalent]
        chance.shuffle(each)
        drawn.append(each)
    turns = (mutants_of[at] for at in range(max(map(len, drawn))) for mutants_of in drawn if at < len(mutants_of))
    return [mutant for _, mutant in zip(range(count), turns, strict=False)]


# ---------------------------------------------------------------- running tests


def run_tests(group: str, source: Path, limit: float | None) -> tuple[str, float]:
    """Run the tests of a group on a copy of the package; return what became of them, and the seconds."""
    tests = GROUPS[group][1].split()
    quick = [] if group == "Spark's state" else ["-m", "not slow"]  # whose tests all count as slow: none starts Spark
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *quick,
    ]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "MUNTIN_QUICK": "1", "PYTHONPATH": str(source), "HYPOTHESIS_STORAGE_DIRECTORY": folder,
        }  # fmt: skip
        begun = time.monotonic()
        process = subprocess.Popen(
            [*command, *quick, *tests], cwd=ROOT, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return "too long", time.monotonic() - begun
    last = output.strip().splitlines()[-1] if output.strip() else ""
    if process.returncode == 0:
        return "survived", time.monotonic() - begun
    failed = next((line.split(" - ")[0] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))), last)
    return failed, time.monotonic() - begun


def judged(mutant: Mutant, limit: float) -> str:
    """Return what became of a mutant."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "muntin"
        shutil.copytree(PACKAGE, package)  # with the bytecode of all that has not changed
        place = package / mutant.path.relative_to(PACKAGE)
        place.write_text(mutant.text)
        return run_tests(mutant.group, Path(folder), limit)[0]


def main() -> int:
    """Make mutants, and print which of them survive."""
    parser = argparse.ArgumentParser(description="Mutation tests")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="a part of the name of a group")
    given = parser.parse_args()
    chosen = sampled(given.count, given.seed, given.only)
    limits = {}
    for group in dict.fromkeys(mutant.group for mutant in chosen):
        outcome, seconds = run_tests(group, PACKAGE.parent, None)
        if outcome != "survived":
            print(f"the tests of {group!r} fail without any change: {outcome}")
            return 2
        limits[group] = 30 + 3 * seconds
        print(f"{group}: {seconds:.0f} s unchanged", flush=True)
    survivors = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for mutant, outcome in zip(
            chosen, pool.map(lambda each: judged(each, limits[each.group]), chosen), strict=True
        ):
            print(f"{mutant}\n    {outcome}", flush=True)
            if outcome == "survived":
                survivors.append(mutant)
    print(
        f"\n{len(chosen)} mutants, seed {given.seed}: {len(chosen) - len(survivors)} killed, {len(survivors)} survived"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
