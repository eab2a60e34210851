"""Expressions over the columns of a row: SQL in Spark's dialect, with Spark SQL's types and nulls.

grammar    text to sqlglot's tree, with the place of each part; places: errors that say where
parse      sqlglot's tree to ours; what is no expression is refused
tree       the parts of an expression, and how they are written
types      Spark's rules of types: common types, decimals, names
functions  the one table: what each function takes and gives, how Arrow computes it, what Spark is asked for
resolve    types of all parts, with each cast that Spark would add
arrow      evaluation by Arrow; casts, decimals, text: the parts where Arrow's meaning is another one
spark      the same as text for Spark, with the same meaning in its ANSI mode
rows       the columns and the condition of a query, over tables
"""
