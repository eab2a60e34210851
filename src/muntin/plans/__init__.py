"""How a query runs, in words: which algorithm answers each window, and why."""
