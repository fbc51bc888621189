"""Readers: the answer that a reply states or concludes, with the characters it stands in."""
