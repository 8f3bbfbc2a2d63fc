"""A pretend host at the other end of the wire."""
