"""The way to one model: how many calls at once, retries, and what is known already."""
