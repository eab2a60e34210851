"""Windows by rows: slices in row numbers, between which rows move when one comes out of order."""
