"""Finite tables: all windows of sorted rows, and the tables of answers."""
