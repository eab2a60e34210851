"""One file for each kind of window. Nothing outside `muntin.windows` imports one: all ask through `windows/base.py`."""
