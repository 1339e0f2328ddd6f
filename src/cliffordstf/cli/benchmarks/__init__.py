"""`cliffordstf bench …`: the commands of the benchmarks, which register themselves with `bench_app`."""

from cliffordstf.cli.benchmarks import checks, scale, studies
from cliffordstf.cli.benchmarks.bench import bench_app

__all__ = ["bench_app", "checks", "scale", "studies"]
