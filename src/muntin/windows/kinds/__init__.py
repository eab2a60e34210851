"""One file per kind of window. Nothing outside `muntin.windows` imports one: all go through `windows/base.py`."""
