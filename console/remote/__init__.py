"""The only way to a host: connection, programs, files and HTTP; `outpost/` is the part that is sent."""
