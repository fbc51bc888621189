"""A preview as blocks, lines or JSON, and the difference of two."""
