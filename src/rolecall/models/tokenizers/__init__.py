"""Tokenizers: text to token ids and back, as the model does it."""
