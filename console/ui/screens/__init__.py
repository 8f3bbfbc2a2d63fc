"""Screens: the cockpit and what covers it for a while."""
