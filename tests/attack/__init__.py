"""Attacks on everything that opens files: damaged copies of genuine ones, and what came of them.

`python -m tests.attack` runs them by the thousand and writes a table; the tests of this folder run a few of each.
"""
