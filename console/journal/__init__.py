"""What was done and measured, kept for ever: runs, measurements, writes (SQLite)."""
