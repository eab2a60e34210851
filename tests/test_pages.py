"""The code of the documentation runs, and says what the pages say. Those that need Spark run where Spark is."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from muntin import Query, agg, window
from muntin.kernels.cache import uncompiled

ROOT = Path(__file__).parents[1]
CHECK = runpy.run_path(str(ROOT / "tools" / "check_docs.py"))
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "```python" in page.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.slow
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with uncompiled(), np.errstate(invalid="ignore"):  # compiled kernels do not warn of infinities either
        assert CHECK["run_page"](page) == []


def named_on(page: str) -> dict[str, Any]:
    """Return the functions that a page quotes by their qualified names, in its order."""
    text = (ROOT / "docs" / page).read_text()
    names = re.findall(r"`(muntin(?:\.\w+)+)`", text)
    return {name: resolve_name(*name.rsplit(".", 2)) for name in names}


def resolve_name(module: str, owner: str, name: str) -> Any:
    return inspect.unwrap(getattr(getattr(importlib.import_module(module), owner), name))


def test_the_way_of_a_row_names_functions_that_a_push_calls_in_that_order() -> None:
    functions = named_on("way-of-a-row.md")
    assert 0 < len(functions) <= 8
    codes = {each.__code__: name for name, each in functions.items()}
    called: list[CodeType] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            called.append(frame.f_code)

    query = Query(window.trailing(10), {"total": agg.sum("v")}, key="card", time="t", watermark=2, allowed_lateness=5)
    stream = query.stream()
    for t in (20, 25):
        stream.push({"card": ["a"], "t": [t], "v": [1]})
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        stream.push({"card": ["a"], "t": [19], "v": [4]})
    finally:
        sys.setprofile(before)
    assert [codes[each] for each in dict.fromkeys(called)] == list(functions)
