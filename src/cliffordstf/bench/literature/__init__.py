"""Numbers that others have published, each with its source, in our units."""
