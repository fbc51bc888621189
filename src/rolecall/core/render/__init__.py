"""Model formats: meta templates, chat templates and messages, with the origin of every character."""
