"""One dataset × one model: entries of a config in, fitted requests out."""
