"""The command: `cliffordstf`, `python -m cliffordstf` and `torchrun -m cliffordstf`."""

from cliffordstf.host.openmp import spin_briefly


def main() -> None:
    """Set up the process, which belongs to the command, and run it."""
    spin_briefly()
    from cliffordstf.cli.main import run  # noqa: PLC0415 - it loads torch, which loads OpenMP

    run()


if __name__ == "__main__":
    main()
