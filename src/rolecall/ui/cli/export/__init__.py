"""`rolecall export`: requests, results or training data, written to a file."""
