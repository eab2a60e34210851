"""A growing folder of answers: which files are complete, and which are new.

A run of `muntin` renames a file into place when it is complete. Spark's streams list the files of every finished batch
in a log, `_spark_metadata`, and only listed files count: a retried batch has left others. A run that resumes from its
last save may rewrite files: then everything is read from the start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.errors import InvalidArgumentError

_LOG = "_spark_metadata"
Seen = tuple[int, int, int]
"""The identity of a file besides its name: its inode, size and modification time."""


class AnswersFolder:
    """Follows a folder of Parquet files, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_dir():
            raise InvalidArgumentError(f"{path} is a file; give the folder that answers are written to")
        self.path = path
        self._seen: dict[str, Seen] = {}

    def changes(self) -> tuple[bool, Iterator[pa.Table]]:
        """Return whether everything read before is void, and the new tables, in order of emission."""
        files = self._files()
        now = {each.name: _seen(each) for each in files}
        void = any(now.get(name) != seen for name, seen in self._seen.items())
        if void:
            self._seen = {}
        return void, self._tables([each for each in files if each.name not in self._seen], now)

    def _tables(self, files: list[Path], now: dict[str, Seen]) -> Iterator[pa.Table]:
        for file in files:
            try:
                table = pq.read_table(file, partitioning=None)
            except FileNotFoundError:
                return  # the run has just restarted; the next poll will see that
            except (pa.ArrowInvalid, OSError) as error:
                raise InvalidArgumentError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error
            yield table
            self._seen[file.name] = now[file.name]

    def _files(self) -> list[Path]:
        """Return the complete files, in the order written."""
        if not self.path.is_dir():
            return []
        if (self.path / _LOG).is_dir():
            return [self.path / name for name in _listed(self.path / _LOG) if (self.path / name).is_file()]
        found = sorted(each for each in self.path.glob("*.parquet") if each.name[0] not in "._")
        other = next((each for each in self.path.iterdir() if each.suffix in (".csv", ".json", ".jsonl")), None)
        if other is not None and not found:
            raise InvalidArgumentError(f"{other} is no Parquet: answers can be watched in Parquet files alone")
        return found


def _seen(file: Path) -> Seen:
    try:
        found = file.stat()
    except FileNotFoundError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _listed(log: Path) -> list[str]:
    """Return the names of the files in Spark's log, batch by batch.

    Batches are files named by number; now and then one contains all earlier ones, and is named `9.compact`.
    """
    batches: dict[int, Path] = {}
    compact = -1
    for each in log.iterdir():
        number, _, suffix = each.name.partition(".")
        if not number.isdigit() or suffix not in ("", "compact"):
            continue
        if suffix:
            compact = max(compact, int(number))
        if suffix or int(number) not in batches:
            batches[int(number)] = each
    names: dict[str, None] = {}
    for _, batch in sorted(each for each in batches.items() if each[0] >= compact):
        for line in batch.read_text(encoding="utf-8").splitlines()[1:]:
            entry = json.loads(line)
            name = unquote(Path(urlparse(entry["path"]).path).name)
            if entry["action"] == "add":
                names[name] = None
            else:
                names.pop(name, None)
    return list(names)
