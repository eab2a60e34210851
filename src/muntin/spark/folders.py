"""Folders of checkpoints and answers, on a disk or on any file system that Arrow knows."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from muntin.errors import InvalidArgumentError


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Folder:
    """A folder, or a file in it, on an Arrow file system."""

    system: Any
    place: str
    uri: str

    @classmethod
    def of(cls, path: str | Path, remedy: str) -> Folder:
        """Return the folder of a path or URI; reject one that cannot be reached, with a remedy."""
        uri = str(path).rstrip("/")
        try:
            system, place = fs.FileSystem.from_uri(uri if ":" in uri.partition("/")[0] else str(Path(uri).absolute()))
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"{str(path)!r} is no folder that can be reached from here: {remedy}") from error
        return cls(system, place, uri)

    @property
    def parent(self) -> Folder:
        """The folder that holds it."""
        return replace(self, place=self.place.rpartition("/")[0], uri=self.uri.rpartition("/")[0])

    @property
    def local(self) -> Path | None:
        """Its path, if it is on a disk."""
        return Path(self.place or "/") if isinstance(self.system, fs.LocalFileSystem) else None

    def __truediv__(self, name: str) -> Folder:
        """Return an entry."""
        return replace(self, place=f"{self.place}/{name}", uri=f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.place.rpartition("/")[2]

    def is_there(self) -> bool:
        """Return whether it exists."""
        return bool(self.system.get_file_info(self.place).type != fs.FileType.NotFound)

    def is_file(self) -> bool:
        """Return whether it is a file."""
        return bool(self.system.get_file_info(self.place).type == fs.FileType.File)

    def delete(self) -> None:
        """Delete it with all entries, if it exists."""
        if self.is_there():
            self.system.delete_dir(self.place)

    def move(self, to: Folder) -> None:
        """Rename it; nothing may be there. On a disk it is there after a power loss too."""
        self.system.move(self.place, to.place)
        for each in (self.parent.local, to.parent.local):
            if each is not None:
                _sync(each)

    def sync(self) -> None:
        """Have all that it holds survive a power loss: what follows depends on it. Other systems than a disk do so."""
        if self.local is not None:
            for each in (*self.local.rglob("*"), self.local):
                _sync(each)

    def entries(self) -> list[str]:
        """Return the names of its entries, without Hadoop's checksums, which are valid only for unchanged files."""
        found = self.system.get_file_info(fs.FileSelector(self.place, allow_not_found=True))
        return sorted(each.base_name for each in found if not each.base_name.endswith(".crc"))

    def numbers(self) -> list[int]:
        """Return the entries whose names are numbers, ascending."""
        return sorted(int(name) for name in self.entries() if name.isdigit())

    def text(self) -> str:
        """Return the text of a file."""
        with self.system.open_input_stream(self.place) as file:
            return str(file.read().decode())

    def write(self, text: str) -> None:
        """Write a file."""
        with self.system.open_output_stream(self.place) as file:
            file.write(text.encode())

    def copy(self, to: Folder) -> None:
        """Copy a file or a folder, without checksums: that of a changed file would not match."""
        info = self.system.get_file_info(self.place)
        if info.type == fs.FileType.File:
            with self.system.open_input_stream(self.place) as source, to.system.open_output_stream(to.place) as file:
                file.write(source.read())
        elif info.type == fs.FileType.Directory:
            to.system.create_dir(to.place)
            for name in self.entries():
                (self / name).copy(to / name)
