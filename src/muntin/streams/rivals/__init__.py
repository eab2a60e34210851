"""The rivals of slicing: buckets, a tree over tuples, Pairs and Cutty. Baselines of benchmarks and oracles of tests."""
