"""Benchmarks: protocols as code, results as small JSON files with their provenance."""
