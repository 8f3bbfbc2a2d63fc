"""Widgets: draw what they are given, and know no operation."""
