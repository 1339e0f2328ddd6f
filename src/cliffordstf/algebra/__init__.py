"""Pure functions and exact tables: tracks, the geometric algebra, symmetric-traceless tensors and their couplings."""
