"""`bench lammps`: steps of dynamics in simulation engines, side by side in one run."""
