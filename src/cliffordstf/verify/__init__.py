"""Proofs by numbers: the coupling table, the symmetries of every preset, and the physics any potential must obey."""
