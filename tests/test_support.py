"""The page that says what works where: it is up to date, and leaves nothing out."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import pytest

from muntin import window
from muntin.windows.base import Window

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "support_matrix.py"))


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert TOOL["page"]() == TOOL["PAGE"].read_text(), "run python tools/support_matrix.py"


@pytest.mark.parametrize("name", [each for each in window.__all__ if each[0].islower() and each != "rows"])
def test_every_kind_of_window_is_on_it(name: str) -> None:
    assert inspect.isfunction(getattr(window, name))
    assert any(text.startswith(f"window.{name}(") for text in TOOL["WINDOWS"])
    assert all(isinstance(each, Window) for each in TOOL["WINDOWS"].values())


def test_a_window_that_is_refused_has_a_dash() -> None:
    cells = TOOL["of_window"](window.tumbling("1 minute"))
    assert cells["`run`"] == "yes"
    assert cells["`over`, `at=`"] == cells["`ask`"] == "-"
