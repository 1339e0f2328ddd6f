"""How near a model comes to what the machine can do: peaks, roofline, and where the time of a step goes."""
