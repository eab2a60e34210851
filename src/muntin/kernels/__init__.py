"""Kernels: plain Python loops, specialised per aggregation by generated code, compiled and cached on disk."""
