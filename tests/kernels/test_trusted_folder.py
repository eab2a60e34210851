"""The folder of compiled kernels: what is there is run, so nobody else may write to it, nor is damage loaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muntin.errors import CacheFolderWarning
from muntin.kernels import folder as folders
from muntin.kernels.compiler import import_file

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are those of POSIX")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of compiled kernels, which is just made."""
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path / "root"))
    folder = folders.cache_folder()
    assert folders.is_writable(folder)
    return folder


@posix
def test_it_is_made_for_its_user_alone(cache: Path) -> None:
    assert [each.stat().st_mode & 0o777 for each in (cache, cache.parent)] == [0o700, 0o700]
    assert folders.open_to_others(cache) is None
    assert folders.usable_folder() == cache


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
@pytest.mark.parametrize("up", [0, 1])
def test_it_is_not_used_where_others_can_write(cache: Path, mode: int, up: int) -> None:
    (cache, cache.parent)[up].chmod(mode)
    with pytest.warns(CacheFolderWarning, match="others can write to .*: chmod go-w"):
        other = folders.usable_folder()
    assert other != cache
    assert other.stat().st_mode & 0o777 == 0o700
    assert folders.usable_folder() == other  # and no second warning


@posix
def test_a_place_for_everybody_is_taken_only_where_nobody_can_replace_what_others_put_there(cache: Path) -> None:
    root = cache.parent.parent
    root.chmod(0o1777)
    assert folders.open_to_others(cache) is None
    root.chmod(0o777)
    assert folders.open_to_others(cache) == root


@posix
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() != 0, reason="only root can give files away")
def test_a_folder_or_a_file_of_another_user_is_not_used(cache: Path) -> None:
    path = cache / "file"
    folders.write_checked(path, b"magic", b"payload")
    assert folders.read_checked(path, b"magic") == b"payload"
    me, os_getuid = 4711, os.getuid
    try:
        os.getuid = lambda: me
        os.chown(path, 4712, -1)
        assert folders.read_checked(path, b"magic") is None
        os.chown(cache, 4712, -1)
        assert folders.open_to_others(cache) == cache
    finally:
        os.getuid = os_getuid


def test_no_byte_of_a_file_can_be_changed_unseen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    folders.write_checked(path, b"magic", bytes(range(60)))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        assert folders.read_checked(path, b"magic") is None
        assert not path.exists()
    path.write_bytes(whole)
    assert folders.read_checked(path, b"other") is None


def test_a_module_is_run_only_if_it_is_the_text_that_its_name_says(tmp_path: Path) -> None:
    text = b"answer = 42\n"
    path = tmp_path / f"muntin_kernel_{folders.hashlib.sha256(text).hexdigest()[:24]}.py"
    path.write_bytes(text)
    assert import_file(path).answer == 42
    kept = path.with_suffix(".bytecode")
    whole = kept.read_bytes()
    for at in range(0, len(whole), 7):
        kept.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert import_file(path).answer == 42
    path.write_bytes(b"answer = 43\n")
    with pytest.raises(OSError, match="is damaged"):
        import_file(path)
