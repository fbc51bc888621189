"""Models behind Anthropic's messages API."""
