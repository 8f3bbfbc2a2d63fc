"""The verbs: everything an operator can do; the only writer of the store."""
