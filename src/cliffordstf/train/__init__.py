"""Training and evaluation: losses, the loop, checkpoints, metrics."""
