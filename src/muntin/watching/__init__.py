"""The live page: windows, raw rows at every zoom, and the health of the pipeline. `muntin.watch` opens it."""
