"""Ships user-defined windows to the workers, which may lack the module that defines them."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from muntin.query.query import Query


def send_by_value(query: Query) -> None:
    """Pickle the classes of user-defined windows by value, not by module name.

    Spark pickles the contents of `__main__` by value, those of modules by name; it adds the files of `addPyFile` to the
    path of its workers, but not to that of the process that first inspects a stateful query. Installed packages are
    everywhere, and stay names. Aggregations and policies are sent as source.
    """
    import pyspark.cloudpickle

    cloudpickle: Any = pyspark.cloudpickle
    for window in query.windows:
        module = sys.modules.get(type(window).__module__)
        if module is None or module.__name__ == "__main__" or is_installed(module):
            continue
        cloudpickle.register_pickle_by_value(module)
        try:
            cloudpickle.dumps(window)
        except Exception:  # noqa: BLE001  # its module may hold anything that cannot be pickled: then the name must do
            cloudpickle.unregister_pickle_by_value(module)


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
