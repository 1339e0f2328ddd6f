"""LAMMPS: `pair_style cliffordstf`, a plugin on the native runtime."""
