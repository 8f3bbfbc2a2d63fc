"""vLLM: its command line, its log, its endpoints."""
