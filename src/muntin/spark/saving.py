"""`muntin.spark.savepoint`: a copy of a checkpoint as of its last committed batch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from muntin.errors import InvalidArgumentError, SnapshotError
from muntin.spark.folders import Folder

_REMEDY = "give a folder of a disk, or of a file system that Arrow knows"
_TRIES = 5
"""Spark may delete old files of a running query while they are copied: then the copy begins again."""


def savepoint(checkpoint: str | Path, target: str | Path) -> int:
    """Copy a query's checkpoint as of its last committed batch, and return the number of that batch.

        muntin.spark.savepoint("checkpoint/", "before-the-change/")
        new.spark(calls, checkpoint="before-the-change/", adopt=True).writeStream...

    The query may be running: it is not disturbed, and batches that it commits meanwhile are not in the copy. A restart,
    `rescale` and `adopt=True` take the copy as they take the checkpoint. It is of a query of its own, so that both may
    run in one session; a sink of files notes batches by itself, and needs another folder then. `target` must not exist,
    and is there once it is whole. Both must be folders that this process can reach: on a disk, or on a file system that
    Arrow supports. O(state).
    """
    old, new = Folder.of(checkpoint, _REMEDY), Folder.of(target, _REMEDY)
    if new.is_there():
        raise InvalidArgumentError(f"target is {str(target)!r}, which is there already: give a new place")
    for attempt in range(_TRIES):
        part = new.parent / f".muntin-savepoint-{uuid4().hex}"
        try:
            last = _copy(old, part, new)
            part.sync()
            part.move(new)
        except FileNotFoundError:
            if attempt == _TRIES - 1:
                raise
        else:
            return last
        finally:
            part.delete()
    raise AssertionError


def _copy(old: Folder, new: Folder, target: Folder) -> int:
    """Copy what a batch and those before it have written, to be moved to the target; return its number."""
    committed = (old / "commits").numbers()
    if not committed:
        raise SnapshotError(f"{old.uri!r} holds nothing: no batch has been committed there yet")
    last = committed[-1]
    new.system.create_dir(new.place)
    for name in ("commits", "offsets"):
        new.system.create_dir((new / name).place)
        for number in (old / name).numbers():
            if number <= last:
                (old / name / str(number)).copy(new / name / str(number))
    for source in _files(old / "sources"):
        _copied(source, old, new)
    for file in _files(old / "state"):
        version = file.name.partition(".")[0].partition("_")[0]
        if file.parent.name == "metadata" or not version.isdigit() or int(version) <= last + 1:
            copied = _copied(file, old, new)
            if "/_metadata/" in file.place:
                copied.write(_elsewhere(copied.text(), old, target))
    known = json.loads((old / "metadata").text())
    (new / "metadata").write(json.dumps({**known, "id": str(uuid4())}))
    return last


def _files(folder: Folder) -> Iterator[Folder]:
    """Yield all files below a folder but those that are being written, whose names begin with a dot."""
    for name in folder.entries():
        entry = folder / name
        if not name.startswith("."):
            yield from [entry] if entry.is_file() else _files(entry)


def _elsewhere(text: str, old: Folder, new: Folder) -> str:
    """Return metadata of a state that is elsewhere: Spark notes there where the schemas are, by their whole paths."""
    place = f"file:{new.place}" if new.local is not None else new.uri
    return re.sub(rf"[\w+.-]+:(//[^/\"]*)?{re.escape(old.place)}(?=/)", lambda _: place, text)


def _copied(file: Folder, old: Folder, new: Folder) -> Folder:
    to = new
    for name in file.place.removeprefix(f"{old.place}/").split("/"):
        to = to / name
    new.system.create_dir(to.parent.place)
    file.copy(to)
    return to
