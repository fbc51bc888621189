"""Wordings: templates, examples and the script of turns that they come to."""
