"""Load against a server, and what came of it."""
