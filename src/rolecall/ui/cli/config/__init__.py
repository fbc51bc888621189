"""Show configs, and list what they can name."""
