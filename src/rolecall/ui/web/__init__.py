"""`rolecall web`: a local page to see, edit, compare and try prompts, and to read runs."""
