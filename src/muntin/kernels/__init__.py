"""Kernels: plain Python loops, specialised for one aggregation by generated code, compiled and cached on disk."""
