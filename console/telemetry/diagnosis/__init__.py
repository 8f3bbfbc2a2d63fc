"""What binds a server: pure rules over a window of samples, each with its signs and what would refute it."""
