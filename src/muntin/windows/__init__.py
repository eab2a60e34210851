"""Windows: where they begin and end. They know no values."""
