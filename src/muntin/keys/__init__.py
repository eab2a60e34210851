"""Keys to numbers: each combination of key values gets a small integer."""
