"""The pictures of the documentation are those that the code draws now, and the pages show what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from muntin.kernels.cache import uncompiled

ROOT = Path(__file__).parents[1]


@pytest.fixture
def draw_windows(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    import draw_windows

    return draw_windows


@pytest.fixture
def draw_structures(draw_windows):
    import draw_structures

    return draw_structures


def test_pictures_are_what_the_code_draws_and_pages_show_them(draw_windows, draw_structures, tmp_path, monkeypatch):
    monkeypatch.setattr(draw_windows.Drawing.write, "__defaults__", (tmp_path,))
    with uncompiled():
        draw_windows.main()
        draw_structures.main()
    page = (ROOT / "docs" / "windows.md").read_text()
    for name, expression in draw_windows.KINDS.items():
        assert f"    {expression}\n" in page
        assert f"(figures/window_{name}.svg)" in page
    pages = "".join(each.read_text() for each in (ROOT / "docs").rglob("*.md"))
    for path in tmp_path.iterdir():
        assert f"(figures/{path.name})" in pages
        assert path.read_text() == (ROOT / "docs" / "figures" / path.name).read_text(), path.name


def test_bars_that_overlap_are_in_different_lanes(draw_windows):
    assert draw_windows.lanes([(0, 6, 1), (3, 9, 1), (6, 12, 1)]) == [0, 1, 0]


def test_the_page_of_measurements_is_what_was_measured():
    program = [sys.executable, str(ROOT / "tools" / "measurements.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
