"""Training data from GFN2-xTB: sample structures, label them, write them with their provenance."""
