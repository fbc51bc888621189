"""Configs assembled from what people type: a file of rows, models by name, and overrides for an existing config."""
