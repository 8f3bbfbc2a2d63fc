"""The front door in Textual: app, bridge, worker, actions, panes, screens, modals, widgets."""
