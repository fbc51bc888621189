"""Text to token ids and back, as the model itself does it."""
