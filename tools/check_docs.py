"""Runs the Python of the documentation, so that what it shows is what happens.

    python tools/check_docs.py [--spark] [FILE ...]

The ```python blocks of a page run from top to bottom in one namespace. Where a line is an expression with a comment
behind it, the comment is what its value must look like:

    agg.max("v").commutative  # True

or, where a line would be too long for a page, the lines below it that begin with `#>` are:

    muntin.show(answers)
    #> window   n
    #> 0 to 10  2

A block that begins with the line `# raises NameOfError` must raise that error. What a block prints must be what a
```text block right behind it shows, if there is one. Pages with the line
<!-- needs: spark --> run only with --spark. Without files: README.md and docs/.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import linecache
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS_SPARK = "<!-- needs: spark -->"
SHOWN = re.compile(r"\s*^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
BELOW = "#>"
RAISES = re.compile(r"# raises (\w+)")


def run_page(path: Path, *, spark: bool = False) -> list[str]:
    """Run the blocks of one page, unless it needs Spark and there is none; return what was not as it says."""
    text = path.read_text()
    if NEEDS_SPARK in text and not spark:
        return []
    space: dict[str, Any] = {"__name__": "__page__"}
    wrong: list[str] = []
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 2
        where = f"{path.relative_to(ROOT)}:{line}"
        expected = RAISES.match(block[1])
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                wrong += run_block(block[1], where, space)
        except Exception as error:
            if expected is None or type(error).__name__ != expected[1]:
                wrong.append(f"{where}: {type(error).__name__}: {error}")
        else:
            if expected is not None:
                wrong.append(f"{where}: nothing raised {expected[1]}")
        shown = SHOWN.match(text, block.end())
        if printed.getvalue() and shown is not None and printed.getvalue().rstrip() != shown[1].rstrip():
            wrong.append(f"{where}: prints what is not shown:\n{printed.getvalue()}")
    return wrong


def run_block(code: str, where: str, space: dict[str, Any]) -> list[str]:
    """Run one block, comparing expressions with the comments behind them."""
    filename = f"<{where}>"
    lines = code.splitlines(keepends=True)
    linecache.cache[filename] = (len(code), None, lines, filename)  # definitions read their own source
    wrong = []
    for node in ast.parse(code).body:
        says = shown_result(node, lines) if isinstance(node, ast.Expr) else None
        if isinstance(node, ast.Expr) and says is not None:
            value = eval(compile(ast.Expression(node.value), filename, "eval"), space)
            if _stripped(repr(value)) != says:
                wrong.append(f"{where} + {node.lineno - 1}: says {says}, is {value!r}")
        else:
            exec(compile(ast.Module([node], []), filename, "exec"), space)
    return wrong


def shown_result(node: ast.Expr, lines: list[str]) -> str | None:
    """Return what a page says of the value of an expression: behind it, or in the lines below; None if it does not."""
    end = node.end_lineno or 1
    below = list(itertools.takewhile(lambda line: line.startswith(BELOW), lines[end:]))
    if below:
        return "\n".join(line.removeprefix(BELOW).removeprefix(" ").rstrip() for line in below)
    _, mark, comment = lines[end - 1][node.end_col_offset or 0 :].partition("#")
    return comment.strip() if mark else None


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


def main(names: list[str]) -> int:
    """Run the pages; say what is wrong."""
    spark = "--spark" in names
    pages = [Path(name).resolve() for name in names if name != "--spark"] or [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    wrong = [problem for page in pages for problem in run_page(page, spark=spark)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
