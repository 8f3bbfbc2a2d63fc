"""Power and speed: the probe that is sent, samplers and sources."""
