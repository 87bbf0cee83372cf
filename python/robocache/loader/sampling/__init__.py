"""Which samples there are, and in which order they come."""
