"""`python -m cliffordstf`, and `torchrun -m cliffordstf`."""

from cliffordstf.cli.main import run

if __name__ == "__main__":
    run()
