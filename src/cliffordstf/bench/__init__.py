"""Measurements with their provenance.

`jobs` runs studies, `studies` has one study a file, `speed` measures time and memory, `tables` turns result files into
tables and figures, and `literature` holds published numbers.
"""
