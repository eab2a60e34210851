"""Threads that parse at once: Python before 3.11.8 mixes up the depths of their trees."""

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from muntin.aggregators import two_stacks
from muntin.kernels import parsing
from muntin.kernels.parsing import syntax_tree

TEXT = Path(two_stacks.__file__).read_text()


@pytest.fixture
def collector_that_yields() -> Iterator[None]:
    """A collector in whose runs other threads go on, as finalizers let them."""

    def let_others_go_on(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    gc.callbacks.append(let_others_go_on)
    before = gc.get_threshold()
    gc.set_threshold(50, *before[1:])
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_others_go_on)


@pytest.mark.usefixtures("collector_that_yields")
def test_threads_parse_at_once() -> None:
    def deeper(calls: int) -> str:  # the mistake shows where threads differ in the depth of their calls
        return deeper(calls - 1) if calls else ast.unparse(syntax_tree(TEXT))

    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(deeper, [5 * (place % 4) for place in range(12)]))

    assert texts == {ast.unparse(ast.parse(TEXT))}


def test_other_code_that_parses_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([SystemError("AST constructor recursion depth mismatch")] * 3)

    def parse_beside_others(text: str) -> ast.Module:
        for failure in failures:
            raise failure
        return ast.parse(text)

    monkeypatch.setattr(parsing, "ast", SimpleNamespace(parse=parse_beside_others))
    assert ast.unparse(syntax_tree("1+1")) == "1 + 1"


def test_an_error_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> ast.Module:
        raise SystemError("no tree")

    monkeypatch.setattr(parsing, "ast", SimpleNamespace(parse=fail))
    with pytest.raises(SystemError, match="no tree"):
        syntax_tree("1+1")
