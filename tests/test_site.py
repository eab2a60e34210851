"""What checks the built documentation finds every fault that it is for: each is planted in a page that is right."""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from pathlib import Path

import pytest

from muntin import agg

DOCS = Path(__file__).parents[1] / "docs"
CHECK = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "check_site.py"))
PUBLIC: Mapping[str, bool] = {"muntin.slide": True, "muntin.errors.MuntinError": False}
SIGNATURE = '<div class="language-python doc-signature highlight"><pre><code>f(x)</code></pre></div>'
CODE = '<div class="language-pycon highlight"><pre><code>&gt;&gt;&gt; 1\n1\n</code></pre></div>'


def object_of(name: str, signature: str = SIGNATURE, text: str = CODE) -> str:
    """Return how the reference shows one name."""
    return f'<h2 id="{name}" class="doc doc-heading"><span>{name}</span> <a href="#{name}">¶</a></h2>{signature}{text}'


def whole(**changed: str) -> dict[str, str]:
    """Return a reference in which nothing is wrong, but for the names that are given otherwise."""
    names = [*PUBLIC, *CHECK["RETURNED"], *CHECK["TESTING"]]
    return {name: changed.get(name, object_of(name)) for name in names}


def problems(parts: Mapping[str, str]) -> list[str]:
    page = CHECK["Page"]("<article>" + "".join(parts.values()) + "</article>")
    name = "reference/all.html"
    return [*CHECK["problems_of_page"](name, page), *CHECK["problems_of_reference"]({name: page}, PUBLIC)]


def test_nothing_is_wrong_with_a_page_that_is_right() -> None:
    assert problems(whole()) == []


QUOTED = "<blockquote><blockquote><blockquote><p>slide(1)</p></blockquote></blockquote></blockquote>"
WIDE = f"<pre><code>{'x' * 130}</code></pre>"
CUT = SIGNATURE.replace("f(x)", f"f({', '.join(['argument: Any'] * 12)})")
FAULTS = {
    "a doctest that became a quotation": (object_of("muntin.slide", text=QUOTED), "quotations"),
    "a doctest that became prose": (object_of("muntin.slide", text="<p>&gt;&gt;&gt; 1</p>"), "shown as prose"),
    "a name without a signature": (object_of("muntin.slide", signature=""), "muntin.slide has no signature"),
    "a name that is left out": ("", "leaves out muntin.slide"),
    "an internal path": (object_of("muntin.arrays.slide.slide"), "'muntin.arrays.slide.slide' is an internal path"),
    "a signature that is cut": (object_of("muntin.slide", signature=CUT), "line of a signature has"),
    "code that is too wide": (object_of("muntin.slide", text=WIDE), "a line of code has 130 characters"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    planted, told = FAULTS[fault]
    found = problems(whole(**{"muntin.slide": planted}))
    assert any(told in each for each in found), found


def test_links_must_lead_to_files_and_places(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h2 id="here"></h2>')
    links = (
        '<a href="a.html#here"></a><a href="b.html"></a><a href="a.html#there"></a><script src="https://x/y"></script>'
    )
    pages = {"a.html": CHECK["Page"]((tmp_path / "a.html").read_text()), "c.html": CHECK["Page"](links)}
    found = list(CHECK["problems_of_links"](tmp_path, pages))
    assert found == [
        "c.html: https://x/y is loaded from the network",
        "c.html: the link 'b.html' leads to no file",
        "c.html: the link 'a.html#there' leads to no place of that page",
    ]


def test_words_must_be_found() -> None:
    index = {"docs": [{"title": "Coming from pandas", "text": "rolling, OVER"}]}
    assert list(CHECK["problems_of_search"](index, ("rolling", "OVER"))) == []
    assert list(CHECK["problems_of_search"](index, ("ewm", "over"))) == [
        "the search would find nothing for 'ewm'",
        "the search would find nothing for 'over'",
    ]


def test_every_public_name_is_asked_for() -> None:
    public = CHECK["public_names"]()
    assert {"muntin.Query", "muntin.slide", "muntin.warm", "muntin.ProcessingTime", "muntin.latest"} <= public.keys()
    assert {"muntin.spark.session", "muntin.window.session", "muntin.agg.max", "muntin.stores.Lmdb"} <= public.keys()
    assert public["muntin.Query"]
    assert not public["muntin.errors.MuntinError"]


# ---------------------------------------------------------------- the pages as they are written, without building them


def test_the_reference_has_every_public_name() -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE)) | set(
        re.findall(r"heading: (\S+)$", text, re.MULTILINE)
    )
    made = [name for name in agg.__all__ if isinstance(getattr(agg, name), agg.Factory)]
    shown |= {f"muntin.agg.{name}" for name in (*made, "count", "per")}
    wanted = {*CHECK["public_names"](), *CHECK["RETURNED"], *CHECK["TESTING"]}
    assert wanted <= shown, f"docs/reference leaves out {sorted(wanted - shown)}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_code_is_not_wider_than_a_page(page: Path) -> None:
    blocks = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for language, code in blocks if language != "text" for line in code.splitlines()]
    assert [line for line in lines if len(line) > CHECK["WIDEST"]] == []
