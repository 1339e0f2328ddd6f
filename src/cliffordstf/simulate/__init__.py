"""Molecular dynamics and relaxation with any ASE calculator."""
