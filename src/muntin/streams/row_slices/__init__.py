"""Windows by rows: slices in row numbers; a row out of order moves rows between them."""
