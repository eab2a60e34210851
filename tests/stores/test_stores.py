"""Every store alone: values, ranges, leases, and errors that say what failed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from waiting import PATIENCE, until

from muntin import stores
from muntin.errors import InvalidArgumentError, LeaseError, StoreError
from muntin.stores import lmdb, numbered
from muntin.testing.faults import Faulty


def test_values(store: stores.Store) -> None:
    store.put_many({b"values:a": b"1", b"values:b": bytes(range(256)) * 400, b"values:empty": b""})
    store.put_many({b"values:a": b"2"})
    store.put_many({})
    store.flush()
    found = store.get_many([b"values:b", b"values:none", b"values:a", b"values:empty"])
    assert found == [bytes(range(256)) * 400, None, b"2", b""]
    assert store.get_many([]) == []


def test_ranges(store: stores.Store) -> None:
    store.put_many({numbered(b"ranges:", n): b"%d" % n for n in range(3000)})
    assert store.delete_range(b"ranges:", 10, 2500) == 2490
    assert store.delete_range(b"ranges:", 0, 11) == 10
    store.flush()
    left = store.get_many([numbered(b"ranges:", n) for n in (5, 10, 2499, 2500, 2999)])
    assert left == [None, None, None, b"2500", b"2999"]


def test_a_lease_is_held_once(store: stores.Store) -> None:
    lease = store.lease(b"window")
    with pytest.raises(LeaseError, match="'window' is open already"):
        store.lease(b"window")
    store.lease(b"another").release()
    lease.renew()
    lease.release()
    lease.release()
    store.lease(b"window").release()


def test_a_lease_of_redis_ends_with_its_holder(redis) -> None:
    short = stores.Redis(redis.url, lease_seconds=0.1)
    lost = short.lease(b"ends")
    store = stores.Redis(redis.url, lease_seconds=PATIENCE)
    until(lambda: not store._client.exists(lost._key))
    taken = store.lease(b"ends")
    with pytest.raises(LeaseError, match="another process has taken"):
        lost.renew()
    lost.release()
    with pytest.raises(LeaseError):
        store.lease(b"ends")
    taken.release()
    store.close()
    short.close()


def test_two_processes_share_a_file_and_a_lease_dies_with_its_holder(tmp_path: Path) -> None:
    store = stores.Lmdb(tmp_path)
    program = (
        "import sys; from muntin import stores; store = stores.Lmdb(sys.argv[1]); lease = store.lease(b'w');"
        "store.put_many({b'k': b'v'}); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert store.get_many([b"k"]) == [b"v"]
        with pytest.raises(LeaseError):
            store.lease(b"w")
        other.kill()
    store.lease(b"w").release()
    store.close()


def test_a_lease_of_a_file_leaves_no_handle_open(tmp_path: Path) -> None:
    """The lock alone would do for others, and a process that opens windows for ever would run out of handles."""
    store = stores.Lmdb(tmp_path)

    def handles() -> int:
        return sum(each.resolve().name.startswith("lease-") for each in Path("/proc/self/fd").iterdir())

    before = handles()
    for _ in range(3):
        lease = store.lease(b"w")
        assert handles() == before + 1
        lease.release()
        lease.release()
    assert handles() == before
    store.close()


def test_stores_that_cannot_be_reached(tmp_path: Path) -> None:
    nobody = stores.Redis("redis://127.0.0.1:1/0", timeout=0.5)
    for operation in (
        lambda: nobody.get_many([b"a"]),
        lambda: nobody.put_many({b"a": b"b"}),
        lambda: nobody.delete_range(b"a", 0, 1),
        nobody.flush,
        lambda: nobody.lease(b"w"),
    ):
        with pytest.raises(StoreError, match="in Redis"):
            operation()
    with pytest.raises(InvalidArgumentError, match=r"'ftp://\.\.\.@somewhere' is no URL") as caught:
        stores.Redis("ftp://me:secret@somewhere")
    assert "secret" not in str(caught.value)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot open"):
        stores.Lmdb(tmp_path / "file")
    closed = stores.Lmdb(tmp_path / "folder")
    closed.close()
    closed.close()
    for use in (lambda: closed.get_many([b"a"]), closed.flush, lambda: closed.lease(b"w")):
        with pytest.raises(StoreError, match="closed"):
            use()
    full = stores.Lmdb(tmp_path / "small", most_bytes=1 << 16)
    with pytest.raises(StoreError, match="cannot write"):
        full.put_many({b"large": bytes(1 << 20)})
    full.close()


def test_stores_of_one_folder_agree_on_how_durable_it_is(tmp_path: Path) -> None:
    first = stores.Lmdb(tmp_path)
    with pytest.raises(InvalidArgumentError, match="durable=False"):
        stores.Lmdb(tmp_path, durable=True)
    second = stores.Lmdb(tmp_path)
    first.close()
    second.put_many({b"a": b"1"})
    second.close()
    third = stores.Lmdb(tmp_path, durable=True)
    assert third.get_many([b"a"]) == [b"1"]
    third.close()


def test_a_lease_that_cannot_be_asked_for_is_not_one_that_is_held(tmp_path: Path) -> None:
    store = stores.Lmdb(tmp_path / "folder")
    held = store.lease(b"w")
    held.release()
    for file in (tmp_path / "folder").glob("lease-*"):
        file.unlink()
        file.mkdir()
    with pytest.raises(StoreError, match="cannot lease the window 'w'") as caught:
        store.lease(b"w")
    assert not isinstance(caught.value, LeaseError)
    store.close()


def test_the_bounds_of_a_file(tmp_path: Path) -> None:
    for least_wrong in (0, 1 << 63):
        with pytest.raises(InvalidArgumentError, match="most_bytes is"):
            stores.Lmdb(tmp_path, most_bytes=least_wrong)


def test_pages_go_back_after_so_much_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[Path] = []
    monkeypatch.setattr(lmdb, "MOST_MAPPED", 100)
    monkeypatch.setattr(lmdb, "_unmap_pages", given_back.append)
    store = stores.Lmdb(tmp_path)
    store.put_many({b"a": bytes(60), b"b": bytes(40)})
    assert given_back == [], "not more than that"
    assert store.get_many([b"a", b"c"]) == [bytes(60), None]
    assert given_back == [tmp_path / "data.mdb"]
    store.put_if(b"c", None, {b"a": bytes(100)})
    assert len(given_back) == 1, "counted from the last time on"
    store.get_many([b"a"])
    assert len(given_back) == 2
    store.close()
    assert store._environment is None


def test_a_file_is_closed_while_pages_go_back(tmp_path: Path) -> None:
    store = stores.Lmdb(tmp_path)
    store.put_many({b"a": bytes(1 << 20)})
    failures: list[Exception] = []
    begun = threading.Event()

    def read() -> None:
        try:
            while True:
                store._traffic = 1 << 24
                store.get_many([b"a"])
                begun.set()
        except StoreError as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(PATIENCE)
    store.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert len(failures) == 1


def test_a_file_is_closed_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    """What a reader looks at would no longer be mapped, which ends the process."""
    store = stores.Lmdb(tmp_path)
    store.put_many({b"a": b"1"})
    with store._attempt("read") as environment:
        closing = threading.Thread(target=store.close)
        closing.start()
        closing.join(0.1)
        assert closing.is_alive()
        with environment.begin() as transaction:
            assert transaction.get(b"a") == b"1"
    closing.join(PATIENCE)
    assert not closing.is_alive()
    with pytest.raises(StoreError, match="is closed"):
        store.get_many([b"a"])


def test_redis_waits_for_replicas(redis) -> None:
    store = stores.Redis(redis.url + f"?socket_timeout={PATIENCE}", replicas=1, timeout=0.1)
    with pytest.raises(StoreError, match="fewer than 1 replicas"):
        store.flush()
    store.close()


def test_faults_on_demand() -> None:
    inner = stores.Memory()
    store = Faulty(inner)
    store.put_many({numbered(b"k", 1): b"1234"})
    assert len(inner) == 0, "a crash may lose it"
    store.flush()
    assert len(inner) == 1
    store.tear_next()
    with pytest.raises(StoreError, match="torn"):
        store.put_many({numbered(b"k", 2): b"1234"})
    assert store.get_many([numbered(b"k", 2)]) == [b"12"]
    store.failing = True
    with pytest.raises(StoreError, match="failing"):
        store.flush()
    store.failing = False
    store.delay = 0.05
    begun = time.monotonic()
    assert store.get_many([numbered(b"k", 1)]) == [b"1234"]
    assert time.monotonic() - begun >= 0.05
    store.delay = 0.0
    for n in range(40):
        store.put_many({numbered(b"c", n): b"abcd"})
    store.lease(b"w")
    store.crash()
    found = store.get_many([numbered(b"c", n) for n in range(40)])
    lost = found.count(None)
    assert 0 < lost < 40
    assert b"ab" in found
    assert b"abcd" in found
    store.lease(b"w").release()
    store.delete_range(b"c", 0, 40)
    store.flush()
    assert store.get_many([numbered(b"c", n) for n in range(40)]) == [None] * 40
    assert store.operations > 50
