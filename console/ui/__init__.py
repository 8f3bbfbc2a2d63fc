"""The front door in Textual: app, screens, widgets."""
