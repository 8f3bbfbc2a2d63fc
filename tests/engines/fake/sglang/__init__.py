"""A pretend engine for tests of launching: SGLang's log lines, HTTP and processes, no model."""

__version__ = "0.5.9"
