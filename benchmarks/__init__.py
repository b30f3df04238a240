"""Measurements behind the project's figures, one module each, run by `python -m benchmarks`."""
