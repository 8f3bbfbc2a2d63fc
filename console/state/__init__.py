"""The store: one immutable snapshot of what is known, and a stream of its changes."""
