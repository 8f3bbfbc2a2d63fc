"""The front door in a shell: text and JSON."""
