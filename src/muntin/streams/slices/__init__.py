"""Windows by time and sessions: one set of slices for all of them, as in general stream slicing."""
