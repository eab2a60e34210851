"""Windows by time and sessions: one set of slices for all of them, as general stream slicing has it."""
