"""The strategy for rows that deletions may take back."""
