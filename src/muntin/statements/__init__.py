"""SQL: statements as queries, and queries as statements."""
