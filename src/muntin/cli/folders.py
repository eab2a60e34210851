"""Folders of files: which files lie in them, and the columns that the names of subfolders hold."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from muntin.cli.errors import InputError

_NULL = "__HIVE_DEFAULT_PARTITION__"
_TYPES = (pa.int32(), pa.int64(), pa.float64(), pa.date32())
"""What values may be, if all of a column are; text otherwise."""


def files_in(folder: Path, suffixes: Collection[str]) -> Iterator[Path]:
    """Yield the files with one of these suffixes in a folder and its subfolders.

    Ignores names that begin with a dot or an underscore: what others are about to write, and their notes.
    """
    seen = {os.path.realpath(folder)}
    for root, folders, names in os.walk(folder, followlinks=True):
        for name in list(folders):
            real = os.path.realpath(Path(root, name))
            if _is_hidden(name) or real in seen:  # links may lead round in a circle
                folders.remove(name)
            seen.add(real)
        files = (Path(root, name) for name in names if not _is_hidden(name))
        yield from (each for each in files if each.suffix.lower() in suffixes and each.is_file())


def _is_hidden(name: str) -> bool:
    return name[0] == "." or (name[0] == "_" and "=" not in name)


@dataclass(frozen=True)
class FolderColumns:
    """The columns in the names of subfolders, `name=value`, as Spark and Hive write them."""

    root: Path
    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, root: Path, files: Collection[Path]) -> FolderColumns:
        """Return the columns of the folders of some files: of the first type that takes all of their values."""
        texts = {file: _texts(root, file) for file in files}
        names = next(iter(texts.values()), {})
        for file, each in texts.items():
            _require_same(file, each, names)
        columns = {name: pa.array({each[name] for each in texts.values()}, pa.string()) for name in names}
        return cls(root, {name: _type_of(column) for name, column in columns.items()})

    def values(self, file: Path) -> dict[str, pa.Scalar]:
        """Return the values of a file's folders; reject a file in folders of other columns, or of other types."""
        texts = _texts(self.root, file)
        _require_same(file, texts, self.types)
        found = {}
        for name, text in texts.items():
            try:
                found[name] = pa.scalar(text, pa.string()).cast(self.types[name])
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"{file}: its folder has {text!r} for {name!r}, and other folders have {self.types[name]}"
                ) from error
        return found


def _texts(root: Path, file: Path) -> dict[str, str | None]:
    """Return the values of a file's folders, as they are written.

    >>> _texts(Path("in"), Path("in/day=2024-03-01/plug=a%2Fb/1.csv"))
    {'day': '2024-03-01', 'plug': 'a/b'}
    """
    if file == root:
        return {}
    pairs = (part.partition("=") for part in file.relative_to(root).parts[:-1] if "=" in part)
    return {unquote(name): None if text == _NULL else unquote(text) for name, _, text in pairs}


def _require_same(file: Path, names: Collection[str], others: Collection[str]) -> None:
    if set(names) != set(others):
        mine, theirs = (", ".join(map(repr, each)) or "none" for each in (names, others))
        raise InputError(f"{file}: the columns in the names of its folders are {mine}, those of other files {theirs}")


def _type_of(texts: pa.Array) -> pa.DataType:
    for kind in _TYPES if texts.null_count < len(texts) else ():
        try:
            values = texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        if not pa.types.is_floating(kind) or pc.all(pc.is_finite(values)).as_py():  # 'nan' and 'inf' are names
            return kind
    return pa.string()
