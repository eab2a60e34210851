"""Reads the documentation as it was built, and fails if a page of it is broken.

    python tools/check_site.py [FOLDER]

Checked are: doctests that became quotations; names of the public interface that the reference leaves out, or shows
under an internal path or without a signature; code that is wider than the page; links that lead nowhere when the pages
are opened as files; words that people search for and would not find.
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
SEARCHED = ("rolling", "closed", "groupby", "distinct", "ewm", "resample", "OVER")
"""What people type who come from pandas, polars or SQL."""
WIDEST = 115
"""Characters of a line of code that are visible at 1280 pixels."""
WIDEST_SIGNATURE = 84
RETURNED = ("CacheInfo", "Chosen", "QueryPlan", "Stream", "StorePlan", "Watching", "WindowPlan")
"""What users are given and do not make themselves."""
TESTING = ("muntin.testing.laws.check", "muntin.testing.oracle.recompute", "muntin.testing.faults.Faulty")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


def public_names() -> dict[str, bool]:
    """Return every public name with the path that users write, and whether it has a signature."""
    import muntin

    names: dict[str, object] = {}
    for name in muntin.__all__:
        thing = getattr(muntin, name)
        if inspect.ismodule(thing):
            names |= {f"muntin.{name}.{each}": getattr(thing, each) for each in _names_of(thing)}
        elif name != "__version__":
            names[f"muntin.{name}"] = thing
    first = {id(thing): name for name, thing in reversed(names.items())}  # a name that means the same is not needed
    return {name: _has_signature(thing) for name, thing in names.items() if first[id(thing)] == name}


def _names_of(module: object) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    own = (each for each in vars(module).items() if getattr(each[1], "__module__", "") == module.__name__)  # type: ignore[attr-defined]
    return [name for name, thing in own if not name.startswith("_") and callable(thing)]


def _has_signature(thing: object) -> bool:
    if not isinstance(thing, type):
        return callable(thing)
    return not issubclass(thing, BaseException | enum.Enum) and thing.__init__ is not object.__init__


class Page(HTMLParser):
    """What is checked of one page: its headings, signatures, code, quotations and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: dict[str, str] = {}
        """The texts of the headings of the reference, by their ids."""
        self.signed: set[str] = set()
        """The ids of those that a signature follows."""
        self.signatures: list[str] = []
        self.code: list[str] = []
        self.prose: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        """What a browser loads with the page."""
        self.ids: set[str] = set()
        self.quotes = 0
        self._open: list[tuple[str, str]] = []
        self._heading: str | None = None
        self._text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a heading, a signature, code or a quotation begins."""
        given = {name: value or "" for name, value in attrs}
        kinds = given.get("class", "").split()
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag in ("script", "img", "link", "iframe"):
            self.loaded += [given[name] for name in ("href", "src") if name in given]
        self.quotes += tag == "blockquote"
        role = ""
        if re.fullmatch("h[1-6]", tag) and "doc-heading" in kinds:
            role, self._heading, self._text = "heading", given.get("id", ""), []
        elif "doc-signature" in kinds:
            role, self._text = "signature", []
        elif "language-text" in kinds:
            role = "wrapped"
        elif tag == "pre" and not self._within("signature") and not self._within("wrapped"):
            role, self._text = "code", []
        elif tag in ("script", "style", "code"):
            role = "no prose"
        if tag not in VOID:
            self._open.append((tag, role))

    def handle_endtag(self, tag: str) -> None:
        """Note what has been read when it ends."""
        if tag not in [name for name, _ in self._open]:
            return
        while self._open:
            name, role = self._open.pop()
            self._end(role)
            if name == tag:
                return

    def _end(self, role: str) -> None:
        text = "".join(self._text)
        if role == "heading" and self._heading is not None:
            self.headings[self._heading] = " ".join(text.replace("¶", "").split())
        elif role == "signature":
            self.signatures.append(text)
            if self._heading is not None:
                self.signed.add(self._heading)
        elif role == "code":
            self.code.append(text)

    def handle_data(self, data: str) -> None:
        """Take text to where it belongs."""
        if any(self._within(role) for role in ("heading", "signature", "code")):
            self._text.append(data)
        elif not self._within("no prose"):
            self.prose.append(data)

    def _within(self, role: str) -> bool:
        return any(each == role for _, each in self._open)


# ---------------------------------------------------------------- what may be wrong


def problems_of_page(name: str, page: Page) -> Iterator[str]:
    """Yield what is wrong with one page by itself."""
    if any(">>>" in text for text in page.prose):
        yield f"{name}: a doctest is shown as prose"
    if name.startswith("reference/") and page.quotes:
        yield f"{name}: {page.quotes} quotations; docstrings have none, so that a doctest has become one"
    for code in page.code:
        wide = max(code.splitlines(), key=len, default="")
        if len(wide) > WIDEST:
            yield f"{name}: a line of code has {len(wide)} characters, and {WIDEST} are visible: {wide}"
    for signature in page.signatures:
        wide = max(signature.splitlines(), key=len, default="")
        if len(wide) > WIDEST_SIGNATURE:
            yield f"{name}: a line of a signature has {len(wide)} characters, and {WIDEST_SIGNATURE} fit: {wide}"


def problems_of_reference(pages: Mapping[str, Page], public: Mapping[str, bool]) -> Iterator[str]:
    """Yield public names that are left out, headings that are internal paths, and missing signatures."""
    known = {**public, **dict.fromkeys((*RETURNED, *TESTING), True)}
    missing = dict(known)
    for name, page in pages.items():
        for heading, text in page.headings.items():
            shown = text.split(" ")[0].partition("(")[0]
            if shown.startswith("muntin.") and shown not in known:
                yield f"{name}: the heading {shown!r} is an internal path"
            if missing.pop(shown, False) and heading not in page.signed:
                yield f"{name}: {shown} has no signature"
    yield from (f"the reference leaves out {name}" for name in missing)


def problems_of_links(folder: Path, pages: Mapping[str, Page]) -> Iterator[str]:
    """Yield links that lead to no file, or to no place in it, where the pages are opened as files."""
    for name, page in pages.items():
        yield from (f"{name}: {link} is loaded from the network" for link in page.loaded if urlsplit(link).netloc)
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
            if not target.is_file():
                yield f"{name}: the link {link!r} leads to no file"
                continue
            inside = target.resolve().is_relative_to(folder.resolve()) and target.resolve().relative_to(
                folder.resolve()
            )
            other = pages.get(str(inside)) if inside else None
            if other is not None and parts.fragment and unquote(parts.fragment) not in other.ids:
                yield f"{name}: the link {link!r} leads to no place of that page"


def problems_of_search(index: Mapping[str, list[Mapping[str, str]]], words: Iterable[str] = SEARCHED) -> Iterator[str]:
    """Yield words that people search for and that are in no heading or text."""
    texts = [f"{each['title']} {each['text']}" for each in index["docs"]]
    for word in words:
        if not any(re.search(rf"\b{re.escape(word)}\b", text) for text in texts):
            yield f"the search would find nothing for {word!r}"


def problems(folder: Path) -> list[str]:
    """Return all that is wrong with the documentation in a folder. O(bytes of the pages)."""
    files = sorted(folder.rglob("*.html"))
    pages = {str(path.relative_to(folder)): Page(path.read_text()) for path in files if path.name != "404.html"}
    reference = {name: page for name, page in pages.items() if name.startswith("reference/")}
    return [
        *(problem for name, page in pages.items() for problem in problems_of_page(name, page)),
        *problems_of_reference(reference, public_names()),
        *problems_of_links(folder, pages),
        *problems_of_search(json.loads((folder / "search" / "search_index.json").read_text())),
    ]


def main(arguments: list[str]) -> int:
    """Check the pages; say what is wrong."""
    wrong = problems(Path(arguments[0]) if arguments else ROOT / "site")
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
