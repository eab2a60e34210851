"""The live page: windows, raw rows at every zoom, and the health of what makes them. `muntin.watch` opens it."""
