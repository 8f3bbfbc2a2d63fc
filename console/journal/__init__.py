"""What was done and measured, kept for ever: runs, measurements, telemetry and writes in one SQLite file."""
