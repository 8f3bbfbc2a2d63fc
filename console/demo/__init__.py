"""A pretend host at the other end of a real SSH connection, with the engine, the GPUs and the numbers of one afternoon."""
