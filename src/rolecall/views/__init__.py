"""What people and programs see of requests: the terminal, plain text, JSON lines and batch files."""
