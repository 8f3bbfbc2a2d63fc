"""What is installed on a host: interpreters, packages, versions, git state."""
