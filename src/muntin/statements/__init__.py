"""SQL: statements as queries, and queries as statements.

sql        the door: muntin.sql
grammar    text to a tree, by sqlglot; places: where each part of it is
selects    clauses, table, select list; grouped and framed: what GROUP BY and OVER ask for
group_windows, frames, intervals, columns, aggregates, functions     the parts of a SELECT
writing    a query as a statement: Query.to_sql
"""
