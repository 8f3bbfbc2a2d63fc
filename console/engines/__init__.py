"""One adapter per inference server behind one protocol."""
