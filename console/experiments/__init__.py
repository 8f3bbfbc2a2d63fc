"""Experiments: arms, their order, statistics, verdicts."""
