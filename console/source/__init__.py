"""Reading remote code: documents, search, symbols, diffs."""
