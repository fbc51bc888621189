"""Postprocessors: from a reply to the answer in it."""
