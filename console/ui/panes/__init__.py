"""Panes of the cockpit: each holds the widgets of one subject and calls its operations."""
