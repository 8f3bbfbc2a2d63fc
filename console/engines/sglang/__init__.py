"""SGLang 0.4.6 and later: command line, log lines, phases, failures, endpoints."""
