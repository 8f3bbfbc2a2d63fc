"""Profiles and patches: TOML to words and back; errors name file, key and line."""
