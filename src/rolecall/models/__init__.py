"""Models that answer requests (servers, local engines, functions), and their tokenizers."""
