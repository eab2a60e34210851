"""Ships user-defined windows to the workers, which may lack the module that defines them.

Spark pickles the contents of `__main__` by value, those of modules by name; it adds the files of `addPyFile` to the
path of its workers, but not to that of the process that first inspects a stateful query. So the classes of user-defined
windows go by value. Installed packages are everywhere, and stay names. Aggregations and policies are sent as source.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from contextlib import ExitStack
from functools import cache
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from muntin.forks import Renewed
from muntin.windows.base import Window

_LOCK = Renewed(threading.Lock)
"""Held while modules are registered with PySpark's pickle, which all threads share."""


def pickled(value: Any) -> bytes:
    """Return a value pickled, with the user-defined windows in it by value. Nothing stays registered. O(value)."""
    import pyspark.cloudpickle

    cloudpickle: Any = pyspark.cloudpickle
    out = BytesIO()
    looking = _looking()(out)
    looking.dump(value)
    data = out.getvalue()
    with _LOCK(), ExitStack() as registered:
        for module in looking.modules - {sys.modules.get(name) for name in cloudpickle.list_registry_pickle_by_value()}:
            cloudpickle.register_pickle_by_value(module)
            try:
                data = cloudpickle.dumps(value)
            except Exception:  # noqa: BLE001  # it may hold anything that cannot be pickled: then its name must do
                cloudpickle.unregister_pickle_by_value(module)
            else:
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
    return data


@cache
def _looking() -> Any:
    """Return a pickler that notes the modules of user-defined windows."""
    import pyspark.cloudpickle

    base: Any = pyspark.cloudpickle.CloudPickler

    class Looking(base):  # type: ignore[misc]  # untyped
        def __init__(self, file: Any) -> None:
            super().__init__(file)
            self.modules: set[ModuleType] = set()

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, type) and issubclass(obj, Window):
                module = sys.modules.get(obj.__module__)
                if module is not None and module.__name__ != "__main__" and not is_installed(module):
                    self.modules.add(module)
            return super().reducer_override(obj)

    return Looking


def is_installed(module: ModuleType) -> bool:
    """Return whether a module is part of Python, or of an installed package.

    >>> import json
    >>> is_installed(json), is_installed(sys)
    (True, True)
    """
    where = getattr(module, "__file__", None)
    if where is None:
        return True
    places = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    return module.__name__.startswith("muntin.") or any(Path(where).resolve().is_relative_to(p) for p in places)
