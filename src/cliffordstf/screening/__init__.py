"""Predict, relax or convert any number of structures, a shard at a time.

A `task` is what is done with a structure (`prediction`, `relaxation`, `conversion`). A `shard_job` does it with those
of a shard and writes what came out, whole or not at all. `plan` divides files into such jobs and joins their results.
Jobs run where those of benchmarks do (`bench.jobs`).
"""
