"""Launch commands as people paste them: read as a shell would read them, without anything being executed."""
