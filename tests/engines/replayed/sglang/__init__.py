"""A recorded engine for tests of launching: what a real SGLang printed and answered, at the pace it had."""

__version__ = "0.5.13"
