"""Rules over programs and traces: what a person should know about a config before it runs."""
