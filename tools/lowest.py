"""Writes the lowest versions that `pyproject.toml` allows as constraints for pip: what `make lowest` installs.

python tools/lowest.py test > constraints.txt     # of the package itself and its extra `test`, with the extras of that
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extras>[\w,.-]+)\])?(>=(?P<lowest>[\w.]+))?[^;]*(?P<marker>;.*)?")


def constraints(project: dict[str, object], *extras: str) -> list[str]:
    """Return a line for each requirement of the package and of its extras, theirs included.

    >>> more = {"a": ["x>=1.2,<3", "me[b]"], "b": ["y>=4,<5; python_version < '3.14'"]}
    >>> constraints({"name": "me", "dependencies": ["z>=7"], "optional-dependencies": more}, "a")
    ['x==1.2', "y==4; python_version < '3.14'", 'z==7']
    """
    return sorted(set(_lines(project, list(extras))))


def _lines(project: dict[str, object], extras: list[str]) -> Iterator[str]:
    of_extra = project["optional-dependencies"]
    assert isinstance(of_extra, dict)
    waiting, seen = [project["dependencies"], *(of_extra[each] for each in extras)], set(extras)
    while waiting:
        for requirement in waiting.pop():
            found = _REQUIREMENT.fullmatch(requirement)
            if found is None:
                raise ValueError(f"{requirement!r} is not of the form name>=lowest,<next")
            if found["name"] == project["name"]:
                new = set(found["extras"].split(",")) - seen
                seen |= new
                waiting += [of_extra[each] for each in new]
            elif found["lowest"] is None:
                raise ValueError(f"{requirement!r} names no lowest version")
            else:
                yield f"{found['name']}=={found['lowest']}{found['marker'] or ''}"


def main(*extras: str) -> int:
    """Print the constraints of some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print("\n".join(constraints(project, *extras)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
