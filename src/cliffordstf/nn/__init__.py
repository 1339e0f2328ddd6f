"""Layers that own weights. Features are (atoms, components, channels); nothing here knows of files or data sets."""
