"""Rows in order: one ordered store for the windows whose edges depend on the rows themselves.

Here belong the tree of rows, what folds it, and the strategies that read it. States between edges that are known ahead
are in `slices`.
"""
