"""Slicing: windows, aggregators and time brought together.

A `Question` says what is asked (question.py), a `Strategy` keeps what windows need of the rows (strategy.py), and
plan.py chooses one for each window: `by_time` and `by_rows` are stream slicing, `sorted_runs` what slices keep of
holistic aggregations, `buffered` the rows themselves, and `rivals` are the ways that slicing is measured against.
decisions.py tells why rows are kept; finite.py and over_rows.py answer whole tables.
"""
