"""User-defined windows are sent by value, and nothing of PySpark is changed for it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark.cloudpickle
import pytest

from muntin import Query, agg, window
from muntin.spark.own import pickled

MODULE = """
from muntin import window

class Own(window.ContextFree):
    length = 7

    def next_edge(self, times):
        return helper(self)

    ended = next_edge

def helper(own):
    return own.length
"""
READ = """
import pickle, sys
try:
    query = pickle.loads(sys.stdin.buffer.read())
except ModuleNotFoundError as error:
    print(error.name)
else:
    print(query.windows[0].next_edge(0))
"""


def read(data: bytes) -> str:
    """Return what a process finds that lacks the module."""
    return subprocess.run([sys.executable, "-c", READ], input=data, capture_output=True, check=True).stdout.decode()


def test_the_windows_of_a_user_are_sent_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From several threads at once; their module is not registered afterwards, unless the user has done so."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "theirs.py").write_text(MODULE)
    theirs = importlib.import_module("theirs")
    query = Query([theirs.Own(), window.tumbling(10)], {"n": agg.count()}, time="t")
    before = set(pyspark.cloudpickle.list_registry_pickle_by_value())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            sent = set(threads.map(pickled, [query] * 50))
    finally:
        sys.setswitchinterval(interval)
    assert set(pyspark.cloudpickle.list_registry_pickle_by_value()) == before
    assert [read(each) for each in sent] == ["7\n"] * len(sent)
    pyspark.cloudpickle.register_pickle_by_value(theirs)
    try:
        assert read(pickled(query)) == "7\n"
        assert "theirs" in pyspark.cloudpickle.list_registry_pickle_by_value()
    finally:
        pyspark.cloudpickle.unregister_pickle_by_value(theirs)


def test_a_module_that_cannot_be_pickled_is_sent_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = MODULE.replace("return own.length", "return LOCK")
    (tmp_path / "locked.py").write_text("import threading\nLOCK = threading.Lock()\n" + source)
    query = Query(importlib.import_module("locked").Own(), {"n": agg.count()}, time="t")
    assert read(pickled(query)) == "locked\n"
    assert "locked" not in pyspark.cloudpickle.list_registry_pickle_by_value()
