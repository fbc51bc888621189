"""Write requests, results or training data to a file."""
