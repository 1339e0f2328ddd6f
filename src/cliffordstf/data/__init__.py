"""From structures to batches: one data flow, structure -> neighbour list -> batch -> model."""
