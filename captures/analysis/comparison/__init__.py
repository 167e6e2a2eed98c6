"""Two captures, or two stretches of time of one: what differs, how surely, and what differs most."""
