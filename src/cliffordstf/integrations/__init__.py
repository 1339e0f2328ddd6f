"""Potentials inside other programs: ASE calculator, neighbour list with a skin, structure files."""
