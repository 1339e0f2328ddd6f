"""Configs, the models that wire the layers together, and the potential around them."""
